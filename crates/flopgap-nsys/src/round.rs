//! Rounding as nsys prints it.

/// `value` rounded to one decimal as the `SQLite` inside nsys does it, as text.
///
/// `SQLite` rounds half up on the *decimal* value: it adds 3e-16 of the value before it cuts digits off, so that 2.25 becomes 2.3
/// and 30770.35, which lies a little below that in binary, becomes 30770.4. Rust's formatting would print 30770.3.
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

/// `value` in tenths, rounded; nothing where a double has no tenths to round, or is not a number.
fn tenths(value: f64) -> Option<i128> {
    const FRACTION: u32 = 62;
    const ONE: i128 = 1 << FRACTION;
    // From 2^42 on SQLite leaves the value alone; a double of that size has no half tenth to lose.
    if !value.is_finite() || value.abs() >= 4_398_046_511_104.0 {
        return None;
    }
    // Fixed point with 62 bits after the point: exact for every value of at least 2^-10.
    #[expect(clippy::cast_possible_truncation, reason = "below 2^42 * 2^62 = 2^104")]
    let fixed = (value.abs() * ONE as f64) as i128;
    let nudged = fixed + fixed * 3 / 10_i128.pow(16) + ONE / 20;
    let tenths = (nudged * 10) >> FRACTION;
    Some(if value < 0.0 { -tenths } else { tenths })
}

/// [`one_decimal`] as a number.
pub(crate) fn to_tenth(value: f64) -> f64 {
    tenths(value).map_or(value, |tenths| tenths as f64 / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_go_up_in_decimal() {
        // What SQLite 3.42 prints for round(x, 1).
        for (value, printed) in [
            (30_770.35, "30770.4"),
            (2.25, "2.3"),
            (0.05, "0.1"),
            (1.04, "1.0"),
            (-2.25, "-2.3"),
            (0.0, "0.0"),
            (-0.01, "0.0"),
            (99.95, "100.0"),
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
