//! Counts that CUPTI returns as 64-bit floats.

/// The largest whole number below which a 64-bit float holds every whole number.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// A count that the float holds exactly.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "whole, not negative, below 2^53"
)]
pub(super) fn exact_count(value: f64) -> Option<u64> {
    ((0.0..EXACT).contains(&value) && value.fract() == 0.0).then_some(value as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_counts_are_counts() {
        assert_eq!(exact_count(0.0), Some(0));
        assert_eq!(exact_count(9_007_199_254_740_991.0), Some(9_007_199_254_740_991));
        for value in [9_007_199_254_740_992.0, -1.0, 0.5, f64::NAN, f64::INFINITY] {
            assert_eq!(exact_count(value), None, "{value}");
        }
    }
}
