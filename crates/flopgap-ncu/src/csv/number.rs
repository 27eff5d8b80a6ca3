//! Numbers as ncu prints them, in the locale of whoever printed them.
//!
//! One C++ stream prints most values with the locale's separators (`1,048,576`, `27.595.520`, `1 048 576`, `12,34,567`), but
//! some doubles of the raw page always come as `%f`: a point and six decimals (`242.534957`), even in a file whose point groups
//! thousands elsewhere. A number with one separator and three digits behind it (`117.344`) says nothing about itself.

use crate::model::Value;

/// How whole part and decimals are separated in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum NumberFormat {
    /// Inferred from the values of the file; a file that does not tell is refused.
    #[default]
    Auto,
    /// `1,234.5`: what `LC_ALL=C`, `en_US` and most of Asia print.
    Point,
    /// `1.234,5` or `1 234,5`: most of Europe and South America.
    Comma,
}

/// The decimal separator of a file, once it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decimal {
    Point,
    Comma,
}

impl Decimal {
    fn of(byte: u8) -> Self {
        if byte == b'.' { Decimal::Point } else { Decimal::Comma }
    }

    fn other(self) -> Self {
        match self {
            Decimal::Point => Decimal::Comma,
            Decimal::Comma => Decimal::Point,
        }
    }

    /// The ASCII byte that may group thousands then.
    pub(crate) fn group(self) -> u8 {
        match self {
            Decimal::Point => b',',
            Decimal::Comma => b'.',
        }
    }

    pub(crate) fn describe(self) -> &'static str {
        match self {
            Decimal::Point => "decimals behind '.'",
            Decimal::Comma => "decimals behind ','",
        }
    }
}

/// What a cell says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cell {
    /// A number, and the decimal separator that it proves.
    Number(Value, Option<Decimal>),
    /// A number only if it is read with the other separator than the file's.
    Contradicts,
    /// One separator with three digits behind it, in a file whose separator is not known yet.
    Ambiguous,
    /// Not measured.
    Absent,
    /// No number.
    Text,
    /// Made of digits and separators, but no number.
    Malformed,
}

/// Reads one cell. `whole`: the metric counts, so `32,256.00` (what `--print-fp` makes of it) is the integer 32256.
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

/// `(0.1; 0; 0)`: instances of a metric that has no aggregate.
fn is_instance_list(text: &[u8]) -> bool {
    text.ends_with(b")") && (memchr::memchr(b';', text).is_some() || memchr::memchr(b',', text).is_none())
}

/// A separator and how it may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
struct Shape<'a> {
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
    fn of(text: &'a [u8]) -> Option<Self> {
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

    fn read(&self, decimal: Option<Decimal>, whole: bool) -> Cell {
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
            let mut plain: String =
                digits().take(total - decimals).map(|digit| char::from(b'0' + digit)).collect();
            plain.push('.');
            plain.extend(digits().skip(total - decimals).map(|digit| char::from(b'0' + digit)));
            (plain + "e" + &self.exponent.to_string()).parse().unwrap_or(f64::INFINITY)
        });
        Cell::Number(Value::F64(if self.negative { -magnitude } else { magnitude }), proven)
    }
}

/// The digits over 10^decimals where one rounding suffices, so that the result is the nearest double.
fn exact_quotient(digits: impl Iterator<Item = u8>, decimals: usize, exponent: i32) -> Option<f64> {
    const POWERS: [f64; 16] =
        [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];
    let mut mantissa = 0_u64;
    for digit in digits {
        mantissa = mantissa.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    (exponent == 0 && mantissa < 1 << 53).then_some(mantissa as f64 / POWERS.get(decimals)?)
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
    // No-break space, narrow no-break space, thin space, right single quotation mark; the last two lines are what an
    // ANSI code page and plain ASCII make of them.
    const WIDE: [&[u8]; 4] =
        ["\u{a0}".as_bytes(), "\u{202f}".as_bytes(), "\u{2009}".as_bytes(), "\u{2019}".as_bytes()];
    match text.first()? {
        &byte @ (b'.' | b',') => Some((Separator::Mark(byte), 1)),
        b'\'' | b' ' | 0xa0 => Some((Separator::Space, 1)),
        _ => WIDE.iter().find(|wide| text.starts_with(wide)).map(|wide| (Separator::Space, wide.len())),
    }
}

/// The whole number at the front of `bytes` up to a closing quote, and the bytes up to and including it. Anything unusual is
/// left to [`read`].
#[inline]
pub(crate) fn read_whole(bytes: &[u8], group: u8) -> Option<(u64, usize)> {
    let mut value = 0_u64;
    let mut since_group = 0_u32;
    let mut grouped = false;
    // 26 bytes hold every 64-bit number with its separators; 18 digits cannot overflow.
    for (at, &byte) in bytes.iter().enumerate().take(25) {
        let digit = byte.wrapping_sub(b'0');
        if digit < 10 {
            value = value * 10 + u64::from(digit);
            since_group += 1;
        } else if byte == group {
            if since_group == 0 || since_group > 3 || (grouped && since_group != 3) {
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

/// A non-negative whole number that is never a measurement (an id, a count of launches), with or without groups.
pub(crate) fn read_id(text: &[u8]) -> Option<u64> {
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
        .map(|decimal| read(text, Some(decimal), false))
        .find(|cell| matches!(cell, Cell::Number(Value::U64(_), _)))?
    else {
        return None;
    };
    Some(value)
}

/// Whether a metric only takes whole values, so far as its name and unit tell: an unscaled sum over all units, a launch
/// parameter, or a label that counts.
pub(crate) fn is_whole(name: &str, unit: &str) -> bool {
    const UNITS: [&str; 22] = [
        "",
        "inst",
        "byte",
        "ns",
        "nsecond",
        "cycle",
        "sector",
        "sectors",
        "thread",
        "block",
        "warp",
        "request",
        "register/thread",
        "byte/block",
        "SM",
        "branches",
        "pass",
        "sample",
        "cluster",
        "wavefront",
        "bit",
        "op",
    ];
    if !UNITS.contains(&unit) {
        return false;
    }
    if let Some((_, roll_up)) = name.split_once("__") {
        let sum = roll_up.rsplit_once('.').map_or(!roll_up.contains('.'), |(_, last)| last == "sum");
        return sum && !name.starts_with("derived");
    }
    // A label of the details page. Averages are printed with decimals.
    !unit.is_empty() && !name.starts_with("Avg") && !name.starts_with("Average")
}
