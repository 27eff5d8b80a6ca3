//! Why a run directory could not be used.

use std::io;
use std::path::PathBuf;

use crate::{MeterError, OriginDifference, PlanError, RecordError};

/// Why a run directory as a whole could not be read or written. What is wrong with one configuration is a
/// [`Problem`](crate::Problem) instead and does not stop the others.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The directory or a file in it cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is no `raw` folder.
    #[error("{}: not a run directory: it has no folder `raw`", path.display())]
    NotARun {
        /// The directory.
        path: PathBuf,
    },
    /// The manifest is not JSON of the right shape.
    #[error("{}: not a manifest: {source}", path.display())]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// What is wrong, with line and column.
        source: serde_json::Error,
    },
    /// The directory was written by a newer program, or by another one.
    #[error(
        "{}: format `{format}` version {version} is not one that this program reads ({}, up to version {})",
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
    /// There is no configuration at all: no raw file is named after one, and no manifest plans one.
    #[error("{}: there is nothing to analyse: no file in `raw` is named after a configuration", path.display())]
    NoConfigurations {
        /// The directory.
        path: PathBuf,
    },
    /// No configuration could be analysed.
    #[error("{}: no configuration is complete and readable, of {configs}", path.display())]
    NothingComplete {
        /// The directory.
        path: PathBuf,
        /// How many configurations were looked at.
        configs: usize,
    },
    /// A processed table is damaged.
    #[error("{}: {source}", path.display())]
    Table {
        /// The table.
        path: PathBuf,
        /// What is wrong, with line and field.
        source: csv::Error,
    },
    /// A result could not be written.
    #[error(transparent)]
    Write(#[from] flopgap_fs::WriteError),
    /// A journal was written by a newer program, or by another one.
    #[error(
        "{}: format `{format}` version {version} is not one that this program reads ({}, up to version {})",
        path.display(), crate::JOURNAL_FORMAT, crate::JOURNAL_VERSION
    )]
    JournalVersion {
        /// The journal.
        path: PathBuf,
        /// Its `format`.
        format: String,
        /// Its `version`.
        version: u32,
    },
    /// A record that a newer program wrote would be overwritten.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A new run was to go where there is one already, or something else.
    #[error("{}: {what}", path.display())]
    Occupied {
        /// The directory.
        path: PathBuf,
        /// What is there.
        what: &'static str,
    },
    /// There is no manifest, so that nobody knows what is missing.
    #[error("{}: not a run that can be resumed: it has no manifest.json", path.display())]
    NoManifest {
        /// The directory.
        path: PathBuf,
    },
    /// The raw files were recorded in another way.
    #[error("{}: not a run that can be resumed: its raw files were recorded by another program", path.display())]
    RecordedElsewhere {
        /// The directory.
        path: PathBuf,
    },
    /// The run directory is that of another plan.
    #[error("{}: its manifest has another grid or backend than the one asked for here", path.display())]
    OtherPlan {
        /// The directory.
        path: PathBuf,
    },
    /// What counts here differs from what counted there.
    #[error(
        "{}: recorded with {} `{}`, but here it is `{}`: their counts do not belong into one table",
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
    /// A living process fills the same part of the run.
    #[error("{}: {holder} is filling it", path.display())]
    Busy {
        /// The directory.
        path: PathBuf,
        /// The process.
        holder: String,
    },
    /// The grid cannot be measured.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Nothing more can be counted.
    #[error("device {device}: {error}")]
    Device {
        /// The device.
        device: u32,
        /// What happened.
        error: MeterError,
    },
}

impl RunError {
    /// What the user can do about it, where there is something.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            RunError::NotARun { .. } | RunError::NoConfigurations { .. } => {
                Some("give the folder that holds raw/, with files such as raw/n2_d256_m16_forward.csv")
            }
            RunError::Manifest { .. } => {
                Some("repair manifest.json or move it away: without it the grid is taken from the raw files")
            }
            RunError::Version { .. } | RunError::JournalVersion { .. } | RunError::Record(_) => {
                Some("use the flopgap version that wrote the run, or a newer one")
            }
            RunError::NothingComplete { .. } => {
                Some("each problem is listed above, with what to do about it")
            }
            RunError::Occupied { .. } => {
                Some("resume it with `hyper-profile resume`, or name another folder")
            }
            RunError::NoManifest { .. } => Some(
                "a new run that was interrupted before it had one is begun again with `hyper-profile new --output`",
            ),
            RunError::RecordedElsewhere { .. } => {
                Some("record what is missing in the same way, or begin a new run")
            }
            RunError::OtherPlan { .. } => Some(
                "workers of one run are started with the same sizes and backend; resume the run to extend its sizes",
            ),
            RunError::OtherOrigin { difference, .. } if difference.part == "driver" => Some(
                "begin a new run; or, since the same libraries launch the same kernels under another driver, \
                 resume with --accept-driver",
            ),
            RunError::OtherOrigin { .. } => Some("begin a new run for what there is here"),
            RunError::UnlikeDevices { .. } => Some("begin a run for each kind of device"),
            RunError::Busy { .. } => Some(
                "wait for it or end it; several processes share a run if each is started with its own --shard I/K",
            ),
            RunError::Write(error) => error.hint(),
            RunError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Some("give the folder of a run, which holds raw/")
            }
            RunError::Io { .. } | RunError::Table { .. } | RunError::Plan(_) | RunError::Device { .. } => {
                None
            }
        }
    }
}
