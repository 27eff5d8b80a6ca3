//! Why a question about a trace has no answer.

use std::path::PathBuf;

use flopgap_flops::FlopError;

use crate::unlaunched::Unlaunched;

/// Why a question about a trace has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The trace could not be read, or lacks what the question needs.
    #[error(transparent)]
    Trace(#[from] flopgap_nsys::Error),
    /// No range is a step or pass, by its name.
    #[error("{}: no NVTX range marks a step, forward, backward or optimizer pass by its name{}", path.display(), longest_in_words(longest))]
    NoPasses {
        /// The trace.
        path: PathBuf,
        /// The ranges that take most of the host's time, by folded name.
        longest: Vec<String>,
    },
    /// No range is a whole step, by its name.
    #[error("{}: no NVTX range marks a step", path.display())]
    NoSteps {
        /// The trace.
        path: PathBuf,
    },
    /// Ranges of the name are there, but all of them are warm-up.
    #[error("{}: all {instances} instances of `{range}` are left out as warm-up", path.display())]
    OnlyWarmUp {
        /// The trace.
        path: PathBuf,
        /// The range.
        range: String,
        /// How many instances it has.
        instances: u64,
    },
    /// The ranges that were asked for launched nothing.
    #[error("{}: no GPU work was launched within {ranges}{}", path.display(), unlaunched_in_words(unlaunched))]
    NoWork {
        /// The trace.
        path: PathBuf,
        /// The ranges.
        ranges: String,
        /// The work that could belong to no range.
        unlaunched: Unlaunched,
    },
    /// No kernel was recorded, or none launched by the ranges that were asked for.
    #[error("{}: no kernel was {}", path.display(), within.as_ref().map_or("recorded".to_owned(), |range| format!("launched within {range}")))]
    NoKernels {
        /// The trace.
        path: PathBuf,
        /// The ranges, unless all of the trace was asked for.
        within: Option<String>,
    },
    /// The closed form of the model does not fit its integer, or its sizes are zero.
    #[error(transparent)]
    Flops(#[from] FlopError),
}

/// The ranges from which the user can choose.
fn longest_in_words(longest: &[String]) -> String {
    if longest.is_empty() { String::new() } else { format!("; the longest are `{}`", longest.join("`, `")) }
}

/// What may be missing.
fn unlaunched_in_words(unlaunched: &Unlaunched) -> String {
    unlaunched
        .in_words()
        .map(|words| format!("; {words} without a recorded launch can belong to none"))
        .unwrap_or_default()
}

impl Error {
    /// What the user can do about it, where there is something.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Error::Trace(error) => error.hint(),
            Error::NoPasses { .. } | Error::NoSteps { .. } => {
                Some("name the ranges with --range; `nsys-analyze stats TRACE --report nvtx_sum` lists them")
            }
            Error::OnlyWarmUp { .. } => {
                Some("--skip-warmup 0 keeps the first instances, and --warmup names another range as warm-up")
            }
            Error::NoKernels { within: None, .. } => {
                Some("record while the GPU works, with `nsys profile -t cuda,nvtx`")
            }
            Error::NoWork { .. } | Error::NoKernels { .. } => Some(
                "the range may only wait for work that was launched before it; `nsys-analyze stats TRACE --report nvtx_gpu_proj_sum` lists the ranges that launch work",
            ),
            Error::Flops(_) => None,
        }
    }

    /// Whether the trace is sound but what was asked for is not in it.
    pub fn is_absence(&self) -> bool {
        match self {
            Error::Trace(error) => error.is_absence(),
            Error::NoPasses { .. }
            | Error::NoSteps { .. }
            | Error::OnlyWarmUp { .. }
            | Error::NoWork { .. }
            | Error::NoKernels { .. } => true,
            Error::Flops(_) => false,
        }
    }
}
