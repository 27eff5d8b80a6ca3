//! Logarithms of features, which may be 0.

/// The natural logarithm of a value, and of a thousandth for what is smaller.
pub(super) fn ln(value: f64) -> f64 {
    value.max(1e-3).ln()
}
