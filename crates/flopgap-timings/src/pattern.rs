//! Patterns for ranges: one grammar for every option that takes the name of a range.

use std::fmt;
use std::str::FromStr;

use flopgap_files::{ErrorKind, Hint};
use serde::{Deserialize, Serialize};

/// The name of ranges as a user writes it: `forward`, `model:forward`, `blocks.*`.
///
/// - `*` stands for any text, also for none. `\*` is a star and `\\` a backslash. Everything else
///   stands for itself: upper and lower case differ, and commas, spaces, slashes and brackets are
///   part of a name.
/// - `DOMAIN:NAME` is a range of an NVTX domain, `:NAME` one of the default domain. Without a
///   domain, a name is looked for in all of them.
///
/// A name without `*` means ranges of exactly this name. What tables show (`step_*`, with its
/// numbers folded) can be written as it is shown.
///
/// ```
/// use flopgap_timings::RangePattern;
///
/// let layers: RangePattern = "blocks.*".parse()?;
/// assert!(layers.matches("", "blocks.7") && layers.matches("model", "blocks.21.attn"));
/// let own: RangePattern = "model:forward".parse()?;
/// assert!(own.matches("model", "forward") && !own.matches("", "forward"));
/// let comma: RangePattern = "aten::mm, op_id = *".parse()?;
/// assert!(comma.matches("", "aten::mm, op_id = 7"));
/// # Ok::<(), flopgap_timings::InvalidPattern>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct RangePattern {
    text: String,
    /// The text between stars, with escapes resolved: one piece more than there are stars.
    pieces: Vec<String>,
}

/// A text that names no range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the name of a range is empty")]
pub struct InvalidPattern;

impl Hint for InvalidPattern {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Usage
    }
}

impl FromStr for RangePattern {
    type Err = InvalidPattern;

    fn from_str(text: &str) -> Result<RangePattern, InvalidPattern> {
        if text.is_empty() {
            return Err(InvalidPattern);
        }
        let mut pieces = Vec::new();
        let mut piece = String::new();
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '\\' => piece.push(chars.next_if(|next| matches!(next, '*' | '\\')).unwrap_or(c)),
                '*' => pieces.push(std::mem::take(&mut piece)),
                c => piece.push(c),
            }
        }
        pieces.push(piece);
        Ok(RangePattern { text: text.to_owned(), pieces })
    }
}

impl TryFrom<String> for RangePattern {
    type Error = InvalidPattern;

    fn try_from(text: String) -> Result<RangePattern, InvalidPattern> {
        text.parse()
    }
}

impl From<RangePattern> for String {
    fn from(pattern: RangePattern) -> String {
        pattern.text
    }
}

impl fmt::Display for RangePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl RangePattern {
    /// The pattern that means the ranges of one name alone, whatever characters it holds. One
    /// without text means ranges without a name.
    pub fn literal(name: &str) -> RangePattern {
        RangePattern { text: name.replace('\\', r"\\").replace('*', r"\*"), pieces: vec![name.to_owned()] }
    }

    /// The pattern that means all ranges: `*`.
    pub fn any() -> RangePattern {
        RangePattern { text: "*".to_owned(), pieces: vec![String::new(); 2] }
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it has a `*` that stands for other text.
    pub fn has_wildcard(&self) -> bool {
        self.pieces.len() > 1
    }

    /// Whether it means a range of this text in this domain; the default domain has no name.
    pub fn matches(&self, domain: &str, text: &str) -> bool {
        self.matches_text(text) || self.matches_text(&format!("{domain}:{text}"))
    }

    /// Whether the whole text is the pieces in their order, with anything between them.
    fn matches_text(&self, text: &str) -> bool {
        let [first, rest @ ..] = self.pieces.as_slice() else { return false };
        let Some(mut left) = text.strip_prefix(first.as_str()) else { return false };
        let [between @ .., last] = rest else { return left.is_empty() };
        for piece in between {
            let Some(at) = left.find(piece.as_str()) else { return false };
            left = &left[at + piece.len()..];
        }
        left.ends_with(last.as_str())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, domain: &str, text: &str) -> bool {
        pattern.parse::<RangePattern>().unwrap().matches(domain, text)
    }

    #[test]
    fn names_stand_for_themselves_and_stars_for_any_text() {
        for (pattern, domain, text) in [
            ("forward", "", "forward"),
            ("forward", "model", "forward"),
            (":forward", "", "forward"),
            ("model:forward", "model", "forward"),
            ("model:forward", "", "model:forward"),
            ("aten::mm, op_id = 7", "", "aten::mm, op_id = 7"),
            ("*", "", ""),
            ("*", "a", "b"),
            ("step_*", "", "step_12"),
            ("step_*", "", "step_"),
            ("*.attn.*", "", "blocks.7.attn.qkv"),
            ("a*b*c", "", "a b bc c"),
            ("mod*:forward", "model", "forward"),
            (r"a\*b", "", "a*b"),
            (r"C:\tmp", "", r"C:\tmp"),
            (r"a\\*", "", r"a\b"),
        ] {
            assert!(matches(pattern, domain, text), "{pattern} {domain}:{text}");
        }
        for (pattern, domain, text) in [
            ("forward", "", "forward_1"),
            ("forward", "", "Forward"),
            (":forward", "model", "forward"),
            ("model:forward", "", "forward"),
            ("step_*", "", "a step_1"),
            ("ab*ba", "", "aba"),
            (r"a\*b", "", "axb"),
            ("a?c", "", "abc"),
            ("[ab]", "", "a"),
        ] {
            assert!(!matches(pattern, domain, text), "{pattern} {domain}:{text}");
        }
        assert_eq!("".parse::<RangePattern>(), Err(InvalidPattern));
        let shown: RangePattern = serde_json::from_str("\"step_*\"").unwrap();
        assert_eq!((shown.to_string().as_str(), shown.has_wildcard()), ("step_*", true));
    }

    /// The slow way: every way to divide the text.
    fn slowly(pattern: &[char], text: &[char]) -> bool {
        match pattern {
            [] => text.is_empty(),
            ['*', rest @ ..] => (0..=text.len()).any(|at| slowly(rest, &text[at..])),
            [c, rest @ ..] => text.first() == Some(c) && slowly(rest, &text[1..]),
        }
    }

    proptest! {
        #[test]
        fn matching_is_that_of_all_divisions(pattern in "[ab*]{1,6}", text in "[ab]{0,8}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            let expected = slowly(&chars(&pattern), &chars(&text));
            prop_assert_eq!(pattern.parse::<RangePattern>().unwrap().matches_text(&text), expected);
        }

        #[test]
        fn a_literal_pattern_means_its_own_text(name in "[a*\\\\:é, ]{1,8}", other in "[a*\\\\:é, ]{1,8}") {
            let literal = RangePattern::literal(&name);
            prop_assert!(literal.matches_text(&name));
            prop_assert_eq!(literal.as_str().parse::<RangePattern>().unwrap(), literal.clone());
            prop_assert_eq!(literal.matches_text(&other), name == other);
        }
    }
}
