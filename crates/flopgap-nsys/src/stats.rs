//! The statistics of nsys's reports.

use crate::round;

/// Statistics of a set of integers as nsys defines them: sample standard deviation, median between the middle two.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// How many values.
    pub count: u64,
    /// Their sum.
    pub total: i128,
    /// Mean.
    pub mean: f64,
    /// The middle value, or the mean of the middle two.
    pub median: f64,
    /// The smallest.
    pub min: i64,
    /// The largest.
    pub max: i64,
    /// Sample standard deviation (n − 1); 0 for one value.
    pub stddev: f64,
}

impl Summary {
    /// The statistics of `values`, which are sorted on the way; nothing for no values.
    ///
    /// ```
    /// let summary = flopgap_nsys::Summary::of(&mut [4, 1, 3, 2]).unwrap();
    /// assert_eq!((summary.total, summary.mean, summary.median), (10, 2.5, 2.5));
    /// ```
    pub fn of(values: &mut [i64]) -> Option<Summary> {
        values.sort_unstable();
        let (&min, &max) = (values.first()?, values.last()?);
        let total: i128 = values.iter().map(|value| i128::from(*value)).sum();
        let n = values.len();
        let middle = values[n / 2];
        let median = if n % 2 == 1 {
            middle as f64
        } else {
            (i128::from(middle) + i128::from(values[n / 2 - 1])) as f64 / 2.0
        };
        let mean = total as f64 / n as f64;
        let stddev = stddev(values, total, mean);
        Some(Summary { count: n as u64, total, mean, median, min, max, stddev })
    }

    /// The share of this total in `sum`, in percent, rounded to a tenth.
    pub(crate) fn percent_of(&self, sum: i128) -> Option<f64> {
        (sum != 0).then(|| round::to_tenth(self.total as f64 * 100.0 / sum as f64))
    }
}

/// n·Σx² − (Σx)² in integers loses nothing, where sums of squared floats would; it overflows only for values that no
/// trace has (10⁶ values of an hour each still fit).
fn stddev(values: &[i64], total: i128, mean: f64) -> f64 {
    let n = values.len() as i128;
    if n < 2 {
        return 0.0;
    }
    let squares = values.iter().try_fold(0_i128, |sum, value| {
        let value = i128::from(*value);
        sum.checked_add(value * value)
    });
    let exact = squares
        .and_then(|squares| squares.checked_mul(n))
        .and_then(|squares| squares.checked_sub(total.checked_mul(total)?));
    let variance = if let Some(difference) = exact {
        difference as f64 / (n * (n - 1)) as f64
    } else {
        let squares: f64 = values.iter().map(|value| (*value as f64 - mean).powi(2)).sum();
        squares / (n - 1) as f64
    };
    variance.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_has_no_spread_and_none_has_no_summary() {
        let one = Summary::of(&mut [7]).unwrap();
        assert_eq!((one.median, one.stddev, one.min, one.max), (7.0, 0.0, 7, 7));
        assert_eq!(Summary::of(&mut []), None);
    }

    #[test]
    fn the_deviation_is_that_of_a_sample() {
        let summary = Summary::of(&mut [2, 4, 4, 4, 5, 5, 7, 9]).unwrap();
        assert!((summary.stddev - (32.0_f64 / 7.0).sqrt()).abs() < 1e-15);
        let huge = Summary::of(&mut [i64::MAX, i64::MIN + 1]).unwrap();
        assert!(huge.stddev.is_finite() && huge.total == 0);
    }

    proptest::proptest! {
        #[test]
        fn statistics_do_not_depend_on_order(mut values in proptest::collection::vec(-1_000_000_000_i64..1_000_000_000, 1..50)) {
            let forward = Summary::of(&mut values.clone()).unwrap();
            values.reverse();
            let summary = Summary::of(&mut values).unwrap();
            proptest::prop_assert_eq!(summary, forward);
            proptest::prop_assert!(summary.min as f64 <= summary.median && summary.median <= summary.max as f64);
        }
    }
}
