//! ncu's units: `Mbyte`, `us`, `Ghz` back to bytes, nanoseconds and hertz.

use std::borrow::Cow;

use crate::model::{Metric, Strings, Value};

/// A metric's value in ncu's base unit (`--print-units base`): bytes, nanoseconds, hertz, plain
/// counts.
#[derive(Debug, Clone, PartialEq)]
pub struct BaseValue<'a> {
    /// The value.
    pub value: f64,
    /// The value where it is a whole number of 64 bits.
    pub count: Option<u64>,
    /// The base unit: `byte`, `ns`, `byte/s`.
    pub unit: Cow<'a, str>,
    /// ncu scaled the value and printed some digits of it only: `10.53 Mbyte` stands for anything
    /// from 10 525 000 to 10 535 000 bytes.
    pub rounded: bool,
}

impl Metric {
    /// The value in base units; `None` for text.
    ///
    /// ```
    /// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/ncu/lm_details.csv.zst");
    /// let report = flopgap_ncu::read(path)?;
    /// let launch = report.iter().next().unwrap();
    /// let read = launch.metric_named("dram__bytes_read.sum").unwrap(); // "Kbyte","11.26"
    /// let read = read.in_base_units(launch.strings).unwrap();
    /// assert_eq!((read.value, &*read.unit, read.rounded), (11_260.0, "byte", true));
    /// # Ok::<(), flopgap_ncu::Error>(())
    /// ```
    pub fn in_base_units<'a>(&self, strings: &'a Strings) -> Option<BaseValue<'a>> {
        let (factor, unit) = base_unit(strings.get(self.unit));
        let value = self.value.as_f64()? * factor as f64;
        let count = match self.value {
            Value::U64(count) => count.checked_mul(factor),
            // 2^53: every whole number below it is exact.
            _ if (0.0..9_007_199_254_740_992.0).contains(&value) => nearest_whole(value),
            _ => None,
        };
        Some(BaseValue { value, count, unit, rounded: factor != 1 })
    }
}

/// The whole number that a product like 11.26 * 1000 stands for; it may miss it by a rounding.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // within 0..2^53, checked by the caller
fn nearest_whole(value: f64) -> Option<u64> {
    let nearest = value.round();
    ((value - nearest).abs() <= value * 1e-12).then_some(nearest as u64)
}

/// The factor to a unit's base unit, and that base unit. ncu's factors are powers of 1000, also for
/// bytes.
pub(crate) fn base_unit(unit: &str) -> (u64, Cow<'_, str>) {
    let (numerator, denominator) = unit.split_once('/').map_or((unit, None), |(n, d)| (n, Some(d)));
    let (numerator_factor, numerator) = scaled(numerator);
    let (rate_factor, denominator) = match denominator {
        None => return (numerator_factor, Cow::Borrowed(numerator)),
        // `sector/ns` is 10^9 sectors a second.
        Some("ns" | "nsecond") => (1_000_000_000, "s"),
        Some("us" | "usecond") => (1_000_000, "s"),
        Some("ms" | "msecond") => (1000, "s"),
        // ncu divides the value by 1000 and writes the K wherever the unit says byte: 2614 %/byte
        // become 2.614 %/Kbyte.
        Some(denominator) if denominator.ends_with("byte") => scaled(denominator),
        Some(denominator) => (1, denominator),
    };
    let factor = numerator_factor * rate_factor;
    (factor, if factor == 1 { Cow::Borrowed(unit) } else { Cow::Owned(format!("{numerator}/{denominator}")) })
}

/// Units that ncu puts a prefix before.
const SCALABLE: &str =
    "byte hz inst cycle sector sectors thread warp block request bit op wavefront branches";

fn scaled(unit: &str) -> (u64, &str) {
    match unit {
        "ns" | "nsecond" => return (1, "ns"),
        "us" | "usecond" => return (1000, "ns"),
        "ms" | "msecond" => return (1_000_000, "ns"),
        "s" | "second" => return (1_000_000_000, "ns"),
        _ => {}
    }
    let factor = match unit.as_bytes() {
        [b'K', ..] => 1000,
        [b'M', ..] => 1_000_000,
        [b'G', ..] => 1_000_000_000,
        [b'T', ..] => 1_000_000_000_000,
        [b'P', ..] => 1_000_000_000_000_000,
        _ => return (1, unit),
    };
    if SCALABLE.split(' ').any(|one| one == &unit[1..]) { (factor, &unit[1..]) } else { (1, unit) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_and_rates_have_factors_of_a_thousand() {
        let cases = [
            ("byte", 1, "byte"),
            ("Kbyte", 1000, "byte"),
            ("Mbyte", 1_000_000, "byte"),
            ("Gbyte/s", 1_000_000_000, "byte/s"),
            ("Kbyte/block", 1000, "byte/block"),
            ("Minst", 1_000_000, "inst"),
            ("Ghz", 1_000_000_000, "hz"),
            ("us", 1000, "ns"),
            ("msecond", 1_000_000, "ns"),
            ("s", 1_000_000_000, "ns"),
            ("sector/ns", 1_000_000_000, "sector/s"),
            ("inst/cycle", 1, "inst/cycle"),
            ("SM", 1, "SM"),
            ("%/Kbyte", 1000, "%/byte"),
            ("%", 1, "%"),
            ("", 1, ""),
        ];
        for (unit, factor, base) in cases {
            assert_eq!(base_unit(unit), (factor, Cow::Borrowed(base)), "{unit}");
        }
    }
}
