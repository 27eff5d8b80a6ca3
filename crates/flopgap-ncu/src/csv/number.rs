//! Numbers as ncu prints them, in the locale of its user.
//!
//! One C++ stream prints most values with the locale's separators (`1,048,576`, `27.595.520`, `1
//! 048 576`, `12,34,567`), but some doubles of the raw page always come as `%f`: a point and six
//! decimals (`242.534957`), even in a file whose point groups thousands elsewhere. A number with
//! one separator followed by three digits (`117.344`) is ambiguous.

use std::fmt;

use crate::model::Value;

use super::cell::{Cell, Decimal};
use super::shape::Shape;

/// How whole part and decimals are separated in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum NumberFormat {
    /// Inferred from the values of the file; an ambiguous file is rejected.
    #[default]
    Auto,
    /// `1,234.5`: what `LC_ALL=C`, `en_US` and most of Asia print.
    Point,
    /// `1.234,5` or `1 234,5`: most of Europe and South America.
    Comma,
}

impl From<Decimal> for NumberFormat {
    fn from(decimal: Decimal) -> Self {
        match decimal {
            Decimal::Point => NumberFormat::Point,
            Decimal::Comma => NumberFormat::Comma,
        }
    }
}

impl fmt::Display for NumberFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NumberFormat::Auto => "an unknown character",
            NumberFormat::Point => "a point",
            NumberFormat::Comma => "a comma",
        })
    }
}

/// Reads one cell. `whole`: the metric counts, so `32,256.00` (what `--print-fp` makes of it) is
/// the integer 32256.
pub(crate) fn read(text: &[u8], decimal: Option<Decimal>, whole: bool) -> Cell {
    if let Some(plain) = read_plain(text) {
        return Cell::Number(Value::U64(plain), None);
    }
    let text = text.trim_ascii();
    let text = text.strip_prefix(b"(!)").map_or(text, <[u8]>::trim_ascii_start);
    let Some(&first) = text.first() else { return Cell::Absent };
    if is_absent(text) {
        return Cell::Absent;
    }
    match first {
        b'0'..=b'9' | b'-' | b'+' | b'.' | b',' => {}
        b'(' if is_instance_list(text) => return Cell::Absent,
        _ => return Cell::Text,
    }
    // `--print-metric-instances` appends the instances: `608 (32; 32; ...)`.
    let aggregate = match memchr::memmem::find(text, b" (") {
        Some(at) if text.ends_with(b")") => &text[..at],
        _ => text,
    };
    match Shape::of(aggregate) {
        Some(shape) => shape.read(decimal, whole),
        None if aggregate.iter().all(|byte| byte.is_ascii_digit() || b".,".contains(byte)) => Cell::Malformed,
        None => Cell::Text,
    }
}

/// Digits and nothing else, too few to overflow: most cells of a raw page.
fn read_plain(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 18 {
        return None;
    }
    text.iter().try_fold(0, |value, byte| byte.is_ascii_digit().then(|| value * 10 + u64::from(byte - b'0')))
}

fn is_absent(text: &[u8]) -> bool {
    const ABSENT: [&[u8]; 8] = [b"n/a", b"nan", b"-nan", b"no data", b"<null>", b"inf", b"-inf", b"-"];
    text.len() <= 7 && ABSENT.iter().any(|absent| text.eq_ignore_ascii_case(absent))
}

/// The aggregate of a text: `CachePreferNone (CachePreferNone)` has one instance.
pub(crate) fn without_instances(text: &[u8]) -> &[u8] {
    let split = text.strip_suffix(b")").and_then(|rest| Some((memchr::memmem::find(rest, b" (")?, rest)));
    match split {
        Some((at, rest))
            if at > 0
                && rest[at + 2..]
                    .split(|&byte| byte == b';')
                    .all(|instance| instance.ends_with(&text[..at])) =>
        {
            &text[..at]
        }
        _ => text,
    }
}

/// `(0.1; 0; 0)`: instances of a metric that has no aggregate.
fn is_instance_list(text: &[u8]) -> bool {
    text.ends_with(b")") && (memchr::memchr(b';', text).is_some() || memchr::memchr(b',', text).is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    const POINT: Option<Decimal> = Some(Decimal::Point);
    const COMMA: Option<Decimal> = Some(Decimal::Comma);

    fn number(text: &str, decimal: Option<Decimal>) -> Option<Value> {
        match read(text.as_bytes(), decimal, false) {
            Cell::Number(value, _) => Some(value),
            _ => None,
        }
    }

    #[test]
    fn shapes_prove_their_separators() {
        let proves = |text: &str| match read(text.as_bytes(), None, false) {
            Cell::Number(_, proven) => proven,
            cell => panic!("{text}: {cell:?}"),
        };
        for text in [
            "1,234,567",
            "1.5",
            "12,34,567",
            "1,234.5",
            "0.123",
            "1234.567",
            "1'234.5",
            "1 234.5",
            ".5",
            "5.",
        ] {
            assert_eq!(proves(text), POINT, "{text}");
        }
        for text in
            ["1.234.567", "1,5", "1.234,5", "0,123", "1234,567", "1 234,56", "1\u{202f}234\u{202f}567,8"]
        {
            assert_eq!(proves(text), COMMA, "{text}");
        }
        for text in ["0", "1234567", "1'234", "1 234 567", "242.534957", "-5"] {
            assert_eq!(proves(text), None, "{text}");
        }
    }

    #[test]
    fn one_separator_and_three_digits_are_ambiguous() {
        for text in ["117.344", "1,024", "999.999", "-1.234"] {
            assert_eq!(read(text.as_bytes(), None, true), Cell::Ambiguous, "{text}");
        }
        assert_eq!(number("117.344", COMMA), Some(Value::U64(117_344)));
        assert_eq!(number("117.344", POINT), Some(Value::F64(117.344)));
    }

    #[test]
    fn the_other_separator_contradicts() {
        for text in ["1,5", "1.234.567", "1.234,5", "12,3456"] {
            assert_eq!(read(text.as_bytes(), POINT, false), Cell::Contradicts, "{text}");
        }
        for text in ["1.5", "1,234,567", "1,234.5"] {
            assert_eq!(read(text.as_bytes(), COMMA, false), Cell::Contradicts, "{text}");
        }
        assert_eq!(number("242.534957", COMMA), Some(Value::F64(242.534_957)), "%f has no locale");
    }

    #[test]
    fn wrong_groups_are_no_numbers() {
        for text in
            ["1,23,4", "1,,234", ",1,234", "1,234,56", "1.2.3", "2025.3.1", "1234,567,890", "1,234.5.6", ","]
        {
            assert_eq!(read(text.as_bytes(), POINT, false), Cell::Malformed, "{text}");
        }
        for text in ["1 23", "1 234.567.8"] {
            assert!(matches!(read(text.as_bytes(), POINT, false), Cell::Malformed | Cell::Text), "{text}");
        }
    }

    #[test]
    fn counts_are_whole_and_rates_are_not() {
        let read = |text: &str, whole| match read(text.as_bytes(), POINT, whole) {
            Cell::Number(value, _) => value,
            cell => panic!("{cell:?}"),
        };
        assert_eq!(read("32,256.00", true), Value::U64(32_256));
        assert_eq!(read("32,256.00", false), Value::F64(32_256.0));
        assert_eq!(read("256.000000", true), Value::U64(256));
        assert_eq!(read("5.50", true), Value::F64(5.5));
        assert_eq!(read("-5", true), Value::F64(-5.0));
        assert_eq!(read("1.5e+10", false), Value::F64(1.5e10));
    }

    #[test]
    fn sixty_four_bits_hold_and_more_become_floats() {
        assert_eq!(number("18,446,744,073,709,551,615", POINT), Some(Value::U64(u64::MAX)));
        assert_eq!(
            number("18,446,744,073,709,551,616", POINT),
            Some(Value::F64(18_446_744_073_709_551_616.0))
        );
        assert_eq!(number("99999999999999999999999999", POINT), Some(Value::F64(1e26)));
    }

    #[test]
    fn decimals_are_the_nearest_double() {
        for text in
            ["0.1", "10.53", "3995313115.40", "1100420042105263.12", "123456789012345678.90", "0.000235"]
        {
            assert_eq!(number(text, POINT), Some(Value::F64(text.parse().unwrap())), "{text}");
        }
    }

    #[test]
    fn what_was_not_measured_is_absent() {
        let absent = [
            "", " ", "n/a", "N/A", "nan", "-nan", "(!) nan", "(!) n/a", "no data", "<null>", "inf",
            "(0.1; 0)", "(49.02)",
        ];
        for text in absent {
            assert_eq!(read(text.as_bytes(), None, true), Cell::Absent, "{text}");
        }
        assert_eq!(number("(!) 12", POINT), Some(Value::U64(12)), "marked, but a value");
    }

    #[test]
    fn instances_and_text_are_distinguished() {
        assert_eq!(number("608 (32; 32; 32)", POINT), Some(Value::U64(608)));
        assert_eq!(number("6.437,96 (1,5; 2)", COMMA), Some(Value::F64(6437.96)));
        for text in ["NVIDIA H200", "all", "No-CC", "(256, 1, 1)", "0x1f", "12 GB (x)"] {
            assert_eq!(read(text.as_bytes(), None, false), Cell::Text, "{text}");
        }
        assert_eq!(without_instances(b"CachePreferNone (CachePreferNone)"), b"CachePreferNone");
        assert_eq!(without_instances(b"all (0: all; 1: all)"), b"all");
        assert_eq!(without_instances(b"NVIDIA H200 (x)"), b"NVIDIA H200 (x)");
        assert_eq!(without_instances(b" (x)"), b" (x)");
    }
}
