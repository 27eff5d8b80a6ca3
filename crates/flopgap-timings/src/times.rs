//! Statistics of durations.

use flopgap_trace::Summary;
use serde::{Deserialize, Serialize};

/// Statistics of durations, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// How many durations.
    pub count: u64,
    /// Their sum.
    pub total_ns: i128,
    /// Mean.
    pub mean_ns: f64,
    /// The middle value, or the mean of the middle two.
    pub median_ns: f64,
    /// The smallest.
    pub min_ns: i64,
    /// The largest.
    pub max_ns: i64,
    /// Sample standard deviation (n − 1); 0 for one value.
    pub stddev_ns: f64,
}

impl Times {
    /// The statistics of some durations; `None` for none.
    pub fn of(durations: impl IntoIterator<Item = i64>) -> Option<Times> {
        let mut durations: Vec<i64> = durations.into_iter().collect();
        Summary::of(&mut durations).map(Times::from)
    }
}

impl From<Summary> for Times {
    fn from(summary: Summary) -> Times {
        Times {
            count: summary.count,
            total_ns: summary.total,
            mean_ns: summary.mean,
            median_ns: summary.median,
            min_ns: summary.min,
            max_ns: summary.max,
            stddev_ns: summary.stddev,
        }
    }
}

/// How much larger `value` is than `base`, as a fraction; nothing over zero.
pub(crate) fn change(base: f64, value: f64) -> Option<f64> {
    (base > 0.0).then(|| value / base - 1.0)
}

/// `part / whole`; `None` over zero.
pub(crate) fn share(part: i128, whole: i128) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
