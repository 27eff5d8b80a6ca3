//! Statistics of relative errors.

use std::collections::BTreeMap;

pub use flopgap_roofline::quantile;
use rustc_hash::FxHashMap;

use crate::judge::Judged;
use crate::row::Row;

/// Relative errors of predictions: `(predicted − measured) ÷ measured`, as fractions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Errors {
    /// Pairs of a measurement and a prediction.
    pub count: usize,
    /// Mean of the magnitudes: MAPE.
    pub mape: f64,
    /// Median of the magnitudes.
    pub median: f64,
    /// 90th percentile of the magnitudes.
    pub p90: f64,
    /// Largest magnitude.
    pub worst: f64,
    /// Mean with its sign: above 0 where predictions are too large.
    pub bias: f64,
}

impl Errors {
    /// The errors of `(measured, predicted)` pairs. `None` without any pair.
    ///
    /// Measurements are positive and both numbers finite: readers of files see to that.
    ///
    /// ```
    /// use flopgap_calibration::accuracy::Errors;
    ///
    /// let errors = Errors::of([(10.0, 11.0), (10.0, 8.0)]).ok_or("no pairs")?;
    /// assert!((errors.mape - 0.15).abs() < 1e-12);
    /// assert!((errors.bias + 0.05).abs() < 1e-12);
    /// # Ok::<(), &str>(())
    /// ```
    pub fn of(pairs: impl IntoIterator<Item = (f64, f64)>) -> Option<Errors> {
        let signed: Vec<f64> =
            pairs.into_iter().map(|(measured, predicted)| (predicted - measured) / measured).collect();
        let mut magnitudes: Vec<f64> = signed.iter().map(|error| error.abs()).collect();
        magnitudes.sort_unstable_by(f64::total_cmp);
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        Some(Errors {
            count: signed.len(),
            mape: mean(&magnitudes),
            median: quantile(&magnitudes, 0.5)?,
            p90: quantile(&magnitudes, 0.9)?,
            worst: *magnitudes.last()?,
            bias: mean(&signed),
        })
    }
}

/// The median of numbers in any order.
pub(crate) fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_unstable_by(f64::total_cmp);
    quantile(&numbers, 0.5)
}

/// How many measurements lie within their predicted intervals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Predictions with an interval.
    pub count: usize,
    /// Those whose interval holds the measurement.
    pub covered: usize,
}

impl Coverage {
    /// The coverage of `(measured, low, high)`.
    pub fn new(intervals: impl IntoIterator<Item = (f64, f64, f64)>) -> Coverage {
        let mut coverage = Coverage::default();
        for (measured, low, high) in intervals {
            coverage.count += 1;
            coverage.covered += usize::from((low..=high).contains(&measured));
        }
        coverage
    }

    /// The share that is covered; `None` without any interval.
    pub fn share(self) -> Option<f64> {
        (self.count > 0).then(|| self.covered as f64 / self.count as f64)
    }

    /// The standard error of the share if each interval covered `level` of all runs, independently:
    /// a share from few rows may be that far off by chance.
    pub fn standard_error(self, level: f64) -> Option<f64> {
        (self.count > 0).then(|| (level * (1.0 - level) / self.count as f64).sqrt())
    }
}

/// The coverage of intervals in each regime.
pub fn coverage(judged: &[Judged]) -> Vec<(String, Coverage)> {
    let mut regimes = BTreeMap::<String, Coverage>::new();
    for row in judged {
        let (Some(regime), Some((low, high))) = (&row.regime, row.interval) else { continue };
        let one = Coverage::new([(row.time.measured, low, high)]);
        let sum = regimes.entry(regime.clone()).or_default();
        sum.count += one.count;
        sum.covered += one.covered;
    }
    regimes.into_iter().collect()
}

/// Mean relative distance of repeated measurements from their mean, over the rows that were
/// measured more than once; `None` without any.
pub fn repeatability(rows: &[&Row]) -> Option<f64> {
    let mut times = FxHashMap::<_, Vec<f64>>::default();
    for row in rows {
        times.entry(row.key()).or_default().push(row.measurement.time.median_ns);
    }
    let distances: Vec<f64> = times
        .values()
        .filter(|times| times.len() > 1)
        .flat_map(|times| {
            let mean = times.iter().sum::<f64>() / times.len() as f64;
            times.iter().map(move |time| (time - mean).abs() / mean)
        })
        .collect();
    (!distances.is_empty()).then(|| distances.iter().sum::<f64>() / distances.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_between_the_two_in_the_middle() {
        assert_eq!(median(vec![4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(Vec::new()), None);
    }

    #[test]
    fn statistics_are_those_of_the_definition() {
        // Errors of +10 %, −20 %, +30 %, 0 %, −40 %.
        let pairs = [(10.0, 11.0), (10.0, 8.0), (10.0, 13.0), (10.0, 10.0), (10.0, 6.0)];
        let errors = Errors::of(pairs).unwrap();
        assert_eq!(errors.count, 5);
        let near = |left: f64, right: f64| assert!((left - right).abs() < 1e-12, "{left} {right}");
        near(errors.mape, 0.2);
        near(errors.median, 0.2);
        near(errors.p90, 0.36);
        near(errors.worst, 0.4);
        near(errors.bias, -0.04);
        assert_eq!(Errors::of([]), None);
    }

    #[test]
    fn intervals_hold_their_ends() {
        let coverage = Coverage::new([(1.0, 1.0, 2.0), (2.0, 1.0, 2.0), (3.0, 1.0, 2.0), (1.5, 1.0, 2.0)]);
        assert_eq!(coverage, Coverage { count: 4, covered: 3 });
        assert_eq!(coverage.share(), Some(0.75));
        assert_eq!(coverage.standard_error(0.9), Some(0.15));
        assert_eq!(Coverage::default().share(), None);
    }
}
