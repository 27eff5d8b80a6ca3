//! Errors of queries on a trace.

use std::path::PathBuf;

use flopgap_files::{ErrorKind, Hint, Text};
use flopgap_flops::FlopError;
use flopgap_trace::{ReadError, Unlaunched};

/// Why a query on a trace has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The trace could not be read, or lacks what the question needs.
    #[error(transparent)]
    Trace(#[from] ReadError),
    /// No range has the name that was asked for.
    #[error("{}: no range is called `{range}`", path.display())]
    NoRange {
        /// The trace.
        path: PathBuf,
        /// The range.
        range: String,
    },
    /// No range is a step or pass, by its name.
    #[error("{}: no range marks a step, forward, backward or optimizer pass by its name{}", path.display(), longest_in_words(longest))]
    NoPasses {
        /// The trace.
        path: PathBuf,
        /// The ranges that take most of the host's time, by folded name.
        longest: Vec<String>,
    },
    /// No range is a whole step, by its name.
    #[error("{}: no range marks a step", path.display())]
    NoSteps {
        /// The trace.
        path: PathBuf,
    },
    /// All ranges with this name are warm-up.
    #[error("{}: all {instances} instances of `{range}` are left out as warm-up", path.display())]
    OnlyWarmUp {
        /// The trace.
        path: PathBuf,
        /// The range.
        range: String,
        /// How many instances it has.
        instances: u64,
    },
    /// The requested ranges launched nothing.
    #[error("{}: no GPU work was launched within `{ranges}`{}", path.display(), unlaunched_in_words(unlaunched))]
    NoWork {
        /// The trace.
        path: PathBuf,
        /// The ranges.
        ranges: String,
        /// The work that belongs to no range.
        unlaunched: Unlaunched,
    },
    /// No kernel was recorded, or none launched by the requested ranges.
    #[error("{}: no kernel was {}", path.display(), within.as_ref().map_or("recorded".to_owned(), |range| format!("launched within `{range}`")))]
    NoKernels {
        /// The trace.
        path: PathBuf,
        /// The ranges, unless all of the trace was requested.
        within: Option<String>,
    },
    /// The closed form of the model overflows, or its sizes are zero.
    #[error(transparent)]
    Flops(#[from] FlopError),
}

/// The ranges from which the user can choose.
fn longest_in_words(longest: &[String]) -> String {
    if longest.is_empty() { String::new() } else { format!("; the longest are `{}`", longest.join("`, `")) }
}

/// What may be missing.
fn unlaunched_in_words(unlaunched: &Unlaunched) -> String {
    match unlaunched.operations {
        0 => String::new(),
        1 => "; 1 operation without a recorded launch can belong to none".to_owned(),
        several => format!("; {several} operations without a recorded launch can belong to none"),
    }
}

impl Hint for Error {
    fn hint(&self) -> Option<Text<'_>> {
        match self {
            Error::Trace(error) => error.hint(),
            Error::Flops(error) => error.hint(),
            Error::NoKernels { within: None, .. } => {
                Some("record while the GPU works, with `nsys profile -t cuda,nvtx`".into())
            }
            Error::NoWork { .. } | Error::NoKernels { .. } => {
                Some("ask for the range that launches the work; this one may only wait for it".into())
            }
            Error::NoRange { .. }
            | Error::NoPasses { .. }
            | Error::NoSteps { .. }
            | Error::OnlyWarmUp { .. } => None,
        }
    }

    fn kind(&self) -> ErrorKind {
        match self {
            Error::Trace(error) => error.kind(),
            Error::Flops(error) => error.kind(),
            Error::NoPasses { .. }
            | Error::NoSteps { .. }
            | Error::NoRange { .. }
            | Error::OnlyWarmUp { .. }
            | Error::NoWork { .. }
            | Error::NoKernels { .. } => ErrorKind::Absent,
        }
    }
}
