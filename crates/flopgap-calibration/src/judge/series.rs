//! Groups rows into series, each of which one predictor is fitted to.

use std::fmt;

use flopgap_roofline::predict::Observation;

use super::JudgeError;
use crate::row::Row;

/// The scope of a predictor: one engine with one number of threads.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Series {
    /// The engine.
    pub engine: String,
    /// Threads of the CPU that compute; 0 on a GPU.
    pub threads: u32,
}

impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.threads {
            0 => f.write_str(&self.engine),
            1 => write!(f, "{}, 1 thread", self.engine),
            threads => write!(f, "{}, {threads} threads", self.engine),
        }
    }
}

/// The series of a calibration with their rows, the one with most rows first.
pub fn series(rows: &[Row]) -> Vec<(Series, Vec<&Row>)> {
    let mut all = std::collections::BTreeMap::<Series, Vec<&Row>>::new();
    for row in rows {
        let series = Series { engine: row.engine.clone(), threads: row.threads };
        all.entry(series).or_default().push(row);
    }
    let mut all: Vec<_> = all.into_iter().collect();
    all.sort_by_key(|(_, rows)| std::cmp::Reverse(rows.len()));
    all
}

/// Converts a row into an observation for a predictor.
///
/// # Errors
/// When its sizes describe no network.
pub fn observation(row: &Row) -> Result<Observation, JudgeError> {
    let measurement = &row.measurement;
    let time = &measurement.time;
    let steps = row.workload.steps()?;
    let mut observation = Observation::of_time(steps, row.precision, row.mode, time.median_ns);
    observation.bounds = Some([time.low_ns.min(time.median_ns), time.high_ns.max(time.median_ns)]);
    observation.memory_bytes = measurement.memory_bytes;
    observation.joules = measurement.energy.map(|energy| energy.joules);
    observation.algorithms.clone_from(&measurement.algorithms);
    Ok(observation)
}
