//! The NVTX columns: which ranges were open when a kernel was launched.
//!
//! `2128  "<default domain>:step:none:none:none:none:none:none"
//! "dom:op:Int64:5:RGB:0xff00ff00:ASCII:op" `: the thread, then one item per range, outermost
//! first, behind two spaces each. An item is domain, name, payload type and value, color type and
//! value, message type and message, joined by colons that are not escaped: names and domains may
//! hold colons too.

use std::ops::Range;

use memchr::memmem;

/// One item of a column, as positions into the column's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) thread: Option<u64>,
    /// Empty where it is the default domain or the column has none.
    pub(super) domain: Range<usize>,
    pub(super) name: Range<usize>,
}

/// Which parts precede an item's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lead {
    /// `domain:name...`, in the push/pop column.
    Domain,
    /// `id:domain:name...`, in the start/end column.
    IdAndDomain,
    /// `name...`, in a summary by NVTX range, which has the domain in a column of its own.
    Nothing,
}

const DEFAULT_DOMAIN: &str = "<default domain>";

/// Calls `found` with every item of a column, outermost first.
pub(super) fn items(text: &str, lead: Lead, mut found: impl FnMut(Item)) {
    let mut thread = None;
    let mut at = 0;
    while let Some(open) = text[at..].find('"').map(|found| at + found) {
        if let Ok(tid) = text[at..open].trim().parse() {
            thread = Some(tid);
        }
        let start = open + 1;
        let end = item_end(text, start);
        let (domain, name) = split(&text[start..end], lead);
        let shift = |range: Range<usize>| start + range.start..start + range.end;
        found(Item { thread, domain: shift(domain), name: shift(name) });
        at = (end + 1).min(text.len());
    }
}

/// The closing quote of the item whose content begins at `start`: one with a next item, a next
/// thread or nothing behind it.
fn item_end(text: &str, start: usize) -> usize {
    let bytes = text.as_bytes();
    for quote in memchr::memchr_iter(b'"', &bytes[start..]).map(|found| start + found) {
        let behind = text[quote + 1..].trim_start_matches(' ');
        if behind.is_empty() {
            return quote;
        }
        let spaces = text.len() - quote - 1 - behind.len();
        let next = behind.trim_start_matches(|c: char| c.is_ascii_digit());
        if spaces >= 2 && (behind.starts_with('"') || next.len() < behind.len() && next.starts_with("  \"")) {
            return quote;
        }
    }
    text.len()
}

/// The domain and the name of an item.
fn split(item: &str, lead: Lead) -> (Range<usize>, Range<usize>) {
    let lead_end = match lead {
        Lead::IdAndDomain => item.find(':').map_or(0, |colon| colon + 1),
        Lead::Domain | Lead::Nothing => 0,
    };
    let tails = attributes(item);
    // With a message, the name is that message once more, which shows where both begin.
    let certain = tails.iter().find(|tail| tail.has_message && repeats_message(item, tail, lead_end, lead));
    let tail = certain.or(tails.last());
    let name_end = tail.map_or(item.len(), |tail| tail.start).max(lead_end);
    if lead == Lead::Nothing {
        return (0..0, 0..name_end);
    }
    if item[lead_end..name_end].strip_prefix(DEFAULT_DOMAIN).is_some_and(|rest| rest.starts_with(':')) {
        return (lead_end..lead_end, lead_end + DEFAULT_DOMAIN.len() + 1..name_end);
    }
    if let Some(tail) = certain {
        let name = name_end - (item.len() - tail.message);
        return (lead_end..(name - 1).max(lead_end), name..name_end);
    }
    match item[lead_end..name_end].find(':') {
        Some(colon) => (lead_end..lead_end + colon, lead_end + colon + 1..name_end),
        None => (lead_end..lead_end, lead_end..name_end),
    }
}

/// A place where the six attribute parts may begin.
struct Tail {
    /// The colon before the payload type.
    start: usize,
    /// Where the message begins.
    message: usize,
    has_message: bool,
}

/// Every place from which the rest of the item reads as attributes, the first one first. The last
/// one leaves the longest name, which is right when a name, not a message, holds what looks like
/// attributes.
fn attributes(item: &str) -> Vec<Tail> {
    const PAYLOADS: &str =
        "none unknown double float int64 uint64 int32 uint32 json jsonregistered int16 uint16";
    let mut tails = Vec::new();
    for start in memchr::memchr_iter(b':', item.as_bytes()) {
        let mut parts = item[start + 1..].splitn(6, ':');
        let mut next = || parts.next().unwrap_or("");
        let (payload, value, color_type, color, message_type, message) =
            (next(), next(), next(), next(), next(), next());
        let known = PAYLOADS.split(' ').any(|known| payload.eq_ignore_ascii_case(known));
        let colored = color == "none" || color.starts_with("0x") || color_type != "none";
        let no_message = message_type == "none" && message == "none";
        let has_message =
            ["ASCII", "UNICODE", "REGISTERED"].iter().any(|t| message_type.eq_ignore_ascii_case(t));
        if known && !value.is_empty() && colored && (no_message || has_message) {
            let message = item.len() - message.len();
            tails.push(Tail { start, message, has_message });
            if tails.len() == 16 {
                break;
            }
        }
    }
    tails
}

fn repeats_message(item: &str, tail: &Tail, lead_end: usize, lead: Lead) -> bool {
    let message = &item[tail.message..];
    let Some(head) = item.get(lead_end..tail.start).and_then(|head| head.strip_suffix(message)) else {
        return false;
    };
    head.ends_with(':') || (lead == Lead::Nothing && head.is_empty())
}

/// Whether a header names the push/pop column, the start/end column, or a summary's range column.
pub(super) fn is_push_pop_column(name: &str) -> bool {
    memmem::find(name.as_bytes(), b":Push/Pop_Range").is_some()
}

/// See [`is_push_pop_column`].
pub(super) fn is_start_end_column(name: &str) -> bool {
    memmem::find(name.as_bytes(), b":Start/Stop_Range").is_some()
}

/// See [`is_push_pop_column`].
pub(super) fn is_summary_range_column(name: &str) -> bool {
    name.starts_with("Range:PL_Type")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(text: &str, lead: Lead) -> Vec<(Option<u64>, String, String)> {
        let mut found = Vec::new();
        items(text, lead, |item| {
            found.push((item.thread, text[item.domain].to_owned(), text[item.name].to_owned()));
        });
        found
    }

    fn one(item: &str) -> (String, String) {
        let (_, domain, name) = ranges(&format!("7  \"{item}\" "), Lead::Domain).remove(0);
        (domain, name)
    }

    #[test]
    fn an_items_message_shows_where_its_name_begins() {
        let tail = "Double:1.500000:RGB:0xff112233:ASCII";
        assert_eq!(one(&format!("my:dom:a:b:{tail}:a:b")), ("my:dom".to_owned(), "a:b".to_owned()));
        assert_eq!(one(&format!("d:x:{tail}:x")), ("d".to_owned(), "x".to_owned()));
    }

    #[test]
    fn without_a_message_the_domain_ends_at_the_first_colon() {
        let none = "none:none:none:none:none:none";
        assert_eq!(one(&format!("<default domain>:aten::mm:{none}")), (String::new(), "aten::mm".to_owned()));
        assert_eq!(one(&format!("torch:aten::mm:{none}")), ("torch".to_owned(), "aten::mm".to_owned()));
        assert_eq!(one(&format!("<default domain>::{none}")), (String::new(), String::new()));
        // A name that looks like attributes.
        assert_eq!(one(&format!("d:{none}:{none}")), ("d".to_owned(), none.to_owned()));
    }

    #[test]
    fn several_threads_and_quotes_are_kept_apart() {
        let n = "none:none:none:none:none:none";
        let text = format!("7  \"d:a:{n}\"  \"d:b \"q\" c:{n}\"  8  \"d:c:{n}\" ");
        let names: Vec<_> =
            ranges(&text, Lead::Domain).into_iter().map(|(thread, _, name)| (thread, name)).collect();
        let expected = [(Some(7), "a"), (Some(7), "b \"q\" c"), (Some(8), "c")];
        assert_eq!(names, expected.map(|(thread, name)| (thread, name.to_owned())));
    }

    #[test]
    fn odd_texts_give_something_and_never_panic() {
        for text in [
            "",
            "\"",
            "7",
            "\"\"",
            "7  \"a",
            "\"a\"  \"",
            "\"<default domain>\u{e9}:\u{e9}\"",
            "\":::::::\" ",
            "\u{a0}\"x\u{a0}\"",
        ] {
            for lead in [Lead::Domain, Lead::IdAndDomain, Lead::Nothing] {
                ranges(text, lead);
            }
        }
    }
}
