//! The normal distribution.

use std::f64::consts::PI;

/// The chance of a value above `z`.
pub(super) fn above(z: f64) -> f64 {
    if z < 0.0 {
        return 1.0 - above(-z);
    }
    let density = (-z * z / 2.0).exp() / (2.0 * PI).sqrt();
    if z < 2.5 {
        // The series of the distribution function around zero.
        let (mut term, mut sum, mut odd) = (z, z, 1.0);
        while term > 1e-17 * sum {
            odd += 2.0;
            term *= z * z / odd;
            sum += term;
        }
        return 0.5 - density * sum;
    }
    // The continued fraction of Mills's ratio, from its end.
    let rest = (1..=120).rev().fold(z, |rest, n| z + f64::from(n) / rest);
    density / rest
}

/// The value that is exceeded with chance `p`.
pub(super) fn exceeded(p: f64) -> f64 {
    let (mut low, mut high) = (-38.0, 38.0);
    for _ in 0..80 {
        let middle = f64::midpoint(low, high);
        if above(middle) > p { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

/// The chance of as much or more of a test whose variance is larger by `inflation` than it takes
/// for granted: `p` with its distance from the middle divided by the root.
pub(super) fn inflated(p: f64, inflation: f64) -> f64 {
    if p >= 0.5 || inflation <= 1.0 { p } else { above(exceeded(p) / inflation.sqrt()) }
}

/// The inverse of [`inflated`].
pub(super) fn deflated(p: f64, inflation: f64) -> f64 {
    if inflation <= 1.0 { p } else { above(exceeded(p) * inflation.sqrt()) }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::SQRT_2;

    use super::*;

    /// Against tables (Abramowitz and Stegun, 26.1 and 26.2).
    #[test]
    fn as_in_tables() {
        for (z, p) in [
            (0.0, 0.5),
            (1.0, 0.158_655_253_931_457_05),
            (SQRT_2, 0.078_649_603_525_142_6),
            (2.4, 0.008_197_535_924_596_155),
            (2.6, 0.004_661_188_023_718_732),
            (5.0, 2.866_515_718_791_939e-7),
            (-1.0, 0.841_344_746_068_542_9),
        ] {
            assert!((above(z) / p - 1.0).abs() < 1e-10, "{z}: {}", above(z));
            assert!((exceeded(p) - z).abs() < 1e-7);
        }
        assert!((exceeded(0.002) - 2.878_161_739).abs() < 1e-8);
        let there = deflated(0.01, 2.0);
        assert!(there < 0.001 && (inflated(there, 2.0) - 0.01).abs() < 1e-10);
    }
}
