//! Student's test, for few durations.

use std::f64::consts::PI;

use super::{OUTSIDE, Shift, Test};

/// The chance of a value above `t` (not negative) with so many degrees of freedom.
///
/// The sums of Abramowitz and Stegun 26.7.3 and 26.7.4.
fn above(t: f64, freedom: usize) -> f64 {
    let angle = (t / (freedom as f64).sqrt()).atan();
    let square = angle.cos().powi(2);
    let odd = freedom % 2 == 1;
    let (mut term, mut sum) = if odd { (angle.cos(), 0.0) } else { (1.0, 0.0) };
    let mut at = usize::from(odd);
    while at + 2 <= freedom {
        sum += term;
        term *= square * (at + 1) as f64 / (at + 2) as f64;
        at += 2;
    }
    let inside = if odd { 2.0 / PI * (angle + angle.sin() * sum) } else { angle.sin() * sum };
    ((1.0 - inside) / 2.0).max(0.0)
}

/// The value that is exceeded with chance `p`, which is at most one half.
fn exceeded(p: f64, freedom: usize) -> f64 {
    let (mut low, mut high) = (0.0, 1e9);
    for _ in 0..120 {
        let middle = f64::midpoint(low, high);
        if above(middle, freedom) > p { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

/// The shift of logarithms of three or more.
pub(super) fn shift(before: &[f64], after: &[f64], level: f64, inflation: f64) -> Shift {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let squares = |values: &[f64]| {
        let mean = mean(values);
        values.iter().map(|value| (value - mean).powi(2)).sum::<f64>()
    };
    let freedom = before.len() + after.len() - 2;
    let variance = (squares(before) + squares(after)) / freedom as f64;
    let counts = 1.0 / before.len() as f64 + 1.0 / after.len() as f64;
    let error = (variance * counts * inflation).sqrt();
    let change = mean(after) - mean(before);
    let p = match () {
        () if change == 0.0 => 0.5,
        () if error <= 0.0 => f64::from(u8::from(change < 0.0)),
        () if change < 0.0 => 1.0 - above(-change / error, freedom),
        () => above(change / error, freedom),
    };
    let edge = exceeded(OUTSIDE, freedom) * error;
    Shift {
        change,
        low: change - edge,
        high: change + edge,
        p,
        seen_from: exceeded(level, freedom) * error,
        test: Test::Student,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_in_tables() {
        for (freedom, p, t) in [
            (1, 0.01, 31.820_5),
            (2, 0.01, 6.964_6),
            (3, 0.005, 5.840_9),
            (4, 0.001, 7.173_2),
            (9, 0.025, 2.262_2),
            (30, 0.01, 2.457_3),
        ] {
            assert!((exceeded(p, freedom) - t).abs() < 1e-3, "{freedom}: {}", exceeded(p, freedom));
        }
    }

    #[test]
    fn runs_without_scatter_differ_by_any_difference() {
        let found = shift(&[1.0, 1.0], &[1.5, 1.5], 0.002, 1.5);
        assert_eq!((found.p, found.low, found.high), (0.0, 0.5, 0.5));
        let same = shift(&[1.0, 1.0], &[1.0, 1.0], 0.002, 1.5);
        assert_eq!((same.p, same.change), (0.5, 0.0));
    }
}
