//! One CSV record: where its fields lie, without copying them.
//!
//! ncu does not double the quotes inside an NVTX name, so the rule is lenient: inside a quoted
//! field a quote ends the field only before a comma or the end of the line, two quotes stand for
//! one, and any other quote is text.

use std::borrow::Cow;

use memchr::{memchr, memchr2};

/// A field's content, its quotes excluded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    start: u32,
    end: u32,
    pub(super) quoted: bool,
    /// Some quotes are doubled.
    doubled: bool,
}

impl Span {
    pub(super) fn start(self) -> usize {
        self.start as usize
    }

    pub(super) fn end(self) -> usize {
        self.end as usize
    }

    /// Where the field begins in the record, its opening quote included.
    pub(super) fn raw_start(self) -> usize {
        self.start as usize - usize::from(self.quoted)
    }
}

/// The fields of the record at the front of the window.
#[derive(Debug, Default)]
pub(super) struct Record {
    spans: Vec<Span>,
    /// Bytes up to and including the line feed.
    pub(super) len: usize,
    /// Line feeds in it.
    pub(super) lines: u64,
    /// The columns that hold NVTX items.
    pub(super) nvtx: [Option<usize>; 2],
}

/// How parsing a record ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A whole record.
    Whole,
    /// The bytes end before the record does.
    NeedsMore,
    /// A quoted field runs into what is plainly the next row, or the file ends inside it: only the
    /// fields before it stand.
    Cut,
}

/// A field may hold line breaks (an NVTX name, a rule's text), but not this many: the bound keeps a
/// file full of quotes that never close linear.
const MAX_BREAKS: u32 = 16;
/// More columns than any page has.
const MAX_FIELDS: usize = 64 * 1024;

impl Record {
    pub(super) fn fields(&self) -> usize {
        self.spans.len()
    }

    pub(super) fn span(&self, index: usize) -> Option<Span> {
        self.spans.get(index).copied()
    }

    /// The field's bytes as they stand in the file, doubled quotes still doubled.
    pub(super) fn raw<'a>(&self, bytes: &'a [u8], index: usize) -> Option<&'a [u8]> {
        self.spans.get(index).map(|span| &bytes[span.start as usize..span.end as usize])
    }

    /// The field's text.
    pub(super) fn get<'a>(&self, bytes: &'a [u8], index: usize) -> Option<Cow<'a, [u8]>> {
        let span = self.spans.get(index)?;
        let raw = &bytes[span.start as usize..span.end as usize];
        Some(if span.doubled { Cow::Owned(undouble(raw)) } else { Cow::Borrowed(raw) })
    }

    /// Finds the fields of the record that `bytes` begins with; `at_end`: nothing follows `bytes`.
    pub(super) fn parse(&mut self, bytes: &[u8], at_end: bool) -> Outcome {
        self.spans.clear();
        self.lines = 0;
        self.len = 0;
        let mut at = 0;
        loop {
            let next = if bytes.get(at) == Some(&b'"') {
                match self.quoted(bytes, at + 1, at_end) {
                    Ok(next) => next,
                    Err(outcome) => return outcome,
                }
            } else {
                let Some(found) = memchr2(b',', b'\n', &bytes[at..]) else {
                    if !at_end {
                        return Outcome::NeedsMore;
                    }
                    self.push(at, trim_return(bytes, at, bytes.len()), false, false);
                    self.len = bytes.len();
                    return Outcome::Whole;
                };
                let end =
                    if bytes[at + found] == b'\n' { trim_return(bytes, at, at + found) } else { at + found };
                self.push(at, end, false, false);
                at + found
            };
            match bytes.get(next) {
                Some(b',') => at = next + 1,
                Some(_) => {
                    self.len = next + 1;
                    self.lines += 1;
                    return Outcome::Whole;
                }
                None => {
                    self.len = bytes.len();
                    return Outcome::Whole;
                }
            }
        }
    }

    /// Adds the quoted field whose content starts at `start`; the position of the comma or line
    /// feed behind it, or the end.
    fn quoted(&mut self, bytes: &[u8], start: usize, at_end: bool) -> Result<usize, Outcome> {
        let mut at = start;
        let mut doubled = false;
        let mut breaks = 0;
        loop {
            let Some(found) = memchr2(b'"', b'\n', &bytes[at..]) else {
                return Err(if at_end { self.cut(bytes, start) } else { Outcome::NeedsMore });
            };
            at += found;
            if bytes[at] == b'\n' {
                at += 1;
                self.lines += 1;
                let rest = &bytes[at..];
                // Long enough to see `"123456","123456",` whole.
                if rest.len() < 64 && !at_end {
                    return Err(Outcome::NeedsMore);
                }
                if starts_row(rest) {
                    self.len = at;
                    return Err(Outcome::Cut);
                }
                breaks += 1;
                if breaks > MAX_BREAKS {
                    return Err(self.cut(bytes, start));
                }
                continue;
            }
            match bytes.get(at + 1) {
                Some(b'"') => {
                    // `"",` may be an escaped quote before a comma or, after a bare quote in the
                    // text, the field's end: RFC 4180 decides, and ncu's own escaping agrees with
                    // it.
                    doubled = true;
                    at += 2;
                }
                Some(b',' | b'\n') => {
                    if doubled && self.inside_nvtx(&bytes[start..at]) {
                        at += 1;
                        continue;
                    }
                    self.push(start, at, true, doubled);
                    return Ok(at + 1);
                }
                Some(b'\r') if matches!(bytes.get(at + 2), Some(b'\n') | None) => {
                    if bytes.get(at + 2).is_none() && !at_end {
                        return Err(Outcome::NeedsMore);
                    }
                    self.push(start, at, true, doubled);
                    return Ok(at + 2);
                }
                Some(_) => at += 1,
                None if at_end => {
                    self.push(start, at, true, doubled);
                    return Ok(at + 1);
                }
                None => return Err(Outcome::NeedsMore),
            }
        }
    }

    /// Whether a quote behind `content` stands in an NVTX name (`say "hi", bob`): such a column
    /// ends behind a whole item, that is behind two quotes and a space.
    fn inside_nvtx(&self, content: &[u8]) -> bool {
        self.nvtx.contains(&Some(self.spans.len())) && !content.trim_ascii_end().ends_with(b"\"\"")
    }

    /// The field at `start` never closes: the record ends with that field's first line.
    fn cut(&mut self, bytes: &[u8], start: usize) -> Outcome {
        let breaks_before = memchr::memchr_iter(b'\n', &bytes[..start]).count() as u64;
        let (len, lines) = match memchr(b'\n', &bytes[start..]) {
            Some(found) => (start + found + 1, 1),
            None => (bytes.len(), 0),
        };
        self.len = len;
        self.lines = breaks_before + lines;
        Outcome::Cut
    }

    fn push(&mut self, start: usize, end: usize, quoted: bool, doubled: bool) {
        if self.spans.len() == MAX_FIELDS {
            return;
        }
        // Records are bounded by the scanner far below 4 GiB.
        let (start, end) = (u32::try_from(start).unwrap_or(u32::MAX), u32::try_from(end).unwrap_or(u32::MAX));
        self.spans.push(Span { start, end, quoted, doubled });
    }
}

/// Whether a line begins as ncu's rows, headers and messages do and as no text inside a field
/// would.
pub(super) fn starts_row(line: &[u8]) -> bool {
    if line.starts_with(b"==") || line.starts_with(b"\"ID\",\"") || line.starts_with(b"\"Process ID\",\"") {
        return true;
    }
    let Some(rest) = line.strip_prefix(b"\"") else { return false };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    digits > 0 && rest[digits..].starts_with(b"\",\"")
}

fn trim_return(bytes: &[u8], start: usize, end: usize) -> usize {
    if end > start && bytes[end - 1] == b'\r' { end - 1 } else { end }
}

fn undouble(raw: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = memchr(b'"', rest) {
        text.extend_from_slice(&rest[..=at]);
        let skip = at + 1 + usize::from(rest.get(at + 1) == Some(&b'"'));
        rest = &rest[skip..];
    }
    text.extend_from_slice(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The outcome, the fields and what is left.
    fn parse(text: &str, at_end: bool) -> (Outcome, Vec<String>, String) {
        let mut record = Record::default();
        let outcome = record.parse(text.as_bytes(), at_end);
        let field =
            |index| String::from_utf8(record.get(text.as_bytes(), index).unwrap().into_owned()).unwrap();
        (outcome, (0..record.fields()).map(field).collect(), text[record.len..].to_owned())
    }

    fn whole(text: &str) -> Vec<String> {
        let (outcome, fields, rest) = parse(text, true);
        assert_eq!((outcome, rest.as_str()), (Outcome::Whole, ""), "{text:?}");
        fields
    }

    #[test]
    fn fields_are_quoted_or_not() {
        assert_eq!(whole("\"a\",\"b,c\",d,\"\",\n"), ["a", "b,c", "d", "", ""]);
        assert_eq!(whole("\"a\"\r\n"), ["a"]);
        assert_eq!(whole("a,b\r\n"), ["a", "b"]);
        assert_eq!(whole("\"a\",b"), ["a", "b"]);
        assert_eq!(whole("\"say \"\"hi\"\"\"\n"), ["say \"hi\""]);
        assert_eq!(whole("\"two\nlines\",\"x\"\n"), ["two\nlines", "x"]);
    }

    #[test]
    fn a_quote_inside_a_field_is_text() {
        assert_eq!(whole("\"a \"q\" b\",\"c\"\n"), ["a \"q\" b", "c"]);
        // ncu: an item's own quotes doubled, the name's not.
        assert_eq!(
            whole("\" \"\"0:d:a \"q\":x:a \"q\"\"\" \",\"c\"\n"),
            [" \"0:d:a \"q\":x:a \"q\"\" ", "c"]
        );
    }

    #[test]
    fn an_unfinished_record_asks_for_more() {
        let text = "\"a\",\"two\nlines\",b\r\n";
        for length in 0..text.len() - 1 {
            let outcome = parse(&text[..length], false).0;
            assert_eq!(outcome, Outcome::NeedsMore, "{:?}", &text[..length]);
        }
    }

    #[test]
    fn an_open_quote_ends_at_the_next_row() {
        let (outcome, fields, rest) = parse("\"1\",\"cut off\n\"2\",\"7\",\"x\"\n", true);
        assert_eq!(
            (outcome, fields, rest.as_str()),
            (Outcome::Cut, vec!["1".to_owned()], "\"2\",\"7\",\"x\"\n")
        );
        let (outcome, _, rest) = parse("\"1\",\"cut off\n==ERROR== no\n", true);
        assert_eq!((outcome, rest.as_str()), (Outcome::Cut, "==ERROR== no\n"));
        let (outcome, fields, rest) = parse("\"1\",\"cut off\nmore", true);
        assert_eq!((outcome, fields.len(), rest.as_str()), (Outcome::Cut, 1, "more"));
    }
}
