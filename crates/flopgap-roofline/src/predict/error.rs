//! Errors of fitting and of estimates.

use flopgap_files::Hint;

/// An error of fitting a predictor, or of an estimate.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FitError {
    /// Fewer observations than a fit needs.
    #[error("a fit needs at least {needed} observations; found {found}")]
    TooFew {
        /// Observations that a fit needs.
        needed: usize,
        /// Observations that were given.
        found: usize,
    },
    /// A time that is zero, negative, infinite or NaN.
    #[error("observation {index}: time is {nanoseconds} ns; expected a positive number")]
    NotATime {
        /// Place of the observation, from 0.
        index: usize,
        /// The time given.
        nanoseconds: f64,
    },
    /// An observation without steps.
    #[error("observation {index} has no steps; expected at least one")]
    Nothing {
        /// Place of the observation, from 0.
        index: usize,
    },
    /// An energy that is zero, negative, infinite or NaN.
    #[error("observation {index}: energy is {joules} J; expected a positive number or none")]
    NotAnEnergy {
        /// Place of the observation, from 0.
        index: usize,
        /// The energy given.
        joules: f64,
    },
    /// An estimate without steps.
    #[error("no steps to estimate; a model needs at least one")]
    NoSteps,
    /// Steps of operations that no observation has: their times are not known.
    #[error("never measured: {}", kinds.join(", "))]
    NeverMeasured {
        /// Their kinds, each once: `recurrent layer (LSTM)`.
        kinds: Vec<String>,
        /// Places of the steps, from 0.
        steps: Vec<usize>,
    },
    /// A setting outside its range.
    #[error("{setting} is {value}; expected {expected}")]
    Setting {
        /// The name of the setting.
        setting: &'static str,
        /// What was given.
        value: String,
        /// What is accepted.
        expected: &'static str,
    },
    /// The library that grows the trees failed.
    #[error("could not grow the trees: {0}")]
    Forest(String),
}

impl Hint for FitError {}
