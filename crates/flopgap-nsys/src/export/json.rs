//! Events of the trace event format, one a line.

use std::fmt::{self, Write as _};
use std::io::{self, Write};

/// Nanoseconds as microseconds with all their digits: the format counts in microseconds.
pub(super) struct Micros(pub(super) i128);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let ns = self.0.unsigned_abs();
        write!(f, "{sign}{}.{:03}", ns / 1000, ns % 1000)
    }
}

/// Appends `text` as a JSON string.
pub(super) fn string(line: &mut String, text: &str) {
    line.push('"');
    escaped(line, text);
    line.push('"');
}

/// Whether a byte of a text may need an escape: the last two begin U+2028 and U+2029, among others.
fn is_special(byte: u8) -> bool {
    byte < 0x20 || matches!(byte, b'"' | b'\\' | 0xe2)
}

/// Appends `text` as it stands between the quotes of a JSON string.
fn escaped(line: &mut String, text: &str) {
    // Nearly all names are plain.
    if !text.bytes().any(is_special) {
        line.push_str(text);
        return;
    }
    for character in text.chars() {
        match character {
            '"' => line.push_str("\\\""),
            '\\' => line.push_str("\\\\"),
            '\n' => line.push_str("\\n"),
            '\r' => line.push_str("\\r"),
            '\t' => line.push_str("\\t"),
            control if u32::from(control) < 0x20 => {
                let _ = write!(line, "\\u{:04x}", u32::from(control));
            }
            // Legal in JSON, but not in JavaScript before 2019.
            '\u{2028}' => line.push_str("\\u2028"),
            '\u{2029}' => line.push_str("\\u2029"),
            other => line.push(other),
        }
    }
}

/// Where an event is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) pid: i64,
    pub(super) tid: i64,
}

/// A buffer of events, of which the last is being built.
#[derive(Default)]
pub(super) struct Event {
    /// The events not yet written, and the one being built.
    lines: String,
    args: bool,
    /// The separator before the next event.
    separator: &'static str,
    digits: itoa::Buffer,
}

/// How many bytes of events are written at once.
const AT_ONCE: usize = 1 << 16;

impl Event {
    /// Begins an event of a phase (`X`, `B`, `M`…).
    pub(super) fn begin(&mut self, phase: char, name: &str, place: Place) -> &mut Event {
        self.begin_in(phase, None, name, place)
    }

    /// Begins an event called `domain:name`.
    pub(super) fn begin_in(
        &mut self,
        phase: char,
        domain: Option<&str>,
        name: &str,
        place: Place,
    ) -> &mut Event {
        self.args = false;
        self.lines.push_str(self.separator);
        self.separator = ",\n";
        self.lines.push_str("{\"name\":\"");
        if let Some(domain) = domain {
            escaped(&mut self.lines, domain);
            self.lines.push(':');
        }
        escaped(&mut self.lines, name);
        self.lines.push_str("\",\"ph\":\"");
        self.lines.push(phase);
        self.lines.push_str("\",\"pid\":");
        self.int(place.pid);
        self.lines.push_str(",\"tid\":");
        self.int(place.tid);
        self
    }

    fn int(&mut self, value: i64) {
        self.lines.push_str(self.digits.format(value));
    }

    /// The category, a word.
    pub(super) fn category(&mut self, category: &str) -> &mut Event {
        self.lines.push_str(",\"cat\":\"");
        self.lines.push_str(category);
        self.lines.push('"');
        self
    }

    /// A time in nanoseconds.
    pub(super) fn time(&mut self, key: &str, ns: i128) -> &mut Event {
        self.lines.push_str(",\"");
        self.lines.push_str(key);
        self.lines.push_str("\":");
        match u64::try_from(ns) {
            Ok(ns) => {
                self.lines.push_str(self.digits.format(ns / 1000));
                let rest = ns % 1000;
                self.lines.push('.');
                for digit in [rest / 100, rest / 10 % 10, rest % 10] {
                    self.lines.push(char::from(b'0' + digit.to_le_bytes()[0]));
                }
            }
            Err(_) => {
                let _ = write!(self.lines, "{}", Micros(ns));
            }
        }
        self
    }

    /// A field whose value is JSON already.
    pub(super) fn field(&mut self, key: &str, value: impl fmt::Display) -> &mut Event {
        let _ = write!(self.lines, ",\"{key}\":{value}");
        self
    }

    fn key(&mut self, key: &str) {
        self.lines.push_str(if self.args { ",\"" } else { ",\"args\":{\"" });
        self.args = true;
        self.lines.push_str(key);
        self.lines.push_str("\":");
    }

    /// An argument whose value is JSON already. Arguments come after all fields.
    pub(super) fn arg(&mut self, key: &str, value: impl fmt::Display) -> &mut Event {
        self.key(key);
        let _ = write!(self.lines, "{value}");
        self
    }

    /// An argument that is a number.
    pub(super) fn number(&mut self, key: &str, value: i64) -> &mut Event {
        self.key(key);
        self.int(value);
        self
    }

    /// An argument that is a list of numbers.
    pub(super) fn numbers(&mut self, key: &str, values: [i64; 3]) -> &mut Event {
        self.key(key);
        for (at, value) in values.into_iter().enumerate() {
            self.lines.push(if at == 0 { '[' } else { ',' });
            self.int(value);
        }
        self.lines.push(']');
        self
    }

    /// An argument that may be absent.
    pub(super) fn maybe(&mut self, key: &str, value: Option<i64>) -> &mut Event {
        if let Some(value) = value {
            self.number(key, value);
        }
        self
    }

    /// An argument that is text.
    pub(super) fn text(&mut self, key: &str, value: &str) -> &mut Event {
        self.key(key);
        string(&mut self.lines, value);
        self
    }

    /// Ends the event; true when there is enough to be written.
    pub(super) fn end(&mut self) -> bool {
        self.lines.push_str(if self.args { "}}" } else { "}" });
        self.lines.len() >= AT_ONCE
    }

    /// Begins the file.
    pub(super) fn open(&mut self) {
        self.lines.push_str("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
        self.separator = "\n";
    }

    /// Ends the file.
    pub(super) fn close(&mut self) {
        self.lines.push_str("\n]}\n");
    }

    /// Writes what was put together.
    pub(super) fn write(&mut self, out: &mut impl Write) -> io::Result<()> {
        let result = out.write_all(self.lines.as_bytes());
        self.lines.clear();
        result
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_nanosecond_is_written() {
        for (ns, text) in [
            (0, "0.000"),
            (1, "0.001"),
            (123_456, "123.456"),
            (1_000_000_007, "1000000.007"),
            (-1, "-0.001"),
            (-12_345, "-12.345"),
            (i128::from(i64::MAX), "9223372036854775.807"),
            (i128::from(i64::MIN), "-9223372036854775.808"),
        ] {
            assert_eq!(Micros(ns).to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn strings_come_back(text in "[\\x00-\\x7f\u{80}-\u{ffff}]{0,40}|\\PC*") {
            let mut line = String::new();
            string(&mut line, &text);
            prop_assert_eq!(serde_json::from_str::<String>(&line).unwrap(), text);
        }
    }
}
