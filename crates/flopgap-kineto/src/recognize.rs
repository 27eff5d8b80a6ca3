//! Whether a file is a trace: its outermost keys are read one after the other, however long their
//! values are, and nothing is held.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use crate::reader::decompressed;

/// No key that decides anything is longer.
const LONGEST_KEY: usize = 64;
/// Keys of `torch.profiler` that may stand before the events. They decide where a file ends before
/// these.
const BEFORE: [&[u8]; 4] =
    [b"schemaVersion", b"deviceProperties", b"distributedInfo", b"baseTimeNanoseconds"];

/// Whether a file is a Chrome trace, as `torch.profiler`, JAX and others write them, to find traces
/// among other files of JSON: an object with `traceEvents`, or a list of events. What was cut off
/// before its first event is one by the keys of `torch.profiler`.
///
/// # Errors
/// When the file cannot be read.
pub fn is_trace(path: impl AsRef<Path>) -> io::Result<bool> {
    let file = BufReader::with_capacity(1 << 12, File::open(path)?);
    // Damage behind the first bytes is reported when the file is read as what it is.
    let Ok(content) = decompressed(file) else { return Ok(false) };
    let mut bytes = Bytes { content: BufReader::with_capacity(1 << 16, content) };
    let mut had_key = false;
    Ok(bytes.is_trace(&mut had_key).unwrap_or(had_key))
}

/// The content, byte by byte. Nothing more of it, and what cannot be read, is the end.
struct Bytes<R> {
    content: BufReader<R>,
}

impl<R: Read> Bytes<R> {
    /// Whether it is a trace; `None` where it ends before that is known.
    fn is_trace(&mut self, had_key: &mut bool) -> Option<bool> {
        if self.peek()? == 0xef {
            self.take(3);
        }
        match self.next_visible()? {
            b'{' => self.object(|key| {
                *had_key |= BEFORE.contains(&key);
                key == b"traceEvents"
            }),
            b'[' => self.list(),
            _ => Some(false),
        }
    }

    /// Whether one of the keys of an object is `wanted`, behind its bracket; keys after that are
    /// not read.
    fn object(&mut self, mut wanted: impl FnMut(&[u8]) -> bool) -> Option<bool> {
        let mut key = Vec::new();
        loop {
            match self.next_visible()? {
                b'"' => {}
                b',' => continue,
                _ => return Some(false),
            }
            key.clear();
            self.string(&mut key)?;
            if self.next_visible()? != b':' {
                return Some(false);
            }
            if wanted(&key) {
                return Some(true);
            }
            if !self.skip_value()? {
                return Some(false);
            }
        }
    }

    /// Whether the first element of a list that says anything is an event.
    fn list(&mut self) -> Option<bool> {
        loop {
            if self.next_visible()? != b'{' {
                return Some(false);
            }
            let mut keys = 0;
            let is_event = self.object(|key| {
                keys += 1;
                key == b"ph"
            })?;
            if is_event || keys > 0 || self.next_visible()? != b',' {
                return Some(is_event);
            }
        }
    }

    /// Passes over a value; whether it is one.
    fn skip_value(&mut self) -> Option<bool> {
        let mut open = 0_u64;
        loop {
            match self.next_visible()? {
                b'"' => self.string(&mut Vec::new())?,
                b'{' | b'[' => open += 1,
                b'}' | b']' if open > 0 => open -= 1,
                b',' | b':' if open > 0 => continue,
                b'}' | b']' | b',' | b':' => return Some(false),
                _ => {
                    while !matches!(self.peek()?, b',' | b':' | b'}' | b']' | b'{' | b'[' | b'"') {
                        self.take(1);
                    }
                }
            }
            if open == 0 {
                return Some(true);
            }
        }
    }

    /// Passes over a text, behind its first quotation mark, and keeps its beginning as it is
    /// written.
    fn string(&mut self, text: &mut Vec<u8>) -> Option<()> {
        let mut is_escaped = false;
        loop {
            let byte = self.next()?;
            match byte {
                b'"' if !is_escaped => return Some(()),
                _ => is_escaped = byte == b'\\' && !is_escaped,
            }
            if text.len() < LONGEST_KEY {
                text.push(byte);
            }
        }
    }

    fn next_visible(&mut self) -> Option<u8> {
        loop {
            let byte = self.next()?;
            if !byte.is_ascii_whitespace() {
                return Some(byte);
            }
        }
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.take(1);
        Some(byte)
    }

    fn peek(&mut self) -> Option<u8> {
        self.content.fill_buf().ok()?.first().copied()
    }

    fn take(&mut self, bytes: usize) {
        self.content.consume(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> bool {
        let (_folder, [path]) = flopgap_testing::paths(["file"]);
        std::fs::write(&path, text).unwrap();
        is_trace(&path).unwrap()
    }

    #[test]
    fn the_length_of_what_stands_before_does_not_matter() {
        let long = "]}\\\"[{".repeat(50_000);
        for text in [
            format!(r#"{{"note": "{long}", "traceEvents": []}}"#),
            format!(r#" {{"{long}": [[1, nan, {{"a": "{long}"}}]], "x": -1e3, "traceEvents": [{{}}]}}"#),
            format!("\u{feff}{{\"a\":{{}},\n\"traceEvents\" :\n[],\"{long}\":0}}"),
            format!(r#"[{{}}, {{"name": "{long}", "ph": "X"}}]"#),
            format!(r#"{{"schemaVersion": 1, "note": "{long}"#),
        ] {
            assert!(found(&text), "{}", &text[..40]);
        }
    }

    #[test]
    fn other_json_is_no_trace() {
        for text in [
            "",
            "{",
            "{}",
            "[]",
            "[1, 2]",
            r#"[{"name": "x"}, {"ph": "X"}]"#,
            r#"{"schemaVersion": 2, "layers": []}"#,
            r#"{"a": {"traceEvents": []}}"#,
            r#"{"a": "traceEvents"}"#,
            r#"{"loss": 1} {"traceEvents": []}"#,
            r#"{"a": ], "traceEvents": []}"#,
            r#"{"name": "cut off"#,
            "[package]",
            "{'traceEvents': []}",
        ] {
            assert!(!found(text), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn nothing_panics(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..80)) {
            let mut bytes = Bytes { content: BufReader::new(&bytes[..]) };
            let _ = bytes.is_trace(&mut false);
        }
    }
}
