//! The statistics of nsys's reports.

/// Statistics of a set of integers as nsys defines them: sample standard deviation, median between
/// the middle two.
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
    /// The statistics of `values`, which are reordered on the way; `None` for no values.
    ///
    /// ```
    /// let summary = flopgap_trace::Summary::of(&mut [4, 1, 3, 2]).unwrap();
    /// assert_eq!((summary.total, summary.mean, summary.median), (10, 2.5, 2.5));
    /// ```
    pub fn of(values: &mut [i64]) -> Option<Summary> {
        let (&min, &max) = (values.iter().min()?, values.iter().max()?);
        let mut moments = Moments::default();
        for value in &*values {
            moments.add(*value);
        }
        let middle = middle_of(values).map(|[below, above]| [i128::from(below), i128::from(above)])?;
        Some(Summary::from(&moments, middle, min, max, || values.iter().copied()))
    }

    /// A summary of the values that `values` gives again; `middle` holds the two in the middle, or
    /// the one twice.
    fn from<I: Iterator<Item = i64>>(
        moments: &Moments,
        [below, above]: [i128; 2],
        min: i64,
        max: i64,
        values: impl FnOnce() -> I,
    ) -> Summary {
        let n = moments.count;
        let mean = moments.total as f64 / n as f64;
        let median = if n % 2 == 1 { above as f64 } else { (below + above) as f64 / 2.0 };
        let stddev = moments.stddev(|| {
            // In order, so that the sum of floats does not depend on how the values came.
            let mut sorted: Vec<i64> = values().collect();
            sorted.sort_unstable();
            sorted.iter().map(|value| (*value as f64 - mean).powi(2)).sum()
        });
        Summary { count: n, total: moments.total, mean, median, min, max, stddev }
    }
}

/// The two values in the middle, of which the second is the one for an odd number; everything is
/// reordered.
fn middle_of<T: Copy + Ord>(values: &mut [T]) -> Option<[T; 2]> {
    let at = values.len() / 2;
    if values.is_empty() {
        return None;
    }
    let (below, &mut above, _) = values.select_nth_unstable(at);
    Some([below.iter().max().copied().unwrap_or(above), above])
}

/// How many values, their sum, and that of their squares.
#[derive(Debug)]
struct Moments {
    count: u64,
    total: i128,
    /// `None` when it is too large for an integer.
    squares: Option<i128>,
}

impl Default for Moments {
    fn default() -> Moments {
        Moments { count: 0, total: 0, squares: Some(0) }
    }
}

impl Moments {
    fn add(&mut self, value: i64) {
        let value = i128::from(value);
        self.count += 1;
        self.total += value;
        self.squares = self.squares.and_then(|squares| squares.checked_add(value * value));
    }

    fn add_all(&mut self, values: &[u32]) {
        // A chunk of 2^16 values below 2^32 has a sum below 2^48, and squares that 128 bits hold a
        // whole trace of.
        for chunk in values.chunks(1 << 16) {
            let total: u64 = chunk.iter().map(|value| u64::from(*value)).sum();
            let squares: u128 =
                chunk.iter().map(|value| u128::from(u64::from(*value) * u64::from(*value))).sum();
            self.total += i128::from(total);
            self.squares = self.squares.and_then(|sum| sum.checked_add(i128::try_from(squares).ok()?));
        }
        self.count += values.len() as u64;
    }

    /// The sample standard deviation; `deviations` gives the sum of squared deviations where
    /// integers are too small.
    ///
    /// n·Σx² − (Σx)² in integers loses nothing, where sums of squared floats would; it overflows
    /// only for values that no trace has (10⁶ values of an hour each still fit).
    fn stddev(&self, deviations: impl FnOnce() -> f64) -> f64 {
        let n = i128::from(self.count);
        if n < 2 {
            return 0.0;
        }
        let exact = self
            .squares
            .and_then(|squares| squares.checked_mul(n))
            .and_then(|squares| squares.checked_sub(self.total.checked_mul(self.total)?));
        let variance = match exact {
            Some(difference) => difference as f64 / (n * (n - 1)) as f64,
            None => deviations() / (n - 1) as f64,
        };
        variance.sqrt()
    }
}

/// Values of which nearly all are below 2³², such as durations, in half the memory.
#[derive(Clone, Debug, Default)]
pub struct Values {
    small: Vec<u32>,
    /// The others.
    rest: Vec<i64>,
}

impl Values {
    /// Adds a value.
    #[inline]
    pub fn add(&mut self, value: i64) {
        match u32::try_from(value) {
            Ok(value) => self.small.push(value),
            Err(_) => self.rest.push(value),
        }
    }

    /// Adds all values of another collection.
    pub fn extend(&mut self, other: Values) {
        if self.small.is_empty() && self.rest.is_empty() {
            *self = other;
        } else {
            self.small.extend(other.small);
            self.rest.extend(other.rest);
        }
    }

    /// Adds the values of another collection, which keeps them.
    pub fn extend_from(&mut self, other: &Values) {
        self.small.extend_from_slice(&other.small);
        self.rest.extend_from_slice(&other.rest);
    }

    /// How many there are.
    pub fn len(&self) -> u64 {
        (self.small.len() + self.rest.len()) as u64
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Their statistics; `None` for no values.
    pub fn summary(mut self) -> Option<Summary> {
        if self.rest.is_empty() {
            let mut moments = Moments::default();
            moments.add_all(&self.small);
            let (&min, &max) = (self.small.iter().min()?, self.small.iter().max()?);
            let middle = middle_of(&mut self.small)?.map(i128::from);
            let values = || self.small.iter().map(|value| i64::from(*value));
            return Some(Summary::from(&moments, middle, min.into(), max.into(), values));
        }
        let mut values = self.rest;
        values.extend(self.small.into_iter().map(i64::from));
        Summary::of(&mut values)
    }
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
        fn values_of_any_size_have_the_statistics_of_a_sorted_list(
            mut values in proptest::collection::vec(
                proptest::prop_oneof![0_i64..100, -50_i64..1 << 34, proptest::prelude::any::<i64>()], 1..60)
        ) {
            let of = |values: &[i64]| {
                let mut collected = Values::default();
                for value in values {
                    collected.add(*value);
                }
                collected
            };
            let (one, other) = values.split_at(values.len() / 3);
            let mut collected = of(one);
            collected.extend(of(other));
            proptest::prop_assert_eq!(collected.len(), values.len() as u64);
            let summary = collected.summary().unwrap();
            proptest::prop_assert_eq!(Some(summary), Summary::of(&mut values.clone()));
            values.sort_unstable();
            let (n, total) = (values.len(), values.iter().map(|value| i128::from(*value)).sum::<i128>());
            let middle = i128::from(values[n / 2]);
            let below = if n % 2 == 1 { middle } else { i128::from(values[n / 2 - 1]) };
            proptest::prop_assert_eq!(summary.total, total);
            let median = (middle + below) as f64 / 2.0;
            proptest::prop_assert!((summary.median - median).abs() <= median.abs() * f64::EPSILON);
            proptest::prop_assert_eq!((summary.min, summary.max), (values[0], values[n - 1]));
        }

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
