//! How far a result is from the reference.

/// The relative error `|found - expected| / |expected|` in the Euclidean norm; 0 for two zero
/// vectors.
///
/// NaN in either vector gives NaN, which is below no bound. Vectors of different lengths give
/// infinity.
pub fn relative_error<T: Copy + Into<f64>>(found: &[T], expected: &[f64]) -> f64 {
    if found.len() != expected.len() {
        return f64::INFINITY;
    }
    let square = |sum: f64, value: f64| sum + value * value;
    let difference = found.iter().zip(expected).map(|(&a, b)| a.into() - b).fold(0.0, square);
    let size = expected.iter().copied().fold(0.0, square);
    if difference == 0.0 { 0.0 } else { (difference / size).sqrt() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_error_cannot_hide() {
        assert!(relative_error(&[f32::NAN], &[1.0]).is_nan());
        assert!(relative_error(&[1.0_f32], &[]).is_infinite());
        assert!((relative_error(&[1.5], &[1.0]) - 0.5).abs() < 1e-12);
    }
}
