//! Errors of fitting and judging.

use flopgap_files::{ErrorKind, Hint, Text};
use flopgap_flops::FlopError;
use flopgap_graph::GraphError;
use flopgap_roofline::predict::FitError;

/// An error of fitting rows, or of judging a fit.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JudgeError {
    /// A row would be both fitted and judged by the same fit.
    #[error("{label} would be fitted and judge the same fit")]
    Leak {
        /// The workload that both sides have.
        label: String,
    },
    /// The predictor failed.
    #[error(transparent)]
    Fit(#[from] FitError),
    /// A row's sizes describe no network.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// A row's work cannot be counted.
    #[error("{label}: cannot be counted")]
    Work {
        /// What was run.
        label: String,
        /// What is wrong.
        source: FlopError,
    },
}

impl Hint for JudgeError {
    fn hint(&self) -> Option<Text<'_>> {
        match self {
            Self::Fit(FitError::TooFew { .. }) => {
                Some("measure more rows with `flopgap calibrate sweep`".into())
            }
            Self::Leak { .. } => Some("this is a defect of flopgap: report it".into()),
            Self::Fit(error) => error.hint(),
            Self::Graph(error) => error.hint(),
            Self::Work { .. } => None,
        }
    }

    fn kind(&self) -> ErrorKind {
        match self {
            Self::Graph(error) => error.kind(),
            _ => ErrorKind::Failed,
        }
    }
}
