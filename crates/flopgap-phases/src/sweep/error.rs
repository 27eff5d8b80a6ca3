//! Errors of run directories.

use std::io;
use std::path::Path;

use flopgap_files::run::{FormatError, FormatFault, LockError};
use flopgap_files::{ErrorKind, Hint, InFile, Text};

use crate::sweep::{MeterError, OriginDifference, OriginPart, PlanError, RecordError};

/// An error that concerns a run directory as a whole. Errors of one configuration are
/// [`Problem`](crate::sweep::Problem)s and do not stop the others.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The run, or a file in it, cannot be used.
    #[error(transparent)]
    Run(#[from] InFile<RunFault>),
    /// The manifest cannot be read.
    #[error(transparent)]
    Manifest(#[from] FormatError),
    /// A result could not be written.
    #[error(transparent)]
    Write(#[from] flopgap_files::WriteError),
    /// A record that a newer program wrote would be overwritten.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// Another process is measuring the same part of the run.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The grid cannot be measured.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The devices of one run differ from each other.
    #[error("devices {first} and {second} differ in their {}: `{}` and `{}`", difference.part, difference.ours, difference.theirs)]
    UnlikeDevices {
        /// A device.
        first: u32,
        /// Another one.
        second: u32,
        /// Their difference; `ours` is that of the first.
        difference: OriginDifference,
    },
    /// Nothing more can be counted.
    #[error("counting on device {device} failed")]
    Device {
        /// The device.
        device: u32,
        /// What happened.
        #[source]
        error: MeterError,
    },
}

/// What is wrong with a run directory or a file in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunFault {
    /// The directory or a file in it cannot be read or removed.
    #[error("cannot be accessed")]
    Io {
        /// The underlying I/O error.
        source: io::Error,
    },
    /// There is no directory `raw`.
    #[error("not a run directory: it does not contain raw/")]
    NotARun,
    /// There is no configuration: no raw file is named after one, and the manifest plans none.
    #[error("nothing to analyze: no file in raw/ is named after a configuration")]
    NoConfigurations,
    /// No configuration could be analyzed.
    #[error("of {configs} configurations, none is complete and readable")]
    NothingComplete {
        /// How many configurations were examined.
        configs: usize,
    },
    /// A processed table is damaged.
    #[error("not a table of metrics")]
    Table {
        /// What is wrong, with line and field.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A new run would go into a directory that holds one.
    #[error("there is a run already")]
    Occupied,
    /// A new run would go into a directory that holds other files.
    #[error("the directory is not empty, and not a run")]
    OtherFiles,
    /// There is no manifest, so it is unknown what is missing.
    #[error("not a run that can be resumed: it has no manifest.json")]
    NoManifest,
    /// The raw files were recorded by other means.
    #[error("not a run that can be resumed: its raw files were recorded by another program")]
    RecordedElsewhere,
    /// The run directory belongs to another plan.
    #[error("its manifest has another grid or backend than the requested one")]
    OtherPlan,
    /// The GPU or software here differs from that of the run.
    #[error(
        "recorded with {} `{}`, but here it is `{}`: counts of both do not belong in one table",
        .0.part, .0.theirs, .0.ours
    )]
    OtherOrigin(OriginDifference),
}

impl RunFault {
    /// The error of this run or file.
    pub fn at(self, path: &Path) -> RunError {
        InFile::new(path, self).into()
    }

    /// The error of a run or file that cannot be accessed.
    #[cfg(feature = "workers")]
    pub(crate) fn io(path: &Path) -> impl Fn(io::Error) -> RunError + '_ {
        move |source| RunFault::Io { source }.at(path)
    }
}

impl Hint for RunFault {
    fn hint(&self) -> Option<Text<'_>> {
        let hint = match self {
            RunFault::NotARun | RunFault::NoConfigurations => {
                "pass the directory that contains raw/, with files such as raw/n2_d256_m16_forward.csv"
            }
            RunFault::Occupied | RunFault::OtherFiles => "resume the run, or choose another directory",
            RunFault::NoManifest => {
                "if a new run was interrupted before it had one, start it again in the same directory"
            }
            RunFault::RecordedElsewhere => "record what is missing in the same way, or start a new run",
            RunFault::OtherPlan => {
                "start all workers of a run with the same sizes and backend; resume the run to extend its sizes"
            }
            RunFault::OtherOrigin(difference) if difference.part == OriginPart::Driver => {
                "start a new run for this driver"
            }
            RunFault::OtherOrigin(_) => "start a new run for this hardware",
            RunFault::Io { source } if source.kind() == io::ErrorKind::NotFound => {
                "pass the directory of a run, which contains raw/"
            }
            RunFault::Io { .. } | RunFault::Table { .. } | RunFault::NothingComplete { .. } => return None,
        };
        Some(hint.into())
    }

    fn kind(&self) -> ErrorKind {
        match self {
            RunFault::NotARun | RunFault::NoConfigurations | RunFault::NothingComplete { .. } => {
                ErrorKind::Absent
            }
            _ => ErrorKind::Failed,
        }
    }
}

impl Hint for RunError {
    fn hint(&self) -> Option<Text<'_>> {
        match self {
            RunError::Run(error) => error.hint(),
            RunError::Manifest(InFile { what: FormatFault::Shape { .. }, .. }) => Some(
                "repair manifest.json or move it away: without it, the grid is taken from the raw files"
                    .into(),
            ),
            RunError::Manifest(error) => error.hint(),
            RunError::UnlikeDevices { .. } => Some("start a run for each kind of device".into()),
            RunError::Write(error) => error.hint(),
            RunError::Record(error) => error.hint(),
            RunError::Lock(error) => error.hint(),
            RunError::Plan(error) => error.hint(),
            RunError::Device { error, .. } => error.hint(),
        }
    }

    fn kind(&self) -> ErrorKind {
        match self {
            RunError::Run(error) => error.kind(),
            RunError::Plan(error) => error.kind(),
            RunError::Device { error, .. } => error.kind(),
            RunError::Record(error) => error.kind(),
            _ => ErrorKind::Failed,
        }
    }
}
