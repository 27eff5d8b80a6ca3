//! Two calibrations of one machine, point by point.

use rustc_hash::FxHashMap;

use crate::accuracy::{median, quantile};
use crate::file::Calibration;
use crate::row::{Row, RowKey, mode_name};

/// A row that both calibrations have.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The workload.
    pub label: String,
    /// Its kind: `gemm`, `mlp`, …
    pub family: String,
    /// The engine.
    pub engine: String,
    /// How it was launched.
    pub mode: &'static str,
    /// The precision.
    pub precision: String,
    /// Nanoseconds in the old calibration; the mean where it was measured repeatedly.
    pub old_ns: f64,
    /// Nanoseconds in the new one.
    pub new_ns: f64,
    /// Whether the measured intervals overlap, so that the change may be noise.
    pub overlaps: bool,
    /// Bytes in use, old and new, where both have them.
    pub memory: Option<(u64, u64)>,
}

impl Change {
    /// New over old, minus one: above 0 if it became slower.
    pub fn relative(&self) -> f64 {
        self.new_ns / self.old_ns - 1.0
    }

    /// New over old memory, minus one.
    pub fn relative_memory(&self) -> Option<f64> {
        let (old, new) = self.memory?;
        (old > 0).then(|| new as f64 / old as f64 - 1.0)
    }
}

/// The rows that two calibrations have in common, and those that only one has.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Rows of both, the largest change first.
    pub changes: Vec<Change>,
    /// Rows that only the old one has.
    pub only_old: Vec<String>,
    /// Rows that only the new one has.
    pub only_new: Vec<String>,
}

impl Comparison {
    /// Compares two calibrations.
    pub fn of(old: &Calibration, new: &Calibration) -> Comparison {
        let (before, mut after) = (by_key(&old.rows), by_key(&new.rows));
        let mut changes = Vec::new();
        let mut only_old = Vec::new();
        for (key, old) in before {
            match after.remove(&key) {
                Some(new) => changes.push(change(&key, &old, &new)),
                None => only_old.push(describe(&key)),
            }
        }
        changes.sort_by(|a, b| {
            b.relative().abs().total_cmp(&a.relative().abs()).then_with(|| a.label.cmp(&b.label))
        });
        let mut only_new: Vec<String> = after.keys().map(describe).collect();
        only_old.sort_unstable();
        only_new.sort_unstable();
        Comparison { changes, only_old, only_new }
    }

    /// The changes of time beyond a threshold, as a fraction, in either direction.
    pub fn beyond(&self, threshold: f64) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(move |change| change.relative().abs() > threshold)
    }

    /// The median of new over old, minus one: the change common to all points.
    pub fn median(&self) -> Option<f64> {
        median(self.changes.iter().map(Change::relative).collect())
    }

    /// Mean and 90th percentile of the changes' magnitudes.
    pub fn spread(&self) -> Option<(f64, f64)> {
        let mut sizes: Vec<f64> = self.changes.iter().map(|change| change.relative().abs()).collect();
        sizes.sort_unstable_by(f64::total_cmp);
        let mean = sizes.iter().sum::<f64>() / sizes.len() as f64;
        Some((mean, quantile(&sizes, 0.9)?))
    }
}

fn by_key(rows: &[Row]) -> FxHashMap<RowKey, Vec<&Row>> {
    let mut by_key = FxHashMap::<RowKey, Vec<&Row>>::default();
    for row in rows {
        by_key.entry(row.key()).or_default().push(row);
    }
    by_key
}

fn change(key: &RowKey, old: &[&Row], new: &[&Row]) -> Change {
    let mean = |rows: &[&Row]| {
        rows.iter().map(|row| row.measurement.time.median_ns).sum::<f64>() / rows.len() as f64
    };
    let bounds = |rows: &[&Row]| {
        rows.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), row| {
            (low.min(row.measurement.time.low_ns), high.max(row.measurement.time.high_ns))
        })
    };
    let ((old_low, old_high), (new_low, new_high)) = (bounds(old), bounds(new));
    let memory = |rows: &[&Row]| rows.iter().filter_map(|row| row.measurement.memory_bytes).max();
    Change {
        label: key.workload.label(),
        family: key.workload.family().to_owned(),
        engine: key.engine.clone(),
        mode: mode_name(key.mode),
        precision: key.precision.to_string(),
        old_ns: mean(old),
        new_ns: mean(new),
        overlaps: old_low <= new_high && new_low <= old_high,
        memory: memory(old).zip(memory(new)),
    }
}

fn describe(key: &RowKey) -> String {
    format!("{} {} {} {}", key.workload.label(), key.engine, mode_name(key.mode), key.precision)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn calibration(rows: Vec<Row>) -> Calibration {
        Calibration { header: testing::header(), rows, torn: false }
    }

    #[test]
    fn points_are_compared_one_by_one() {
        let old = calibration(testing::rows(5));
        let mut rows = testing::rows(6);
        rows.remove(0);
        rows[1].measurement.time = testing::timing(2.0 * 1002.0);
        rows[2].measurement.time = testing::timing(1.005 * 1003.0);
        let comparison = Comparison::of(&old, &calibration(rows));
        assert_eq!(comparison.changes.len(), 4);
        assert_eq!(comparison.only_old, ["gemm 1x512x1024 cuda graph fp16"]);
        assert_eq!(comparison.only_new, ["gemm 6x512x1024 cuda graph fp16"]);
        let worst = &comparison.changes[0];
        assert_eq!((worst.label.as_str(), worst.overlaps), ("gemm 3x512x1024", false));
        assert!((worst.relative() - 1.0).abs() < 1e-12);
        assert!(comparison.changes[1].overlaps, "half a percent is within the measured intervals");
        assert_eq!(comparison.beyond(0.1).count(), 1);
        assert!(comparison.median().unwrap().abs() < 0.003);
    }

    #[test]
    fn repeated_measurements_are_one_point() {
        let mut rows = testing::rows(1);
        rows.push(rows[0].clone());
        rows[1].measurement.time = testing::timing(3000.0);
        let comparison = Comparison::of(&calibration(rows), &calibration(testing::rows(1)));
        assert_eq!(comparison.changes.len(), 1);
        assert!((comparison.changes[0].old_ns - 2000.0).abs() < 1e-9);
    }
}
