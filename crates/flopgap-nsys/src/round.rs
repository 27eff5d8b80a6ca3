//! Rounding as nsys prints it.

use crate::Summary;

/// `value` rounded to one decimal as the `SQLite` inside nsys does it, as text.
///
/// A half goes up where the double is exactly one, so that 2.25 becomes 2.3 (Rust's formatting
/// would print 2.2); 226894.65, which lies a little below that in binary, becomes 226894.6. (The
/// `SQLite` of nsys 2024 and before rounded the latter up.)
pub(crate) fn one_decimal(value: f64) -> String {
    match tenths(value) {
        Some(tenths) => {
            let sign = if tenths < 0 { "-" } else { "" };
            let digits = tenths.unsigned_abs();
            format!("{sign}{}.{}", digits / 10, digits % 10)
        }
        None => format!("{value:.1}"),
    }
}

/// `value` in tenths, rounded; `None` where a double has no tenths to round, or is not a number.
fn tenths(value: f64) -> Option<i128> {
    const FRACTION: u32 = 62;
    const ONE: i128 = 1 << FRACTION;
    // From 2^52 on every double is whole.
    if !value.is_finite() || value.abs() >= 4_503_599_627_370_496.0 {
        return None;
    }
    // Fixed point with 62 bits after the point: exact for every value of at least 2^-10.
    #[expect(clippy::cast_possible_truncation, reason = "below 2^52 * 2^62 = 2^114")]
    let fixed = (value.abs() * ONE as f64) as i128;
    let tenths = (fixed * 10 + ONE / 2) >> FRACTION;
    Some(if value < 0.0 { -tenths } else { tenths })
}

/// [`one_decimal`] as a number.
pub(crate) fn to_tenth(value: f64) -> f64 {
    tenths(value).map_or(value, |tenths| tenths as f64 / 10.0)
}

/// The share of a total in `sum`, in percent, rounded to a tenth.
pub(crate) fn percent_of(summary: &Summary, sum: i128) -> Option<f64> {
    (sum != 0).then(|| to_tenth(summary.total as f64 * 100.0 / sum as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_halves_go_up() {
        // What nsys 2025.3 prints for round(x, 1).
        for (value, printed) in [
            (226_894.65, "226894.6"),
            (2_264.95, "2264.9"),
            (2.25, "2.3"),
            (2.75, "2.8"),
            (0.05, "0.1"),
            (1.04, "1.0"),
            (-2.25, "-2.3"),
            (0.0, "0.0"),
            (-0.01, "0.0"),
            (99.95, "100.0"),
            (4_398_046_511_104.25, "4398046511104.3"),
        ] {
            assert_eq!(one_decimal(value), printed, "{value}");
        }
    }

    proptest::proptest! {
        #[test]
        fn never_further_than_half_a_tenth(value in -1e12..1e12_f64) {
            let printed: f64 = one_decimal(value).parse().unwrap();
            proptest::prop_assert!((printed - value).abs() <= 0.05 + value.abs() * 1e-15);
            proptest::prop_assert!((to_tenth(value) - printed).abs() <= f64::EPSILON * value.abs());
        }
    }
}
