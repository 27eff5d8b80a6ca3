//! Why a run directory could not be used.

use std::io;
use std::path::PathBuf;

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
        "{}: format `{format}` version {version} is not one that this program reads (flopgap-run, up to version 1)",
        path.display()
    )]
    Version {
        /// The manifest.
        path: PathBuf,
        /// Its `format`.
        format: String,
        /// Its `version`.
        version: u32,
    },
    /// No configuration could be analysed.
    #[error("{}: none of the {configs} configurations is complete and readable", path.display())]
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
}

impl RunError {
    /// What the user can do about it, where there is something.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            RunError::NotARun { .. } => {
                Some("give the folder that holds raw/, with files such as raw/n2_d256_m16_forward.csv")
            }
            RunError::Manifest { .. } => {
                Some("repair manifest.json or move it away: without it the grid is taken from the raw files")
            }
            RunError::Version { .. } => Some("use the flopgap version that wrote the run, or a newer one"),
            RunError::NothingComplete { .. } => {
                Some("each problem is listed above; record the run again or repair it")
            }
            RunError::Write(error) => error.hint(),
            RunError::Io { .. } | RunError::Table { .. } => None,
        }
    }
}
