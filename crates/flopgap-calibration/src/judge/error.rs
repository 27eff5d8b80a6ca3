//! Why rows cannot be judged.

use flopgap_flops::FlopError;
use flopgap_graph::GraphError;
use flopgap_roofline::predict::FitError;

/// Why rows cannot be fitted or judged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JudgeError {
    /// A fit was to see a row that judges it, or a row that it saw was to judge it.
    #[error("{label} is fitted and validates the same fit")]
    Leak {
        /// What both sides have.
        label: String,
    },
    /// The predictor cannot be fitted or asked.
    #[error(transparent)]
    Fit(#[from] FitError),
    /// A row's sizes describe no network.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// A row's work cannot be counted.
    #[error("{label}: {source}")]
    Work {
        /// What was run.
        label: String,
        /// What is wrong.
        source: FlopError,
    },
}

impl JudgeError {
    /// What the user can do about it, where there is something.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Fit(FitError::TooFew { .. }) => {
                Some("measure more rows with `model-calibrate sweep`; `--quick` measures 150")
            }
            Self::Leak { .. } => Some("this is a defect of flopgap: please report it"),
            _ => None,
        }
    }
}
