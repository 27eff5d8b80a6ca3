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

/// Reads the plainest numbers, digits with groups of three and decimals, in one pass: nearly every cell once the decimal
/// separator is known. Anything else is left to [`read`], with which it agrees.
#[inline]
pub(crate) fn read_common(text: &[u8], decimal: Decimal, whole: bool) -> Option<Value> {
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
    fn instances_and_text_are_told_apart() {
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
            "-1\"",
        ] {
            assert_eq!(read_whole(text.as_bytes(), b','), None, "{text}");
        }
        assert_eq!(read_whole(b"999,999,999,999,999,999\"", b',').unwrap().0, 999_999_999_999_999_999);
    }

    proptest::proptest! {
        #[test]
        fn the_common_path_agrees_with_the_general_one(
            text in "[0-9]{1,4}([.,][0-9]{3}){0,3}([.,][0-9]{0,7})?|[0-9.,]{0,24}",
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

    #[test]
    fn a_metrics_kind_tells_whether_it_counts() {
        for (name, unit) in [
            ("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", "inst"),
            ("gpu__time_duration.sum", "ns"),
            ("sm__ops_path_tensor_src_bf16_dst_fp32.sum", ""),
            ("launch__thread_count", "thread"),
            ("Threads", "thread"),
            ("Elapsed Cycles", "cycle"),
        ] {
            assert!(is_whole(name, unit), "{name}");
        }
        for (name, unit) in [
            ("dram__bytes.sum", "Mbyte"),
            ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "%"),
            ("smsp__cycles_elapsed.avg", "cycle"),
            ("sm__ops_path_tensor_src_fp64.sum.per_second", ""),
            ("Average DRAM Active Cycles", "cycle"),
            ("Waves Per SM", ""),
        ] {
            assert!(!is_whole(name, unit), "{name}");
        }
    }
}
