//! Whether durations of one run are longer than those of another, beyond their scatter.
//!
//! Durations are compared as ratios. With enough of them the test is that of ranks (Mann and
//! Whitney, exact for small samples), and the change the median of all ratios (Hodges and Lehmann):
//! an outlier has no more weight than its rank. Few durations cannot reach the level by their ranks
//! alone; for these it is Student's test of their logarithms. Durations that follow each other in a
//! run are alike: as far as they are, the scatter counts for more.

mod dependence;
mod normal;
mod ranks;
mod student;

use serde::{Deserialize, Serialize};

/// The chance on each side that the true change lies outside of the interval of a [`Shift`].
pub const OUTSIDE: f64 = 0.01;

/// More durations than this are compared by the medians of so many blocks: all pairs of many are
/// too many.
const MOST: usize = 512;

/// How a change was judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Test {
    /// The rank test of Mann and Whitney.
    Ranks,
    /// Student's test of logarithms, for few durations.
    Student,
}

/// By how much durations are longer than others.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shift {
    /// As a fraction of those before: the median of the ratios of all pairs, or for few durations
    /// the ratio of their geometric means, minus 1.
    pub change: f64,
    /// The true change is larger than this with a probability of 99 %.
    pub low: f64,
    /// The true change is smaller than this with a probability of 99 %.
    pub high: f64,
    /// How often equal runs would differ by as much or more in this direction.
    pub p: f64,
    /// The smallest change that would have been distinguished from none.
    pub seen_from: f64,
    /// By which test.
    pub test: Test,
}

/// Compares durations after with those before, each in the order in which they were recorded.
/// `level` is the chance of taking equal runs for slower that [`Shift::p`] will be compared with.
/// `None` where nothing shows how they scatter, or one is not positive.
pub(crate) fn shift(before: &[i64], after: &[i64], level: f64) -> Option<Shift> {
    let logarithms = |durations: &[i64]| -> Option<Vec<f64>> {
        let all = durations.iter().map(|&ns| (ns > 0).then(|| (ns as f64).ln()));
        all.collect::<Option<Vec<f64>>>().map(|all| blocks(&all))
    };
    let (before, after) = (logarithms(before)?, logarithms(after)?);
    if before.is_empty() || after.is_empty() || before.len() + after.len() < 3 {
        return None;
    }
    let inflation = dependence::inflation([&before, &after]);
    let found = match ranks::shift(&before, &after, level, inflation) {
        Some(found) => found,
        None => student::shift(&before, &after, level, inflation),
    };
    // No interval of a few is without an end; beyond a million times it is written as that.
    let fraction = |logarithm: f64| logarithm.exp_m1().min(1e6);
    Some(Shift {
        change: fraction(found.change),
        low: fraction(found.low),
        high: fraction(found.high),
        seen_from: fraction(found.seen_from),
        ..found
    })
}

/// The middle value, or the mean of the middle two.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n => f64::midpoint(sorted[(n - 1) / 2], sorted[n / 2]),
    }
}

/// A robust standard deviation: the median distance from `center`, scaled to that of a normal
/// distribution.
pub(crate) fn scatter(values: &[f64], center: f64) -> f64 {
    let distances: Vec<f64> = values.iter().map(|value| (value - center).abs()).collect();
    1.482_602_218_505_602 * median(&distances)
}

/// How many durations at the beginning of a run are those of a program that warms up: far longer
/// than all in its second half. No more than a third.
pub(crate) fn settling(durations: &[i64]) -> usize {
    let all: Vec<f64> = durations.iter().map(|&ns| ns as f64).collect();
    if all.len() < 6 {
        return 0;
    }
    let half = &all[all.len() / 2..];
    let center = median(half);
    let fence = center + (5.0 * scatter(half, center)).max(0.1 * center);
    all[..all.len() / 3].iter().take_while(|duration| **duration > fence).count()
}

/// The medians of blocks of equal length that follow each other, where there are many values.
fn blocks(values: &[f64]) -> Vec<f64> {
    let length = values.len().div_ceil(MOST).max(1);
    if length == 1 { values.to_vec() } else { values.chunks_exact(length).map(median).collect() }
}

#[cfg(test)]
#[expect(clippy::cast_possible_truncation, reason = "milliseconds")]
mod tests {
    use super::*;

    fn ns(ms: &[f64]) -> Vec<i64> {
        ms.iter().map(|ms| (ms * 1e6) as i64).collect()
    }

    #[test]
    fn one_outlier_moves_nothing() {
        let quiet: Vec<f64> = (0..20).map(|at| 10.0 + 0.01 * f64::from(at % 7)).collect();
        let mut loud = quiet.clone();
        loud[11] = 90.0;
        let found = shift(&ns(&quiet), &ns(&loud), 0.002).unwrap();
        assert_eq!(found.test, Test::Ranks);
        assert!(found.change.abs() < 0.001 && found.p > 0.1 && found.high < 0.005, "{found:?}");
        let slower: Vec<f64> = quiet.iter().map(|ms| 1.05 * ms).collect();
        let found = shift(&ns(&quiet), &ns(&slower), 0.002).unwrap();
        assert!((found.change - 0.05).abs() < 1e-4 && found.low > 0.04 && found.p < 1e-4, "{found:?}");
    }

    #[test]
    fn what_no_test_can_tell_has_no_answer() {
        assert_eq!(shift(&[5], &[7], 0.002), None);
        assert_eq!(shift(&[5, 6], &[], 0.002), None);
        assert_eq!(shift(&[5, 0], &[5, 6], 0.002), None);
        let few = shift(&[100, 110], &[120, 108], 0.002).unwrap();
        assert!(few.test == Test::Student && few.p > 0.01 && few.seen_from > 1.0, "{few:?}");
    }

    #[test]
    fn steps_that_warm_up_come_first_and_are_far_longer() {
        let run = |first: &[i64]| {
            let rest = [100, 103, 99, 101, 98, 102, 100, 101, 99, 100];
            [first, &rest[..]].concat()
        };
        assert_eq!([0, 1, 3].map(|n| settling(&run(&[300, 200, 150][..n]))), [0, 1, 3]);
        assert_eq!(settling(&run(&[104])), 0);
        // One in the middle is no warming up, and of few steps nothing is known.
        assert_eq!(settling(&[100, 101, 300, 99, 100, 102, 100]), 0);
        assert_eq!(settling(&[300, 100, 100, 100]), 0);
    }

    #[test]
    fn many_durations_are_compared_in_blocks() {
        let run = |scale: f64| -> Vec<i64> {
            (0..5000_u32).map(|at| (scale * (1e6 + f64::from(at * 7919 % 1009) * 100.0)) as i64).collect()
        };
        let found = shift(&run(1.0), &run(1.02), 0.002).unwrap();
        assert!((found.change - 0.02).abs() < 0.002 && found.p < 1e-9, "{found:?}");
    }
}
