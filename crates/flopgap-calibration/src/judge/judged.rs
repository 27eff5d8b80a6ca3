//! One measured run next to its estimate.

use std::fmt;

use flopgap_roofline::predict::Bottleneck;

/// A measured number and its estimate, in one unit.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Pair {
    /// The measurement, above 0.
    pub measured: f64,
    /// The estimate.
    pub estimated: f64,
}

impl Pair {
    /// The relative error, as a fraction: above 0 where the estimate is too large.
    pub fn error(self) -> f64 {
        (self.estimated - self.measured) / self.measured
    }

    /// What [`Errors::of`](crate::accuracy::Errors::of) takes.
    pub fn tuple(self) -> (f64, f64) {
        (self.measured, self.estimated)
    }
}

/// A reason to doubt a measurement.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Doubt {
    /// The confidence interval of the time is wide.
    Imprecise {
        /// Half of its width, as a fraction of the time.
        half_width: f64,
    },
    /// The device reduced its clocks.
    Throttled {
        /// NVML's name of the reason.
        reason: String,
    },
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Imprecise { half_width } => write!(f, "measured to ±{:.0}% only", 100.0 * half_width),
            Self::Throttled { reason } => write!(f, "throttled: {reason}"),
        }
    }
}

/// What is estimated where the kernels are known that the library chose, as on the device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WithKernels {
    /// Nanoseconds.
    pub time: Pair,
    /// The 90 % interval of the time, in nanoseconds.
    pub interval: (f64, f64),
    /// Bytes in use.
    pub memory: Option<Pair>,
    /// FLOPs that counters saw, next to those that the kernels execute; `None` where some kernel's
    /// are not known.
    pub flops: Option<Pair>,
    /// Joules.
    pub energy: Option<Pair>,
}

/// One measured run next to its estimate, from any estimator. Reports and accuracies are made of
/// these.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Judged {
    /// What was run.
    pub label: String,
    /// What it is without its batch: runs of one model, but for the batch, have the same.
    pub model: String,
    /// `gemm`, `conv`, `mlp`, `resnet`, …
    pub family: String,
    /// The engine; empty where a table does not say.
    pub engine: String,
    /// `graph`, `stream`, `call`; empty where a table does not say.
    pub mode: String,
    /// `fp32`, …; empty where a table does not say.
    pub precision: String,
    /// Samples of a call.
    pub batch: Option<u64>,
    /// Nanoseconds.
    pub time: Pair,
    /// Bounds of the interval of the estimated time in nanoseconds.
    pub interval: Option<(f64, f64)>,
    /// Bytes in use.
    pub memory: Option<Pair>,
    /// FLOPs: counted, or as the table says, next to the closed form or estimate.
    pub flops: Option<Pair>,
    /// Joules.
    pub energy: Option<Pair>,
    /// The estimates that know the recorded kernels; `None` where none were recorded.
    pub with_kernels: Option<WithKernels>,
    /// Nanoseconds by the baselines, in the order of `Baseline::ALL`.
    pub baselines: Option<[f64; 3]>,
    /// FLOPs of the closed forms.
    pub work: Option<f64>,
    /// Bytes of all operands and results, each step by itself.
    pub bytes: Option<f64>,
    /// Bytes that a run touches again and again: parameters and activations.
    pub working_set: Option<f64>,
    /// Estimated nanoseconds that are launches.
    pub launch: Option<f64>,
    /// What most of the estimated time is bound by.
    pub bottleneck: Option<String>,
    /// What its interval is set by: `launch`, `compute`, `memory`.
    pub regime: Option<String>,
    /// Estimated nanoseconds by bottleneck, over the steps; empty where a table has none.
    pub shares: Vec<(Bottleneck, f64)>,
    /// Whether the estimate lies outside of what was fitted: in a size, or in a kind of step.
    pub extrapolated: bool,
    /// Reasons to doubt the measurement.
    pub doubts: Vec<Doubt>,
    /// Half-width of the 95 % interval of the measured median, as a fraction.
    pub spread: Option<f64>,
}

impl Judged {
    /// FLOPs for each byte.
    pub fn intensity(&self) -> Option<f64> {
        let (work, bytes) = self.work.zip(self.bytes)?;
        (work > 0.0 && bytes > 0.0).then(|| work / bytes)
    }
}
