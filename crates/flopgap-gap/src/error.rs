//! Why a trace cannot be taken apart.

use std::path::PathBuf;

use flopgap_files::{ErrorKind, Hint, Text};
use flopgap_trace::ReadError;

/// Why a trace cannot be taken apart.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The trace cannot be read, or has no GPU work.
    #[error(transparent)]
    Trace(#[from] ReadError),
    /// It has no such ranges.
    #[error(transparent)]
    Ranges(#[from] flopgap_timings::Error),
    /// The ranges that are to be taken apart launch no GPU work.
    #[error("{}: the ranges named `{ranges}` launch no GPU work", path.display())]
    NoWork {
        /// The file.
        path: PathBuf,
        /// The folded name of the ranges.
        ranges: String,
    },
    /// The durations of its GPU work do not add up within 64 bits: no recording is so long.
    #[error("{}: the durations of its GPU work are more than 64 bits hold", path.display())]
    Durations {
        /// The file.
        path: PathBuf,
    },
}

impl Hint for Error {
    fn hint(&self) -> Option<Text<'_>> {
        match self {
            Error::Trace(error) => error.hint(),
            Error::Ranges(error) => error.hint(),
            Error::NoWork { .. } => Some("name ranges around work, or none".into()),
            Error::Durations { .. } => Some("record it again: its times are damaged".into()),
        }
    }

    fn kind(&self) -> ErrorKind {
        match self {
            Error::Trace(error) => error.kind(),
            Error::Ranges(error) => error.kind(),
            Error::NoWork { .. } | Error::Durations { .. } => ErrorKind::Absent,
        }
    }
}
