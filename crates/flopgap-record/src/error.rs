//! What can go wrong with a recording.

use std::io;
use std::path::{Path, PathBuf};

use flopgap_files::{ErrorKind, Hint, Text, WriteError};

/// A recording that cannot be made or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The system refused.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Not a recording.
    #[error("{}: not a recording of flopgap", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// A directory without recordings.
    #[error("{}: no program that uses CUDA or NVTX was recorded here", path.display())]
    Empty {
        /// The directory.
        path: PathBuf,
    },
    /// The export could not be written.
    #[error("{}: cannot be written: {reason}", path.display())]
    Database {
        /// The export.
        path: PathBuf,
        /// Why, in the words of the database.
        reason: String,
    },
    /// Programs are recorded on Linux alone.
    #[error("programs are recorded on Linux alone")]
    NotHere,
}

impl RecordError {
    pub(crate) fn io(path: &Path) -> impl Fn(io::Error) -> RecordError + use<'_> {
        |error| RecordError::Io { path: path.to_owned(), error }
    }
}

impl From<WriteError> for RecordError {
    fn from(error: WriteError) -> RecordError {
        RecordError::Io { path: error.path, error: error.source }
    }
}

impl Hint for RecordError {
    fn hint(&self) -> Option<Text<'_>> {
        match self {
            RecordError::Empty { .. } => Some(
                "record a program that calls CUDA; one that is started by another machine or container \
                 has to inherit the environment"
                    .into(),
            ),
            _ => None,
        }
    }

    fn kind(&self) -> ErrorKind {
        match self {
            RecordError::Empty { .. } | RecordError::NotHere => ErrorKind::Absent,
            _ => ErrorKind::Failed,
        }
    }
}
