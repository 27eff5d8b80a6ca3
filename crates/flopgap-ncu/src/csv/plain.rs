//! The plainest numbers, read in one pass: nearly every cell is one. Whatever is unusual is left to
//! [`number::read`].

use crate::model::Value;

use super::cell::{Cell, Decimal};
use super::number;

/// Reads the plainest numbers, digits with groups of three and decimals, in one pass: nearly every
/// cell once the decimal separator is known. Anything else is left to [`number::read`], with which
/// it agrees.
#[inline]
pub(super) fn read_common(text: &[u8], decimal: Decimal, whole: bool) -> Option<Value> {
    let group = decimal.group();
    let point = decimal.other().group();
    // 18 digits cannot overflow, and 23 bytes hold them with their groups.
    if text.len() > 23 {
        return None;
    }
    let (mut mantissa, mut digits, mut since, mut decimals, mut grouped) = (0_u64, 0_u32, 0_u32, None, false);
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit < 10 {
            mantissa = mantissa * 10 + u64::from(digit);
            digits += 1;
            since += 1;
        } else if byte == group
            && text[0] != b'0'
            && decimals.is_none()
            && (1..=3).contains(&since)
            && (!grouped || since == 3)
        {
            grouped = true;
            since = 0;
        } else if byte == point && decimals.is_none() && since > 0 && (!grouped || since == 3) {
            decimals = Some(digits);
        } else {
            return None;
        }
        if digits > 18 {
            return None;
        }
    }
    let Some(before) = decimals else {
        return (since > 0 && (!grouped || since == 3)).then_some(Value::U64(mantissa));
    };
    let decimals = digits - before;
    if decimals == 0 {
        return None;
    }
    let scale = 10_u64.pow(decimals);
    if whole && mantissa.is_multiple_of(scale) {
        return Some(Value::U64(mantissa / scale));
    }
    (mantissa < 1 << 53 && decimals < 16).then(|| Value::F64(mantissa as f64 / scale as f64))
}

/// The whole number at the front of `bytes` up to a closing quote, and the bytes up to and
/// including it. Anything unusual is left to [`number::read`].
#[inline]
pub(super) fn read_whole(bytes: &[u8], group: u8) -> Option<(u64, usize)> {
    let mut value = 0_u64;
    let mut since_group = 0_u32;
    let mut grouped = false;
    // 26 bytes hold every 64-bit number with its separators; 18 digits cannot overflow. More digits
    // wrap around here and are refused at the closing quote.
    for (at, &byte) in bytes.iter().enumerate().take(25) {
        let digit = byte.wrapping_sub(b'0');
        if digit < 10 {
            value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
            since_group += 1;
        } else if byte == group {
            if since_group == 0 || since_group > 3 || (grouped && since_group != 3) || bytes[0] == b'0' {
                return None;
            }
            grouped = true;
            since_group = 0;
        } else if byte == b'"' {
            let valid = if grouped { since_group == 3 } else { (1..=18).contains(&since_group) };
            return (valid && at <= 23).then_some((value, at + 1));
        } else {
            return None;
        }
    }
    None
}

/// A non-negative whole number that is never a measurement (an id, a count of launches), with or
/// without groups.
pub(super) fn read_id(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii();
    let mut value = 0_u64;
    let mut plain = !text.is_empty();
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            plain = false;
            break;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    if plain {
        return Some(value);
    }
    // Three digits behind its separators: groups in either locale.
    let Cell::Number(Value::U64(value), _) = ([Decimal::Point, Decimal::Comma].into_iter())
        .map(|decimal| number::read(text, Some(decimal), false))
        .find(|cell| matches!(cell, Cell::Number(Value::U64(_), _)))?
    else {
        return None;
    };
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::number::read;
    use super::*;

    #[test]
    fn the_fast_path_takes_only_what_is_certain() {
        assert_eq!(read_whole(b"1,048,576\"\n", b','), Some((1_048_576, 10)));
        assert_eq!(read_whole(b"0\"", 0), Some((0, 2)));
        assert_eq!(read_whole(b"1,048\"", 0), None, "the separator is not known yet");
        for text in [
            "",
            "\"",
            "1,04\"",
            "1,0488\"",
            "1234,567\"",
            ",123\"",
            "1.5\"",
            "1",
            "9999999999999999999\"",
            "99999999999999999999999\"",
            "-1\"",
        ] {
            assert_eq!(read_whole(text.as_bytes(), b','), None, "{text}");
        }
        assert_eq!(read_whole(b"999,999,999,999,999,999\"", b',').unwrap().0, 999_999_999_999_999_999);
    }

    proptest::proptest! {
        #[test]
        fn the_common_path_agrees_with_the_general_one(
            text in "[0-9]{1,4}([.,][0-9]{3}){0,8}([.,][0-9]{0,7})?|[0-9.,]{0,24}|[0-9]{17,26}",
            whole: bool,
            comma: bool,
        ) {
            let decimal = if comma { Decimal::Comma } else { Decimal::Point };
            if let Some(value) = read_common(text.as_bytes(), decimal, whole) {
                let Cell::Number(general, _) = read(text.as_bytes(), Some(decimal), whole) else {
                    panic!("{text}: {value:?} {:?}", read(text.as_bytes(), Some(decimal), whole));
                };
                proptest::prop_assert_eq!(value, general);
            }
            if let Some((value, used)) = read_whole(format!("{text}\"").as_bytes(), decimal.group()) {
                proptest::prop_assert_eq!(used, text.len() + 1);
                let Cell::Number(general, _) = read(text.as_bytes(), Some(decimal), whole) else { panic!("{text}") };
                proptest::prop_assert_eq!(Value::U64(value), general);
            }
        }
    }

    #[test]
    fn ids_may_be_grouped() {
        assert_eq!(read_id(b"42736"), Some(42_736));
        assert_eq!(read_id(b"1,024"), Some(1024));
        assert_eq!(read_id(b"1.024"), Some(1024));
        for text in ["", "a", "1a", "-1", "1.5", "99999999999999999999"] {
            assert_eq!(read_id(text.as_bytes()), None, "{text}");
        }
    }
}
