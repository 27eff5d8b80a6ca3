//! Errors of run directories.

use std::fmt;
use std::io;
use std::path::PathBuf;

use flopgap_hint::{ErrorKind, Hint, Text};

use crate::{MeterError, OriginDifference, OriginPart, PlanError, RecordError};

/// An error that concerns a run directory as a whole. Errors of one configuration are
/// [`Problem`](crate::Problem)s and do not stop the others.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The directory or a file in it cannot be read or removed.
    #[error("{}: cannot be accessed", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The underlying I/O error.
        #[source]
        source: io::Error,
    },
    /// There is no directory `raw`.
    #[error("{}: not a run directory: it does not contain raw/", path.display())]
    NotARun {
        /// The directory.
        path: PathBuf,
    },
    /// The manifest is not JSON of the right shape.
    #[error("{}: not a manifest", path.display())]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// What is wrong, with line and column.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The directory was written by another version of the program, or by another one.
    #[error(
        "{}: format `{format}` version {version} is not supported (supported: {}, version {})",
        path.display(), crate::FORMAT, crate::VERSION
    )]
    Version {
        /// The manifest.
        path: PathBuf,
        /// Its `format`.
        format: String,
        /// Its `version`.
        version: u32,
    },
    /// There is no configuration: no raw file is named after one, and the manifest plans none.
    #[error("{}: nothing to analyze: no file in raw/ is named after a configuration", path.display())]
    NoConfigurations {
        /// The directory.
        path: PathBuf,
    },
    /// No configuration could be analyzed.
    #[error("{}: of {configs} configurations, none is complete and readable", path.display())]
    NothingComplete {
        /// The directory.
        path: PathBuf,
        /// How many configurations were examined.
        configs: usize,
    },
    /// A processed table is damaged.
    #[error("{}: not a table of metrics", path.display())]
    Table {
        /// The table.
        path: PathBuf,
        /// What is wrong, with line and field.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A result could not be written.
    #[error(transparent)]
    Write(#[from] flopgap_fs::WriteError),
    /// A record that a newer program wrote would be overwritten.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A new run would go into a directory that holds a run or other files.
    #[error("{}: {occupant}", path.display())]
    Occupied {
        /// The directory.
        path: PathBuf,
        /// What is there.
        occupant: Occupant,
    },
    /// There is no manifest, so it is unknown what is missing.
    #[error("{}: not a run that can be resumed: it has no manifest.json", path.display())]
    NoManifest {
        /// The directory.
        path: PathBuf,
    },
    /// The raw files were recorded by other means.
    #[error("{}: not a run that can be resumed: its raw files were recorded by another program", path.display())]
    RecordedElsewhere {
        /// The directory.
        path: PathBuf,
    },
    /// The run directory belongs to another plan.
    #[error("{}: its manifest has another grid or backend than the requested one", path.display())]
    OtherPlan {
        /// The directory.
        path: PathBuf,
    },
    /// The GPU or software here differs from that of the run.
    #[error(
        "{}: recorded with {} `{}`, but here it is `{}`: counts of both do not belong in one table",
        path.display(), difference.part, difference.theirs, difference.ours
    )]
    OtherOrigin {
        /// The directory.
        path: PathBuf,
        /// The difference; `ours` is here, `theirs` is what the manifest says.
        difference: OriginDifference,
    },
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
    /// Another process is measuring the same part of the run.
    #[error("{}: {holder} is filling it", path.display())]
    Busy {
        /// The directory.
        path: PathBuf,
        /// The process.
        holder: Holder,
    },
    /// The grid cannot be measured.
    #[error(transparent)]
    Plan(#[from] PlanError),
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

/// What is where a new run was to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Occupant {
    /// A run.
    Run,
    /// Files that are not a run.
    Files,
}

impl fmt::Display for Occupant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Occupant::Run => "there is a run already",
            Occupant::Files => "the directory is not empty, and not a run",
        })
    }
}

/// The process that holds a part of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Holder {
    /// A process that is measuring.
    Process {
        /// The process.
        pid: u32,
        /// The machine that it runs on.
        host: String,
        /// When it started (RFC 3339).
        started: String,
    },
    /// A process that has just started.
    Starting,
    /// A process that has been opening the run for half a minute.
    Opening,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Holder::Process { pid, host, started } => {
                write!(f, "process {pid} on {host}, started {started},")
            }
            Holder::Starting => f.write_str("another process, started this moment,"),
            Holder::Opening => f.write_str("a process that has been opening the run for half a minute"),
        }
    }
}

impl Hint for RunError {
    fn hint(&self) -> Option<Text<'_>> {
        let hint = match self {
            RunError::NotARun { .. } | RunError::NoConfigurations { .. } => {
                "pass the directory that contains raw/, with files such as raw/n2_d256_m16_forward.csv"
            }
            RunError::Manifest { .. } => {
                "repair manifest.json or move it away: without it, the grid is taken from the raw files"
            }
            RunError::Version { .. } => "use the version of flopgap that wrote the run",
            RunError::Occupied { .. } => "resume the run, or choose another directory",
            RunError::NoManifest { .. } => {
                "if a new run was interrupted before it had one, start it again in the same directory"
            }
            RunError::RecordedElsewhere { .. } => {
                "record what is missing in the same way, or start a new run"
            }
            RunError::OtherPlan { .. } => {
                "start all workers of a run with the same sizes and backend; resume the run to extend its sizes"
            }
            RunError::OtherOrigin { difference, .. } if difference.part == OriginPart::Driver => {
                "start a new run for this driver"
            }
            RunError::OtherOrigin { .. } => "start a new run for this hardware",
            RunError::UnlikeDevices { .. } => "start a run for each kind of device",
            RunError::Busy { .. } => "wait until it ends, or end it",
            RunError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                "pass the directory of a run, which contains raw/"
            }
            RunError::Write(error) => return Hint::hint(error),
            RunError::Record(error) => return error.hint(),
            RunError::Plan(error) => return error.hint(),
            RunError::Device { error, .. } => return error.hint(),
            RunError::Io { .. } | RunError::Table { .. } | RunError::NothingComplete { .. } => return None,
        };
        Some(hint.into())
    }

    fn kind(&self) -> ErrorKind {
        match self {
            RunError::NotARun { .. }
            | RunError::NoConfigurations { .. }
            | RunError::NothingComplete { .. } => ErrorKind::Absent,
            RunError::Plan(error) => error.kind(),
            RunError::Device { error, .. } => error.kind(),
            RunError::Record(error) => error.kind(),
            _ => ErrorKind::Failed,
        }
    }
}
