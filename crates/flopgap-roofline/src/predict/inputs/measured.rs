//! Looks up measured runs.

use flopgap_flops::Precision;
use flopgap_graph::{Mode, Step};
use rustc_hash::FxHashMap;

use crate::predict::Observation;
use crate::predict::inputs::point::Point;

/// The measurements of one run.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub(crate) struct Measured {
    pub(crate) nanoseconds: f64,
    pub(crate) bounds: [f64; 2],
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) joules: Option<f64>,
}

/// Steps, precision and mode as JSON has them: exact, and the same in every process.
type Key = String;

/// `None` for what JSON cannot say, which is no run.
fn key(steps: &[Step], precision: Precision, mode: Mode) -> Option<Key> {
    serde_json::to_string(&(steps, precision, mode)).ok()
}

/// All runs of a fit.
#[derive(Debug, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct MeasuredRuns {
    by_key: FxHashMap<Key, Measured>,
}

impl MeasuredRuns {
    /// Of several measurements of one run, their geometric mean.
    pub(crate) fn new(observations: &[Observation]) -> Self {
        let mut rows_by_key: FxHashMap<Key, Vec<&Observation>> = FxHashMap::default();
        for row in observations {
            if let Some(key) = key(&row.steps, row.precision, row.mode) {
                rows_by_key.entry(key).or_default().push(row);
            }
        }
        let by_key = rows_by_key.into_iter().map(|(key, rows)| {
            let logarithms: f64 = rows.iter().map(|row| row.nanoseconds.ln()).sum();
            let bounds = rows.iter().fold([f64::INFINITY, 0.0f64], |bounds, row| {
                let [low, high] = row.bounds.unwrap_or([row.nanoseconds; 2]);
                [bounds[0].min(low), bounds[1].max(high)]
            });
            // One measurement comes back to the bit.
            let nanoseconds = match &*rows {
                [row] => row.nanoseconds,
                _ => (logarithms / rows.len() as f64).exp(),
            };
            let memory_bytes = rows.iter().filter_map(|row| row.memory_bytes).max();
            let joules = rows.iter().find_map(|row| row.joules);
            (key, Measured { nanoseconds, bounds, memory_bytes, joules })
        });
        Self { by_key: by_key.collect() }
    }

    /// Exactly this run.
    pub(crate) fn run(&self, steps: &[Step], precision: Precision, mode: Mode) -> Option<&Measured> {
        self.by_key.get(&key(steps, precision, mode)?)
    }

    /// Nanoseconds of a step measured alone.
    pub(crate) fn step(&self, point: &Point<'_>) -> Option<f64> {
        let run = self.run(std::slice::from_ref(point.step), point.precision, point.mode);
        run.map(|run| run.nanoseconds)
    }
}
