//! Why a predictor cannot be fitted or asked.

/// Why observations give no predictor, or a predictor no estimate.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FitError {
    /// Fewer observations than a fit needs.
    #[error("a fit needs at least {needed} observations, but there are {found}")]
    TooFew {
        /// Observations that a fit needs.
        needed: usize,
        /// Observations that were given.
        found: usize,
    },
    /// A time that is zero, negative, infinite or NaN.
    #[error("observation {index}: the time is {nanoseconds} ns; a time is a positive number")]
    NotATime {
        /// Place of the observation, from 0.
        index: usize,
        /// The time given.
        nanoseconds: f64,
    },
    /// A run of nothing.
    #[error("observation {index} has no steps; a run has at least one")]
    Nothing {
        /// Place of the observation, from 0.
        index: usize,
    },
    /// An energy that is zero, negative, infinite or NaN.
    #[error("observation {index}: the energy is {joules} J; an energy is a positive number, or absent")]
    NotAnEnergy {
        /// Place of the observation, from 0.
        index: usize,
        /// The energy given.
        joules: f64,
    },
    /// An estimate of nothing.
    #[error("there are no steps to estimate; a model has at least one")]
    NoSteps,
    /// A setting outside its range.
    #[error("{setting} is {value}; it must be {expected}")]
    Setting {
        /// The name of the setting.
        setting: &'static str,
        /// What was given.
        value: String,
        /// What is accepted.
        expected: &'static str,
    },
    /// The library that grows the trees refused.
    #[error("the forest could not be grown: {0}")]
    Forest(String),
}
