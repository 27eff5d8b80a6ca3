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
    /// Whether a size lies outside of what was fitted.
    pub extrapolated: bool,
    /// The kinds of steps that are estimated from their floors, each once: of their operations,
    /// something was measured, but not in this kind, precision or mode.
    pub from_floor: Vec<String>,
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
    /// What the time comes from.
    pub basis: Basis,
}

/// What the time of a step comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Basis {
    /// Exactly this step was measured alone.
    Measured,
    /// The fit, within the sizes that were measured.
    Fitted,
    /// The fit, beyond the sizes that were measured: the interval is twice as wide.
    Extrapolated,
    /// The floor: nothing of this kind was measured. The interval is from once to ten times the
    /// floor, and the time its middle on a logarithmic scale.
    Floor,
    /// A table of kernels or calls that were measured on this machine.
    Table,
    /// The time on another machine, at the peaks of this one.
    Transferred,
}

impl Basis {
    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Fitted => "estimated",
            Self::Extrapolated => "extrapolated",
            Self::Floor => "floor, 1 to 10 times",
            Self::Table => "table",
            Self::Transferred => "transferred",
        }
    }
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
