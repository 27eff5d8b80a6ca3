//! The interface of every engine.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::{Check, Origin, Timing};
use flopgap_flops::Precision;
use flopgap_graph::{Algorithm, Mode, Workload};

use crate::engines::error::EngineError;

/// Something that runs networks on a device of this machine.
pub trait Engine {
    /// Its name in rows: `native`, `ort`, `cuda`, `fused`, `torch-eager`.
    fn name(&self) -> &'static str;

    /// The device, and the versions of the libraries that compute.
    fn origin(&self) -> &Origin;

    /// Its launch modes.
    fn modes(&self) -> &[Mode];

    /// Threads of the CPU that compute; 0 on a GPU.
    fn threads(&self) -> u32 {
        0
    }

    /// Best time of each reference kernel in nanoseconds, where times are normalized by such: what
    /// the header of a calibration file keeps, and a resumed session is given. On a GPU, where
    /// launches decide times.
    fn references(&self) -> BTreeMap<String, f64> {
        BTreeMap::new()
    }

    /// Whether it can run this, before anything is allocated.
    ///
    /// # Errors
    /// [`EngineError::Unsupported`] with the reason.
    fn supports(&self, workload: &Workload, precision: Precision) -> Result<(), EngineError>;

    /// Makes a workload ready to run, with parameters and inputs from a seed.
    ///
    /// # Errors
    /// What the engine's libraries say; not enough memory.
    fn open<'a>(
        &'a self,
        workload: &Workload,
        precision: Precision,
        mode: Mode,
    ) -> Result<Box<dyn Session + 'a>, EngineError>;
}

/// A workload that is ready to run.
pub trait Session {
    /// Compares the output of a run with a reference.
    ///
    /// # Errors
    /// The engine's. An output beyond its bound is not an error here: the caller refuses the row.
    fn check(&mut self) -> Result<Check, EngineError>;

    /// Times runs until the interval is narrow enough or the limit is reached.
    ///
    /// # Errors
    /// The engine's.
    fn time(&mut self, limit: &Repetition) -> Result<Timing, EngineError>;

    /// Runs for at least this long without timing each run, and says how many runs that were: a
    /// window for energy.
    ///
    /// # Errors
    /// The engine's.
    fn run_for(&mut self, duration: Duration) -> Result<u64, EngineError>;

    /// Bytes that the engine's own allocator held at most, parameters included, where it reports
    /// it.
    fn memory_bytes(&self) -> Option<u64>;

    /// The most device memory that it took, in bytes, if that can be measured.
    fn device_memory_bytes(&self) -> Option<u64>;

    /// FLOPs of a run by hardware counters, where they can be read.
    ///
    /// # Errors
    /// The engine's; a machine without counters gives `None`.
    fn counted_flops(&mut self) -> Result<Option<u64>, EngineError> {
        Ok(None)
    }

    /// How each step was computed, if the engine reports it.
    fn algorithms(&self) -> Vec<Algorithm> {
        Vec::new()
    }

    /// Remarks for readers of the row.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }
}

/// When timing stops.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Repetition {
    /// Runs before timing.
    pub warmup: u64,
    /// Half-width of the 95 % interval of the median over the median at which timing ends.
    pub interval: f64,
    /// Minimum number of runs.
    pub least: u64,
    /// Maximum time.
    pub limit: Duration,
}

impl Default for Repetition {
    fn default() -> Self {
        Repetition { warmup: 3, interval: 0.02, least: 10, limit: Duration::from_millis(500) }
    }
}
