//! Errors of records.

use std::io;
use std::path::Path;

use crate::{Phase, PhaseError};
use flopgap_files::run::FormatFault;
use flopgap_files::{ErrorKind, Hint, InFile, Text};

use super::Quantity;
use super::format::FIXED;
use crate::sweep::Config;

/// Why a record cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The file is not a record.
    #[error(transparent)]
    File(#[from] InFile<RecordFault>),
    /// Its launches are not those of a complete step of its configuration.
    #[error(transparent)]
    Phases(#[from] PhaseError),
}

impl RecordError {
    fn format(&self) -> Option<&FormatFault> {
        match self {
            RecordError::File(InFile { what: RecordFault::Format(fault), .. }) => Some(fault),
            _ => None,
        }
    }

    /// Whether there is no file.
    #[cfg(feature = "workers")]
    pub(crate) fn is_missing(&self) -> bool {
        self.format().is_some_and(Hint::is_absence)
    }

    /// Whether another version of the program wrote the file.
    #[cfg(feature = "workers")]
    pub(crate) fn is_of_another_version(&self) -> bool {
        matches!(self.format(), Some(FormatFault::Version { .. }))
    }
}

impl Hint for RecordError {
    fn hint(&self) -> Option<Text<'_>> {
        match self.format() {
            Some(fault @ (FormatFault::Io { .. } | FormatFault::Version { .. })) => fault.hint(),
            _ => Some("resume the run to measure the configuration again".into()),
        }
    }

    fn kind(&self) -> ErrorKind {
        match self {
            RecordError::Phases(error) => error.kind(),
            RecordError::File(_) => ErrorKind::Failed,
        }
    }
}

/// What is wrong with the file of a record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordFault {
    /// It cannot be read, is not JSON of the right shape, or of another version.
    #[error(transparent)]
    Format(#[from] FormatFault),
    /// The file cannot be unpacked.
    #[error("cut off or damaged")]
    Damaged {
        /// The error from zstd.
        source: io::Error,
    },
    /// The file is empty.
    #[error("the file is empty")]
    Empty,
    /// The file is named after another configuration.
    #[error("the file is named after {named}, but contains {found}")]
    OtherName {
        /// The configuration of the name.
        named: Config,
        /// The configuration of the record.
        found: Config,
    },
    /// A phase that does not exist.
    #[error("unknown phase `{name}`: expected setup, forward or backward")]
    UnknownPhase {
        /// Its name.
        name: String,
    },
    /// A launch has too few or too many values.
    #[error("{phase} launch {launch} has {found} of {expected} values")]
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
    #[error("{phase} launch {launch} is of kernel {kernel}, which is not listed")]
    UnlistedKernel {
        /// The phase.
        phase: Phase,
        /// The launch, from 0.
        launch: usize,
        /// The kernel's number.
        kernel: u64,
    },
    /// More launches have counts of other networks than there are.
    #[error("`taken_over` is {found}, of {launches} launches")]
    TakenOver {
        /// How many are said to.
        found: u64,
        /// How many launches the record has.
        launches: usize,
    },
    /// The columns do not begin with those that every record has.
    #[error("its columns do not begin with {}", FIXED.join(", "))]
    Columns,
    /// A column that is not a quantity.
    #[error("unknown column `{name}`")]
    UnknownColumn {
        /// Its name.
        name: String,
    },
    /// Two columns of one quantity.
    #[error("two columns `{name}`")]
    RepeatedColumn {
        /// Its name.
        name: String,
    },
    /// A quantity needed for FLOPs is missing.
    #[error("no column `{}`, which FLOPs need", quantity.name())]
    MissingColumn {
        /// The quantity.
        quantity: Quantity,
    },
    /// A launch ran on the tensor cores, whose operations a record does not count.
    #[error(
        "a {phase} launch of `{kernel}` ran on the tensor cores, whose operations a record does not count"
    )]
    TensorCores {
        /// The phase.
        phase: Phase,
        /// The kernel.
        kernel: String,
    },
    /// The FLOPs of a launch exceed 64 bits.
    #[error("the FLOPs of a {phase} launch of `{kernel}` exceed 64 bits")]
    Overflow {
        /// The phase.
        phase: Phase,
        /// The kernel.
        kernel: String,
    },
}

impl RecordFault {
    /// The error of this file.
    pub(super) fn at(self, path: &Path) -> RecordError {
        InFile::new(path, self).into()
    }
}
