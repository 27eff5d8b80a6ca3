//! Numbers for people: grouped digits, SI prefixes, percentages.
//!
//! Every function returns what is printed and nothing else; raw values for machines never pass
//! through here.

use std::fmt::Display;

/// How a measured value is written for a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ValueFormat {
    /// A plain number in the metric's own unit.
    #[default]
    Number,
    /// A fraction, written as a percentage: 0.05 is `5%`.
    Percent,
}

/// An integer with a comma between groups of three digits.
///
/// ```
/// use flopgap_report::numbers::group_thousands;
/// assert_eq!(group_thousands(1_234_567_u64), "1,234,567");
/// assert_eq!(group_thousands(-1_000_i64), "-1,000");
/// ```
pub fn group_thousands(integer: impl Display) -> String {
    group_digits(&integer.to_string())
}

/// A float with `decimals` digits after the point and grouped digits before it.
///
/// A value that rounds to zero carries no minus sign. Infinities are `inf` and `-inf`, not-a-number
/// is `NaN`.
///
/// ```
/// use flopgap_report::numbers::float;
/// assert_eq!(float(1234.5, 2), "1,234.50");
/// assert_eq!(float(-0.0001, 2), "0.00");
/// ```
pub fn float(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    if !value.is_finite() {
        return text;
    }
    group_digits(without_negative_zero(&text))
}

/// A place along an axis in full: integers with grouped digits, other numbers with every digit they
/// need.
#[cfg(feature = "pages")]
pub(crate) fn exact(value: f64) -> String {
    if value.abs() >= 1e9 || (value != 0.0 && value.abs() < 1e-4) {
        return format!("{value:e}");
    }
    let text = format!("{value}");
    let decimals = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    float(value, decimals)
}

/// A measured value in a few digits: four significant ones, of large numbers six or an SI prefix,
/// of percentages two after the point.
#[cfg(feature = "pages")]
pub(crate) fn significant(value: f64, format: ValueFormat) -> String {
    let size = value.abs();
    let digits = match size {
        _ if format == ValueFormat::Percent => return percent(value, 2),
        0.0 => return "0".to_owned(),
        1e6.. => {
            let Some((prefix, factor)) = si_prefix(size) else { return format!("{value:.3e}") };
            return format!("{} {prefix}", significant(value / factor, format));
        }
        1000.0.. => 6,
        1e-4.. => 4,
        _ => return format!("{value:.3e}"),
    };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 8")]
    let decimals = (f64::from(digits) - 1.0 - size.log10().floor()).max(0.0) as usize;
    let text = float(value, decimals);
    if decimals == 0 { text } else { text.trim_end_matches('0').trim_end_matches('.').to_owned() }
}

/// A fraction as a percentage: `0.0123` with two decimals is `1.23%`.
pub fn percent(fraction: f64, decimals: usize) -> String {
    format!("{}%", float(fraction * 100.0, decimals))
}

/// A fraction as a percentage that always carries its sign: `+1.23%`, `-4.00%`; what rounds to zero
/// has none.
///
/// ```
/// use flopgap_report::numbers::signed_percent;
/// assert_eq!(signed_percent(0.0123, 2), "+1.23%");
/// assert_eq!(signed_percent(-0.04, 1), "-4.0%");
/// assert_eq!(signed_percent(-0.000_001, 1), "0.0%");
/// ```
pub fn signed_percent(fraction: f64, decimals: usize) -> String {
    let text = percent(fraction, decimals);
    let positive = text.bytes().any(|b| (b'1'..=b'9').contains(&b)) || fraction == f64::INFINITY;
    if fraction > 0.0 && positive { format!("+{text}") } else { text }
}

/// Decimal SI prefixes from 10^-24 to 10^24; the empty one is at [`UNIT_INDEX`].
const PREFIXES: [&str; 17] =
    ["y", "z", "a", "f", "p", "n", "µ", "m", "", "k", "M", "G", "T", "P", "E", "Z", "Y"];
const UNIT_INDEX: i32 = 8;

/// A value with three significant digits, an SI prefix and its unit: `1.23 GFLOP/s`, `12.0 FLOP/s`.
///
/// Beyond the prefixes (10^-24 to 10^27) the value is written with an exponent.
///
/// ```
/// use flopgap_report::numbers::si_with_unit;
/// assert_eq!(si_with_unit(1_234_000_000.0, "FLOP/s"), "1.23 GFLOP/s");
/// assert_eq!(si_with_unit(999_999.0, "B"), "1.00 MB");
/// assert_eq!(si_with_unit(12.0, "FLOP"), "12.0 FLOP");
/// ```
pub fn si_with_unit(value: f64, unit: &str) -> String {
    let (digits, prefix) = si_parts(value);
    format!("{digits} {prefix}{unit}")
}

/// A duration in nanoseconds with three significant digits: `12.3 µs`.
///
/// ```
/// use flopgap_report::numbers::duration;
/// assert_eq!(duration(12_340.0), "12.3 µs");
/// assert_eq!(duration(1.5e9), "1.50 s");
/// ```
pub fn duration(nanoseconds: f64) -> String {
    si_with_unit(nanoseconds * 1e-9, "s")
}

/// A duration in nanoseconds with the digits that a profiler's clock has: `13.980 ms`, `41.2 µs`,
/// `999 ns`.
///
/// ```
/// use flopgap_report::numbers::precise_duration;
/// assert_eq!(precise_duration(13_980_000.0), "13.980 ms");
/// assert_eq!(precise_duration(999.0), "999 ns");
/// ```
pub fn precise_duration(nanoseconds: f64) -> String {
    match nanoseconds.abs() {
        1e9.. => format!("{:.3} s", nanoseconds / 1e9),
        1e6.. => format!("{:.3} ms", nanoseconds / 1e6),
        1e3.. => format!("{:.1} µs", nanoseconds / 1e3),
        _ => format!("{nanoseconds:.0} ns"),
    }
}

/// Bytes with a binary prefix, as memories are sized: `48 KiB`, `1.5 GiB`.
///
/// ```
/// use flopgap_report::numbers::binary_bytes;
/// assert_eq!(binary_bytes(48 << 10), "48 KiB");
/// assert_eq!(binary_bytes(3 << 29), "1.5 GiB");
/// ```
pub fn binary_bytes(bytes: u64) -> String {
    for (unit, factor) in [("GiB", 1_u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
        if bytes >= factor {
            let value = bytes as f64 / factor as f64;
            return format!("{} {unit}", float(value, usize::from(!bytes.is_multiple_of(factor))));
        }
    }
    format!("{bytes} B")
}

fn si_parts(value: f64) -> (String, &'static str) {
    if value == 0.0 {
        return ("0".to_owned(), "");
    }
    if !value.is_finite() {
        return (value.to_string(), "");
    }
    // `{:e}` rounds to three significant digits first, so that 999,999 becomes 1.00e6 and not "1000
    // k".
    let scientific = format!("{value:.2e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return (scientific, "") };
    let Ok(exponent) = exponent.parse::<i32>() else { return (scientific, "") };
    let group = exponent.div_euclid(3);
    let Some(prefix) = usize::try_from(group + UNIT_INDEX).ok().and_then(|i| PREFIXES.get(i)) else {
        return (scientific, "");
    };
    let shift = exponent.rem_euclid(3);
    let shifted = mantissa.parse::<f64>().unwrap_or(f64::NAN) * 10_f64.powi(shift);
    let decimals = usize::try_from(2 - shift).unwrap_or(0);
    (format!("{shifted:.decimals$}"), prefix)
}

/// The decimal SI prefix for numbers of this magnitude, with the factor it stands for: `("G", 1e9)`
/// for 2.5e9.
///
/// For axes, where all ticks share one prefix. `None` beyond the prefixes; `("", 1.0)` for zero.
#[cfg(feature = "pages")]
pub(crate) fn si_prefix(magnitude: f64) -> Option<(&'static str, f64)> {
    if magnitude == 0.0 {
        return Some(("", 1.0));
    }
    if !magnitude.is_finite() {
        return None;
    }
    // 1e-12 forgives 999.999999 that was meant as 1000.
    #[expect(clippy::cast_possible_truncation, reason = "log10 of a finite f64 is within ±324")]
    let group = ((magnitude.abs().log10() + 1e-12) / 3.0).floor() as i32;
    let prefix = PREFIXES.get(usize::try_from(group + UNIT_INDEX).ok()?)?;
    Some((prefix, 10_f64.powi(3 * group)))
}

fn without_negative_zero(text: &str) -> &str {
    match text.strip_prefix('-') {
        Some(rest) if rest.bytes().all(|b| b == b'0' || b == b'.') => rest,
        _ => text,
    }
}

/// Puts commas into the integer part of a decimal number written as text.
fn group_digits(text: &str) -> String {
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text),
    };
    let (integer, fraction) = unsigned.split_at(unsigned.find('.').unwrap_or(unsigned.len()));
    let mut out = String::with_capacity(text.len() + integer.len() / 3 + 1);
    out.push_str(sign);
    for (i, digit) in integer.chars().enumerate() {
        if i > 0 && (integer.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out.push_str(fraction);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_at_every_length() {
        for (value, expected) in [
            (0, "0"),
            (7, "7"),
            (999, "999"),
            (1_000, "1,000"),
            (99_999, "99,999"),
            (1_234_567, "1,234,567"),
            (-12, "-12"),
            (-123_456, "-123,456"),
        ] {
            assert_eq!(group_thousands(value), expected);
        }
        assert_eq!(group_thousands(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!(group_thousands(u128::MAX), "340,282,366,920,938,463,463,374,607,431,768,211,455");
        assert_eq!(group_thousands(i128::MIN), "-170,141,183,460,469,231,731,687,303,715,884,105,728");
    }

    #[test]
    fn floats_round_then_group() {
        assert_eq!(float(999_999.996, 2), "1,000,000.00");
        assert_eq!(float(-1234.5, 0), "-1,234");
        assert_eq!(float(-0.4, 0), "0");
        assert_eq!(float(f64::NEG_INFINITY, 2), "-inf");
        assert_eq!(float(f64::NAN, 2), "NaN");
    }

    #[test]
    fn percentages_carry_their_sign() {
        assert_eq!(percent(0.0123, 2), "1.23%");
        assert_eq!(percent(12.5, 0), "1,250%");
        assert_eq!(signed_percent(12.5, 0), "+1,250%");
        assert_eq!(signed_percent(0.0, 2), "0.00%");
        assert_eq!(signed_percent(0.000_001, 2), "0.00%");
        assert_eq!(signed_percent(f64::INFINITY, 1), "+inf%");
        assert_eq!(signed_percent(f64::NEG_INFINITY, 1), "-inf%");
    }

    #[test]
    fn si_keeps_three_significant_digits_across_prefix_edges() {
        for (value, expected) in [
            (0.0, "0 "),
            (1.0, "1.00 "),
            (999.4, "999 "),
            (999.6, "1.00 k"),
            (12_345.0, "12.3 k"),
            (-2.5e9, "-2.50 G"),
            (0.000_045, "45.0 µ"),
            (0.9996, "1.00 "),
            (1e27, "1.00e27 "),
            (4.2e-30, "4.20e-30 "),
        ] {
            assert_eq!(si_with_unit(value, "B"), format!("{expected}B"), "{value}");
        }
    }

    #[test]
    fn bytes_and_durations() {
        assert_eq!([48 << 10, 1 << 20, 100].map(binary_bytes), ["48 KiB", "1 MiB", "100 B"]);
        assert_eq!(precise_duration(41_234.0), "41.2 µs");
    }

    #[test]
    fn values_have_a_few_digits() {
        use ValueFormat::{Number, Percent};
        for (value, format, expected) in [
            (7.125, Number, "7.125"),
            (0.012_345_6, Number, "0.01235"),
            (6.0, Number, "6"),
            (400.0, Number, "400"),
            (-1_234.567_8, Number, "-1,234.57"),
            (1.152_921e18, Number, "1.153 E"),
            (0.0, Number, "0"),
            (1e-7, Number, "1.000e-7"),
            (f64::MAX, Number, "1.798e308"),
            (0.123_45, Percent, "12.35%"),
        ] {
            assert_eq!(significant(value, format), expected);
        }
    }

    #[test]
    fn one_prefix_for_an_axis() {
        assert_eq!(si_prefix(2.5e9), Some(("G", 1e9)));
        assert_eq!(si_prefix(1000.0), Some(("k", 1e3)));
        assert_eq!(si_prefix(0.0), Some(("", 1.0)));
        assert_eq!(si_prefix(1e40), None);
    }

    proptest::proptest! {
        #[test]
        fn grouping_only_inserts_commas(value: i128) {
            let grouped = group_thousands(value);
            proptest::prop_assert_eq!(grouped.replace(',', ""), value.to_string());
            for group in grouped.trim_start_matches('-').split(',').skip(1) {
                proptest::prop_assert_eq!(group.len(), 3);
            }
        }

        #[test]
        fn si_is_within_half_a_unit_of_the_third_digit(value in -1e26_f64..1e26) {
            let text = si_with_unit(value, "");
            let (digits, prefix) = text.split_once(' ').unwrap();
            let index = PREFIXES.iter().position(|p| *p == prefix);
            if let (Ok(digits), Some(index)) = (digits.parse::<f64>(), index) {
                let back = digits * 10_f64.powi(3 * (i32::try_from(index).unwrap() - UNIT_INDEX));
                proptest::prop_assert!((back - value).abs() <= 0.005_001 * value.abs(), "{value} -> {text}");
            }
        }
    }
}
