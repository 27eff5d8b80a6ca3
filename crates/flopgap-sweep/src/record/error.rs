//! Errors of records.

use std::fmt;
use std::io;
use std::path::PathBuf;

use flopgap_hint::{ErrorKind, Hint, Text};
use flopgap_phases::{Phase, PhaseError};

use super::Quantity;
use super::format::{FIXED, RECORD_FORMAT, RECORD_VERSION};
use crate::Config;

/// Why a record cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The file cannot be read.
    #[error("{}: cannot be read", path.display())]
    Io {
        /// The record.
        path: PathBuf,
        /// The underlying I/O error.
        #[source]
        source: io::Error,
    },
    /// The file cannot be unpacked.
    #[error("{}: cut off or damaged", path.display())]
    Damaged {
        /// The record.
        path: PathBuf,
        /// The error from zstd.
        #[source]
        source: io::Error,
    },
    /// It is not JSON of the right shape.
    #[error("{}: not a record of counts", path.display())]
    Json {
        /// The record.
        path: PathBuf,
        /// What is wrong, with line and column.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It was written by a newer program, or is something else.
    #[error(
        "{}: format `{format}` version {version} is not supported ({RECORD_FORMAT}, up to version {RECORD_VERSION})",
        path.display()
    )]
    Version {
        /// The record.
        path: PathBuf,
        /// Its `format`.
        format: String,
        /// Its `version`.
        version: u32,
    },
    /// Its contents contradict themselves or the file's name.
    #[error("{}: {fault}", path.display())]
    Contents {
        /// The record.
        path: PathBuf,
        /// The contradiction, with the launch where there is one.
        fault: RecordFault,
    },
    /// Its launches are not those of a complete step of its configuration.
    #[error(transparent)]
    Phases(#[from] PhaseError),
}

impl Hint for RecordError {
    fn hint(&self) -> Option<Text<'_>> {
        let hint = match self {
            RecordError::Io { .. } => return None,
            RecordError::Version { .. } => "use the version of flopgap that wrote the record, or a newer one",
            RecordError::Damaged { .. }
            | RecordError::Json { .. }
            | RecordError::Contents { .. }
            | RecordError::Phases(_) => "resume the run to measure the configuration again",
        };
        Some(hint.into())
    }

    fn kind(&self) -> ErrorKind {
        match self {
            RecordError::Phases(error) => error.kind(),
            _ => ErrorKind::Failed,
        }
    }
}

/// What is wrong with the contents of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordFault {
    /// The file is empty.
    Empty,
    /// The file is named after another configuration.
    OtherName {
        /// The configuration of the name.
        named: Config,
        /// The configuration of the record.
        found: Config,
    },
    /// A phase that does not exist.
    UnknownPhase {
        /// Its name.
        name: String,
    },
    /// A launch has too few or too many values.
    Values {
        /// The phase.
        phase: Phase,
        /// The launch, from 0.
        launch: usize,
        /// How many there are.
        found: usize,
        /// How many columns the record has.
        expected: usize,
    },
    /// A launch is of a kernel that is not listed.
    UnlistedKernel {
        /// The phase.
        phase: Phase,
        /// The launch, from 0.
        launch: usize,
        /// The kernel's number.
        kernel: u64,
    },
    /// The columns do not begin with those that every record has.
    Columns,
    /// A column that is not a quantity.
    UnknownColumn {
        /// Its name.
        name: String,
    },
    /// Two columns of one quantity.
    RepeatedColumn {
        /// Its name.
        name: String,
    },
    /// A quantity needed for FLOPs is missing.
    MissingColumn {
        /// The quantity.
        quantity: Quantity,
    },
    /// A launch ran on the tensor cores, whose operations a record does not count.
    TensorCores {
        /// The phase.
        phase: Phase,
        /// The kernel.
        kernel: String,
    },
    /// The FLOPs of a launch exceed 64 bits.
    Overflow {
        /// The phase.
        phase: Phase,
        /// The kernel.
        kernel: String,
    },
}

impl fmt::Display for RecordFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordFault::Empty => f.write_str("the file is empty"),
            RecordFault::OtherName { named, found } => {
                write!(f, "the file is named after {named}, but contains {found}")
            }
            RecordFault::UnknownPhase { name } => {
                write!(f, "unknown phase `{name}`: expected setup, forward or backward")
            }
            RecordFault::Values { phase, launch, found, expected } => {
                write!(f, "{phase} launch {launch} has {found} of {expected} values")
            }
            RecordFault::UnlistedKernel { phase, launch, kernel } => {
                write!(f, "{phase} launch {launch} is of kernel {kernel}, which is not listed")
            }
            RecordFault::Columns => write!(f, "its columns do not begin with {}", FIXED.join(", ")),
            RecordFault::UnknownColumn { name } => write!(f, "unknown column `{name}`"),
            RecordFault::RepeatedColumn { name } => write!(f, "two columns `{name}`"),
            RecordFault::MissingColumn { quantity } => {
                write!(f, "no column `{}`, which FLOPs need", quantity.name())
            }
            RecordFault::TensorCores { phase, kernel } => write!(
                f,
                "a {phase} launch of `{kernel}` ran on the tensor cores, whose operations a record does not count"
            ),
            RecordFault::Overflow { phase, kernel } => {
                write!(f, "the FLOPs of a {phase} launch of `{kernel}` exceed 64 bits")
            }
        }
    }
}
