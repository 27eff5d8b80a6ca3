//! The training data of a predictor.

use flopgap_flops::Precision;
use flopgap_graph::{Algorithm, Mode, Step};

use super::FitError;

/// One measured run: the steps that were run one after the other, and what that cost.
///
/// All observations of a fit come from one engine on one machine with one number of threads. What
/// was not measured is `None`, never 0.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// The workload: one step, or those of a whole model in order.
    pub steps: Vec<Step>,
    /// The precision.
    pub precision: Precision,
    /// How it was launched.
    pub mode: Mode,
    /// Nanoseconds of a run.
    pub nanoseconds: f64,
    /// The interval that the time was measured within; `None` where that is not known.
    pub bounds: Option<[f64; 2]>,
    /// Bytes that the engine's allocator held at most, parameters included.
    pub memory_bytes: Option<u64>,
    /// Joules of a run.
    pub joules: Option<f64>,
    /// How each step was computed; empty if the engine does not report it.
    pub algorithms: Vec<Algorithm>,
}

impl Observation {
    /// An observation of time alone.
    pub fn of_time(steps: Vec<Step>, precision: Precision, mode: Mode, nanoseconds: f64) -> Self {
        Self {
            steps,
            precision,
            mode,
            nanoseconds,
            bounds: None,
            memory_bytes: None,
            joules: None,
            algorithms: Vec::new(),
        }
    }

    /// Refuses what no fit can use.
    pub(crate) fn check(&self, index: usize) -> Result<(), FitError> {
        if self.steps.is_empty() {
            return Err(FitError::Nothing { index });
        }
        if !self.nanoseconds.is_finite() || self.nanoseconds <= 0.0 {
            return Err(FitError::NotATime { index, nanoseconds: self.nanoseconds });
        }
        match self.joules {
            Some(joules) if !joules.is_finite() || joules <= 0.0 => {
                Err(FitError::NotAnEnergy { index, joules })
            }
            _ => Ok(()),
        }
    }
}
