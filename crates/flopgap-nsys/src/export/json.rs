//! Events of the trace event format, one a line.

use std::fmt::{self, Write as _};

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
    line.push('"');
}

/// Where an event is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) pid: i64,
    pub(super) tid: i64,
}

/// One event, while it is put together.
#[derive(Debug, Default)]
pub(super) struct Event {
    line: String,
    args: bool,
}

impl Event {
    /// Begins an event of a phase (`X`, `B`, `M`…).
    pub(super) fn begin(&mut self, phase: char, name: &str, place: Place) -> &mut Event {
        self.line.clear();
        self.args = false;
        self.line.push_str("{\"name\":");
        string(&mut self.line, name);
        let _ = write!(self.line, ",\"ph\":\"{phase}\",\"pid\":{},\"tid\":{}", place.pid, place.tid);
        self
    }

    /// A field whose value is JSON already.
    pub(super) fn field(&mut self, key: &str, value: impl fmt::Display) -> &mut Event {
        let _ = write!(self.line, ",\"{key}\":{value}");
        self
    }

    fn key(&mut self, key: &str) {
        self.line.push_str(if self.args { "," } else { ",\"args\":{" });
        self.args = true;
        let _ = write!(self.line, "\"{key}\":");
    }

    /// An argument whose value is JSON already. Arguments come after all fields.
    pub(super) fn arg(&mut self, key: &str, value: impl fmt::Display) -> &mut Event {
        self.key(key);
        let _ = write!(self.line, "{value}");
        self
    }

    /// An argument that may be absent.
    pub(super) fn maybe(&mut self, key: &str, value: Option<i64>) -> &mut Event {
        if let Some(value) = value {
            self.arg(key, value);
        }
        self
    }

    /// An argument that is text.
    pub(super) fn text(&mut self, key: &str, value: &str) -> &mut Event {
        self.key(key);
        string(&mut self.line, value);
        self
    }

    /// Ends the event; its text.
    pub(super) fn finish(&mut self) -> &str {
        self.line.push_str(if self.args { "}}" } else { "}" });
        &self.line
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
