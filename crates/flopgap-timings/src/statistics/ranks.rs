//! The rank test of Mann and Whitney, and the shift and interval that belong to it.

use super::normal::{above, deflated, exceeded, inflated};
use super::{OUTSIDE, Shift, Test, median};

/// Up to so many pairs the distribution is counted, for more it is close to a normal one.
const COUNTED: usize = 900;

/// The number of pairs in which the value after is the smaller one, of runs that are equal.
struct Pairs {
    count: usize,
    /// The chance of so many or fewer; empty for a normal distribution.
    cumulative: Vec<f64>,
    deviation: f64,
}

impl Pairs {
    fn new(before: usize, after: usize) -> Pairs {
        let count = before * after;
        let deviation = (count as f64 * (before + after + 1) as f64 / 12.0).sqrt();
        let cumulative = if count > COUNTED { Vec::new() } else { counted(before, after) };
        Pairs { count, cumulative, deviation }
    }

    /// The chance of so many or fewer.
    fn chance(&self, smaller: usize) -> f64 {
        match self.cumulative.get(smaller) {
            Some(chance) => *chance,
            None => above((self.count as f64 / 2.0 - smaller as f64 - 0.5) / self.deviation),
        }
    }

    /// The largest number that is as rare as `level`; nothing where none is.
    fn critical(&self, level: f64) -> Option<usize> {
        if self.chance(0) > level {
            return None;
        }
        if !self.cumulative.is_empty() {
            return self.cumulative.partition_point(|chance| *chance <= level).checked_sub(1);
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to all")]
        let whole = |pairs: f64| pairs as usize;
        let most = self.count as f64 / 2.0 - 0.5 - exceeded(level) * self.deviation;
        (most >= 0.0).then(|| whole(most))
    }
}

/// The chances of 0, 1, … of all pairs, added up. Of the arrangements of `n` and `m` values with
/// `u` such pairs, either the largest value is one of the `n`, which makes `m` pairs, or it is not.
fn counted(n: usize, m: usize) -> Vec<f64> {
    let pairs = n * m;
    // Of no values of the first kind, for each number of the second.
    let mut ways: Vec<Vec<f64>> = vec![std::iter::once(1.0).chain(vec![0.0; pairs]).collect(); m + 1];
    for _ in 0..n {
        for of in 1..=m {
            let (fewer, rest) = ways.split_at_mut(of);
            let own = &mut rest[0];
            for at in (0..=pairs).rev() {
                let moved = if at >= of { own[at - of] } else { 0.0 };
                own[at] = moved;
            }
            for (own, fewer) in own.iter_mut().zip(&fewer[of - 1]) {
                *own += fewer;
            }
        }
    }
    let all: f64 = ways[m].iter().sum();
    let mut sum = 0.0;
    let added = ways[m].iter().map(|ways| {
        sum += ways;
        sum / all
    });
    added.collect()
}

/// The shift of logarithms; nothing where so few cannot be rarer than `level`.
pub(super) fn shift(before: &[f64], after: &[f64], level: f64, inflation: f64) -> Option<Shift> {
    let pairs = Pairs::new(before.len(), after.len());
    let rare = pairs.critical(deflated(level, inflation))?;
    let edge = pairs.critical(deflated(OUTSIDE, inflation))?;
    let mut ratios: Vec<f64> =
        after.iter().flat_map(|after| before.iter().map(move |before| after - before)).collect();
    ratios.sort_unstable_by(f64::total_cmp);
    let less = ratios.partition_point(|ratio| *ratio < 0.0);
    let equal = ratios.partition_point(|ratio| *ratio <= 0.0) - less;
    let change = median(&ratios);
    Some(Shift {
        change,
        low: ratios[edge],
        high: ratios[ratios.len() - 1 - edge],
        p: inflated(pairs.chance(less + equal.div_ceil(2)), inflation),
        seen_from: change - ratios[rare],
        test: Test::Ranks,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every arrangement of a few values, counted one by one.
    #[test]
    fn the_distribution_is_that_of_all_arrangements() {
        for (n, m) in [(1, 1), (2, 3), (3, 2), (4, 4), (5, 3)] {
            let mut found = vec![0.0; n * m + 1];
            for places in 0_u32..1 << (n + m) {
                if places.count_ones() as usize == n {
                    let of_second = |at: &usize| places >> at & 1 == 0;
                    let own = (0..n + m).filter(|at| !of_second(at));
                    let pairs: usize = own.map(|at| (0..at).filter(of_second).count()).sum();
                    found[pairs] += 1.0;
                }
            }
            let all: f64 = found.iter().sum();
            let mut sum = 0.0;
            for (at, chance) in counted(n, m).into_iter().enumerate() {
                sum += found[at];
                assert!((chance - sum / all).abs() < 1e-12, "{n}, {m}: {at}");
            }
        }
    }

    #[test]
    fn counting_and_the_normal_distribution_agree_where_they_meet() {
        let exact = Pairs::new(30, 30);
        let normal = Pairs { cumulative: Vec::new(), ..Pairs::new(30, 30) };
        for level in [0.01, 0.002] {
            let [one, other] = [&exact, &normal].map(|pairs| pairs.critical(level).unwrap());
            assert!(one.abs_diff(other) <= 4, "{level}: {one} {other}");
        }
        // 1 of 924 arrangements.
        assert_eq!(Pairs::new(6, 6).critical(0.002), Some(0));
        assert_eq!(Pairs::new(5, 5).critical(0.002), None);
    }
}
