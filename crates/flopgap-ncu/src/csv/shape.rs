//! The parts of a number, and what they mean under a decimal separator.

use std::io::Write;

use crate::model::Value;

use super::cell::{Cell, Decimal};

/// A separator and how it may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Separator {
    /// `.` or `,`: groups or decimals.
    Mark(u8),
    /// Spaces and apostrophes: only ever groups.
    Space,
}

/// More groups than any 64-bit number has, even in twos.
const MAX_GROUPS: usize = 16;

/// The parts of a number, before it is known what its separators mean.
#[derive(Debug)]
pub(super) struct Shape<'a> {
    negative: bool,
    /// Digits and separators, no sign and no exponent.
    body: &'a [u8],
    exponent: i32,
    separators: [Separator; MAX_GROUPS],
    /// Digits before each separator, and behind the last one.
    digits: [usize; MAX_GROUPS + 1],
    count: usize,
    first: u8,
}

impl<'a> Shape<'a> {
    /// The parts of `text`; `None` if it is no number in any locale.
    pub(super) fn of(text: &'a [u8]) -> Option<Self> {
        let (negative, unsigned) = match text.split_first()? {
            (b'-', rest) => (true, rest),
            (b'+', rest) => (false, rest),
            _ => (false, text),
        };
        let (body, exponent) = split_exponent(unsigned)?;
        let mut shape = Shape {
            negative,
            body,
            exponent,
            separators: [Separator::Space; MAX_GROUPS],
            digits: [0; MAX_GROUPS + 1],
            count: 0,
            first: *body.first()?,
        };
        let mut rest = body;
        while let Some(&byte) = rest.first() {
            if byte.is_ascii_digit() {
                shape.digits[shape.count] += 1;
                rest = &rest[1..];
                continue;
            }
            let (separator, width) = separator(rest)?;
            if shape.count == MAX_GROUPS {
                return None;
            }
            shape.separators[shape.count] = separator;
            shape.count += 1;
            rest = &rest[width..];
        }
        (shape.digits[..=shape.count].iter().sum::<usize>() > 0).then_some(shape)
    }

    /// What the number is in a file with this decimal separator.
    pub(super) fn read(&self, decimal: Option<Decimal>, whole: bool) -> Cell {
        let Some(&last) = self.separators[..self.count].last() else {
            return self.value(0, whole, None);
        };
        let groups = &self.separators[..self.count - 1];
        match last {
            // `1,234,567`, `1'234`, `1 234`: all groups.
            _ if groups.iter().all(|&separator| separator == last)
                && (self.count > 1 || last == Separator::Space) =>
            {
                if !self.grouped(self.count) {
                    return Cell::Malformed;
                }
                let proven = match last {
                    Separator::Mark(byte) => Some(Decimal::of(byte).other()),
                    Separator::Space => None,
                };
                self.checked(decimal, proven, 0, whole)
            }
            Separator::Space => Cell::Malformed,
            // `1,234.56`: groups, then decimals.
            Separator::Mark(byte) if self.count > 1 => {
                let uniform = groups.iter().all(|&separator| separator == groups[0]);
                if groups[0] == last || !uniform || !self.grouped(self.count - 1) {
                    return Cell::Malformed;
                }
                self.checked(decimal, Some(Decimal::of(byte)), self.digits[self.count], whole)
            }
            Separator::Mark(byte) => self.read_single(byte, decimal, whole),
        }
    }

    /// One `.` or `,`.
    fn read_single(&self, byte: u8, decimal: Option<Decimal>, whole: bool) -> Cell {
        let (before, behind) = (self.digits[0], self.digits[1]);
        let reading = Decimal::of(byte);
        if reading == Decimal::Point && behind == 6 {
            // The raw page's `%f`, whatever the locale: it proves nothing.
            return self.value(behind, whole, None);
        }
        if behind != 3 || before == 0 || before > 3 || self.first == b'0' || self.exponent != 0 {
            return self.checked(decimal, Some(reading), behind, whole);
        }
        match decimal {
            None => Cell::Ambiguous,
            Some(known) if known == reading => self.value(behind, whole, None),
            Some(_) => self.value(0, whole, None),
        }
    }

    fn checked(&self, known: Option<Decimal>, proven: Option<Decimal>, decimals: usize, whole: bool) -> Cell {
        match (known, proven) {
            (Some(known), Some(proven)) if known != proven => Cell::Contradicts,
            _ => self.value(decimals, whole, proven),
        }
    }

    /// Whether the first `count` separators group: threes, or India's twos before a last three.
    fn grouped(&self, count: usize) -> bool {
        let (first, middle, last) = (self.digits[0], &self.digits[1..count], self.digits[count]);
        let threes = first <= 3 && middle.iter().all(|&digits| digits == 3);
        let twos = first <= 2 && middle.iter().all(|&digits| digits == 2);
        first > 0 && last == 3 && (threes || twos)
    }

    fn value(&self, decimals: usize, whole: bool, proven: Option<Decimal>) -> Cell {
        let digits = || self.body.iter().filter(|byte| byte.is_ascii_digit()).map(|byte| byte - b'0');
        let total: usize = self.digits[..=self.count].iter().sum();
        let integral = self.exponent == 0 && digits().skip(total - decimals).all(|digit| digit == 0);
        if !self.negative && integral && (decimals == 0 || whole) {
            let integer = digits()
                .take(total - decimals)
                .try_fold(0_u64, |sum, digit| sum.checked_mul(10)?.checked_add(u64::from(digit)));
            if let Some(integer) = integer {
                return Cell::Number(Value::U64(integer), proven);
            }
        }
        let magnitude = exact_quotient(digits(), decimals, self.exponent).unwrap_or_else(|| {
            nearest(digits(), i64::from(self.exponent) - i64::try_from(decimals).unwrap_or(i64::MAX))
        });
        if magnitude.is_infinite() {
            return Cell::Malformed;
        }
        Cell::Number(Value::F64(if self.negative { -magnitude } else { magnitude }), proven)
    }
}

/// The digits over 10^decimals where one rounding suffices, so that the result is the nearest
/// double.
fn exact_quotient(digits: impl Iterator<Item = u8>, decimals: usize, exponent: i32) -> Option<f64> {
    const POWERS: [f64; 16] =
        [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];
    let mut mantissa = 0_u64;
    for digit in digits {
        mantissa = mantissa.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    (exponent == 0 && mantissa < 1 << 53).then_some(mantissa as f64 / POWERS.get(decimals)?)
}

/// The double nearest to the digits times a power of ten.
fn nearest(digits: impl Iterator<Item = u8>, exponent: i64) -> f64 {
    // Sixteen groups of any length are possible, but only the first 800 digits can decide between
    // two doubles.
    let mut text = [0; 800];
    let (mut used, mut dropped) = (0, 0);
    for digit in digits.skip_while(|&digit| digit == 0) {
        if used < text.len() - 24 {
            text[used] = b'0' + digit;
            used += 1;
        } else {
            dropped += 1;
        }
    }
    if used == 0 {
        return 0.0;
    }
    let mut rest = &mut text[used..];
    let room = rest.len();
    // Cannot fail: 24 bytes hold `e` and any 64-bit number.
    let _ = write!(rest, "e{}", exponent.saturating_add(dropped));
    used += room - rest.len();
    std::str::from_utf8(&text[..used]).ok().and_then(|text| text.parse().ok()).unwrap_or(f64::INFINITY)
}

/// `1.5e+10` as its digits and 10; no exponent is 0.
fn split_exponent(text: &[u8]) -> Option<(&[u8], i32)> {
    match text.iter().position(|byte| matches!(byte, b'e' | b'E')) {
        None => Some((text, 0)),
        Some(at) => {
            let exponent = std::str::from_utf8(&text[at + 1..]).ok()?.parse().ok()?;
            Some((&text[..at], exponent))
        }
    }
}

/// The separator at the front of `text` and its width in bytes.
fn separator(text: &[u8]) -> Option<(Separator, usize)> {
    // No-break space, narrow no-break space, thin space, right single quotation mark; the last two
    // lines are what an ANSI code page and plain ASCII make of them.
    const WIDE: [&[u8]; 4] =
        ["\u{a0}".as_bytes(), "\u{202f}".as_bytes(), "\u{2009}".as_bytes(), "\u{2019}".as_bytes()];
    match text.first()? {
        &byte @ (b'.' | b',') => Some((Separator::Mark(byte), 1)),
        b'\'' | b' ' | 0xa0 => Some((Separator::Space, 1)),
        _ => WIDE.iter().find(|wide| text.starts_with(wide)).map(|wide| (Separator::Space, wide.len())),
    }
}
