//! Estimates.

use super::Regime;

/// A predicted (or measured) run.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// Nanoseconds of a run.
    pub nanoseconds: f64,
    /// Lower bound of the interval: 90 % of the runs lie within, unless the settings of the fit say
    /// otherwise.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
    /// Each step by itself, in the order they were given. What they do not add up to is what the
    /// steps of a model cost each other; see [`Estimate::correction`].
    pub by_step: Vec<StepEstimate>,
    /// The time over the sum of the steps.
    pub correction: f64,
    /// Whether a size, a kind of step or a precision lies outside of what was fitted.
    pub extrapolated: bool,
    /// Whether exactly this run was measured: then the time is the measured one.
    pub measured: bool,
    /// What bounds most of the time.
    pub regime: Regime,
    /// Bytes that the engine's allocator holds at most; `None` where no observation had any.
    pub memory_bytes: Option<f64>,
    /// Joules of a run; `None` where too few observations had any.
    pub joules: Option<f64>,
}

/// A predicted (or measured) step.
#[derive(Debug, Clone, PartialEq)]
pub struct StepEstimate {
    /// Nanoseconds.
    pub nanoseconds: f64,
    /// Lower bound of the interval.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
    /// What bounds it.
    pub bottleneck: Bottleneck,
    /// Its regime.
    pub regime: Regime,
    /// Nanoseconds of its roofline, at the peaks of the machine.
    pub roofline_ns: f64,
    /// Nanoseconds before the computation starts.
    pub launch_ns: f64,
    /// Operations of its roofline.
    pub flops: f64,
    /// Compulsory bytes of its roofline.
    pub bytes: f64,
    /// Whether a size, the kind of step or the precision lies outside of what was fitted.
    pub extrapolated: bool,
    /// Whether exactly this step was measured alone.
    pub measured: bool,
}

/// What bounds a step.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bottleneck {
    /// The cost of a launch.
    Launch,
    /// Arithmetic.
    Compute,
    /// Bytes between the units and this level: `L1`, `L2`, `L3`, `DRAM`, `HBM`; `memory` where the
    /// levels are not known.
    Memory(String),
}

impl Bottleneck {
    /// Its name in tables.
    pub fn name(&self) -> &str {
        match self {
            Self::Launch => "launch",
            Self::Compute => "compute",
            Self::Memory(level) => level,
        }
    }
}
