//! A place in the bytes that are in memory.

use std::borrow::Cow;

use super::Scalar;

/// Values within values, beyond which a file is not a trace.
const DEEPEST: u32 = 128;

/// Why parsing stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The bytes end within a value.
    Incomplete,
    Syntax(&'static str),
}

/// A string as it is written, without its quotes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Raw<'a> {
    pub(crate) bytes: &'a [u8],
    escaped: bool,
}

impl<'a> Raw<'a> {
    /// The text. What is not valid in it is replaced, as is half of a surrogate pair.
    pub(crate) fn text(self) -> Cow<'a, str> {
        if !self.escaped {
            return String::from_utf8_lossy(self.bytes);
        }
        let mut bytes = Vec::with_capacity(self.bytes.len());
        let mut rest = self.bytes;
        while let Some(at) = memchr::memchr(b'\\', rest) {
            bytes.extend_from_slice(&rest[..at]);
            let (code, after) = (rest.get(at + 1).copied().unwrap_or(b'\\'), at + 2);
            rest = rest.get(after..).unwrap_or_default();
            match code {
                b'n' => bytes.push(b'\n'),
                b't' => bytes.push(b'\t'),
                b'r' => bytes.push(b'\r'),
                b'b' => bytes.push(8),
                b'f' => bytes.push(12),
                b'"' | b'\\' | b'/' => bytes.push(code),
                b'u' => {
                    let (found, used) = unicode(rest);
                    rest = &rest[used..];
                    bytes.extend_from_slice(found.encode_utf8(&mut [0; 4]).as_bytes());
                }
                // Paths of Windows, which old versions wrote as they are.
                other => bytes.extend([b'\\', other]),
            }
        }
        bytes.extend_from_slice(rest);
        Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// The character after `\u`, and how many bytes it takes.
fn unicode(rest: &[u8]) -> (char, usize) {
    let four = |at: usize| {
        let digits = rest.get(at..at + 4).and_then(|digits| std::str::from_utf8(digits).ok())?;
        u32::from_str_radix(digits, 16).ok()
    };
    let Some(first) = four(0) else { return (char::REPLACEMENT_CHARACTER, 0) };
    if (0xd800..0xdc00).contains(&first)
        && rest.get(4..6) == Some(b"\\u")
        && let Some(second) = four(6).filter(|second| (0xdc00..0xe000).contains(second))
    {
        let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
        return (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), 10);
    }
    (char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER), 4)
}

/// A place in the bytes that are in memory.
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Whether the file ends with these bytes.
    at_end: bool,
}

impl<'a> Cursor<'a> {
    /// The bytes from a place that was passed to here.
    pub(crate) fn since(&self, at: usize) -> &'a [u8] {
        &self.bytes[at..self.at]
    }

    pub(crate) fn new(bytes: &'a [u8], at_end: bool) -> Cursor<'a> {
        Cursor { bytes, at: 0, at_end }
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// The next byte that is not space; it is not consumed.
    #[inline]
    pub(crate) fn peek(&mut self) -> Result<u8, Stop> {
        while let Some(&byte) = self.bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Ok(byte);
            }
            self.at += 1;
        }
        Err(Stop::Incomplete)
    }

    /// Whether nothing but space follows to the end of the file.
    pub(crate) fn is_done(&mut self) -> Result<bool, Stop> {
        match self.peek() {
            Ok(_) => Ok(false),
            Err(_) if self.at_end => Ok(true),
            Err(stop) => Err(stop),
        }
    }

    pub(crate) fn skip_byte_order_mark(&mut self) {
        if self.bytes[self.at..].starts_with(b"\xef\xbb\xbf") {
            self.at += 3;
        }
    }

    #[inline]
    pub(crate) fn expect(&mut self, byte: u8, what: &'static str) -> Result<(), Stop> {
        if self.peek()? != byte {
            return Err(Stop::Syntax(what));
        }
        self.at += 1;
        Ok(())
    }

    /// Goes to the next member of an object or element of a list; false at its end, which is
    /// consumed. `first` is whether there was none before.
    #[inline]
    pub(crate) fn next_item(&mut self, end: u8, first: bool) -> Result<bool, Stop> {
        match self.peek()? {
            byte if byte == end => {
                self.at += 1;
                Ok(false)
            }
            _ if first => Ok(true),
            b',' => {
                self.at += 1;
                // A comma before the end, as programs that write event by event leave it.
                if self.peek()? == end {
                    self.at += 1;
                    return Ok(false);
                }
                Ok(true)
            }
            _ => Err(Stop::Syntax("expected `,` or the end of a list or object")),
        }
    }

    /// The next member's key, up to its value.
    #[inline]
    pub(crate) fn key(&mut self) -> Result<Raw<'a>, Stop> {
        let key = self.string()?;
        self.expect(b':', "expected `:`")?;
        Ok(key)
    }

    #[inline]
    pub(crate) fn string(&mut self) -> Result<Raw<'a>, Stop> {
        self.expect(b'"', "expected a string")?;
        let start = self.at;
        let mut escaped = false;
        loop {
            let found = memchr::memchr2(b'"', b'\\', &self.bytes[self.at..]).ok_or(Stop::Incomplete)?;
            self.at += found;
            if self.bytes[self.at] == b'"' {
                let bytes = &self.bytes[start..self.at];
                self.at += 1;
                return Ok(Raw { bytes, escaped });
            }
            escaped = true;
            self.at += 2;
            if self.at > self.bytes.len() {
                return Err(Stop::Incomplete);
            }
        }
    }

    /// A number, a text, or nothing for any other value.
    #[inline]
    pub(crate) fn scalar(&mut self) -> Result<Scalar<'a>, Stop> {
        match self.peek()? {
            b'"' => Ok(Scalar::Text(self.string()?)),
            b'{' | b'[' => {
                self.skip()?;
                Ok(Scalar::None)
            }
            _ => {
                let word = self.word()?;
                Ok(match word[0] {
                    b'-' | b'0'..=b'9' => Scalar::Number(word),
                    _ => Scalar::None,
                })
            }
        }
    }

    /// A value that is neither a string nor a list nor an object: a number, `true`, `null`, and
    /// what some versions write besides (`nan`, `inf`).
    fn word(&mut self) -> Result<&'a [u8], Stop> {
        let rest = &self.bytes[self.at..];
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        match rest.iter().position(|byte| !is_part(byte)) {
            Some(0) => Err(Stop::Syntax("expected a value")),
            Some(length) => {
                self.at += length;
                Ok(&rest[..length])
            }
            None if self.at_end && !rest.is_empty() => {
                self.at += rest.len();
                Ok(rest)
            }
            None => Err(Stop::Incomplete),
        }
    }

    /// Passes over a value; its bytes.
    pub(crate) fn skip(&mut self) -> Result<&'a [u8], Stop> {
        let first = self.peek()?;
        let start = self.at;
        match first {
            b'"' => drop(self.string()?),
            b'{' | b'[' => {
                // One bit for each open bracket, 1 for an object.
                let (mut open, mut depth) = (0_u128, 0);
                loop {
                    let rest = &self.bytes[self.at..];
                    let next = rest.iter().position(|byte| matches!(byte, b'"' | b'{' | b'[' | b'}' | b']'));
                    self.at += next.ok_or(Stop::Incomplete)?;
                    match self.bytes[self.at] {
                        b'"' => {
                            self.string()?;
                            continue;
                        }
                        begin @ (b'{' | b'[') => {
                            if depth == DEEPEST {
                                return Err(Stop::Syntax("values nested too deeply"));
                            }
                            open = open << 1 | u128::from(begin == b'{');
                            depth += 1;
                        }
                        end => {
                            if (open & 1 == 1) != (end == b'}') {
                                return Err(Stop::Syntax("a bracket that does not fit"));
                            }
                            open >>= 1;
                            depth -= 1;
                        }
                    }
                    self.at += 1;
                    if depth == 0 {
                        break;
                    }
                }
            }
            _ => drop(self.word()?),
        }
        Ok(&self.bytes[start..self.at])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cursor(text: &str) -> Cursor<'_> {
        Cursor::new(text.as_bytes(), true)
    }

    #[test]
    fn strings_are_read_as_they_are_meant() {
        for (written, meant) in [
            (r#""plain""#, "plain"),
            (r#""a \"quoted\" name""#, "a \"quoted\" name"),
            (r#""tab\tline\nslash\/back\\""#, "tab\tline\nslash/back\\"),
            (r#""\u00e9 \ud83d\ude00 \ud83d""#, "é 😀 \u{fffd}"),
            (r#""C:\path\with""#, "C:\\path\\with"),
        ] {
            assert_eq!(cursor(written).string().unwrap().text(), meant, "{written}");
        }
        assert_eq!(cursor("\"cut off").string(), Err(Stop::Incomplete));
        assert_eq!(cursor("\"cut off\\").string(), Err(Stop::Incomplete));
    }

    #[test]
    fn values_are_passed_over_whole() {
        for value in [r#"{"a":[1,{"b":"}]"}],"c":nan}"#, "[]", "-1.5e3", "true", "\"x\\\"\"", "inf"] {
            let text = format!(" {value} ,");
            assert_eq!(cursor(&text).skip().unwrap(), value.as_bytes());
        }
        assert_eq!(cursor("{]").skip(), Err(Stop::Syntax("a bracket that does not fit")));
        assert_eq!(cursor("[[]").skip(), Err(Stop::Incomplete));
        let deep = "[".repeat(DEEPEST as usize + 2);
        assert_eq!(cursor(&deep).skip(), Err(Stop::Syntax("values nested too deeply")));
    }

    proptest! {
        /// What `serde_json` writes is read back.
        #[test]
        fn any_text_survives(text in "\\PC{0,20}", controls in "[\\x00-\\x1f\"\\\\]{0,5}") {
            let text = text + &controls;
            let written = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(cursor(&written).string().unwrap().text(), text);
        }

        #[test]
        fn nothing_panics(bytes in proptest::collection::vec(any::<u8>(), 0..60), at_end: bool) {
            let _ = Cursor::new(&bytes, at_end).skip();
            let _ = Cursor::new(&bytes, at_end).scalar();
            let _ = Cursor::new(&bytes, at_end).string().map(|raw| raw.text().into_owned());
        }
    }
}
