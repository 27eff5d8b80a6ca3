//! Why a trace cannot be taken apart.

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
}

impl Hint for Error {
    fn hint(&self) -> Option<Text<'_>> {
        match self {
            Error::Trace(error) => error.hint(),
            Error::Ranges(error) => error.hint(),
        }
    }

    fn kind(&self) -> ErrorKind {
        match self {
            Error::Trace(error) => error.kind(),
            Error::Ranges(error) => error.kind(),
        }
    }
}
