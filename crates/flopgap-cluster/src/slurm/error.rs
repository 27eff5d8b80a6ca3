//! Why a job array could not be written or submitted.

use std::io;
use std::path::PathBuf;

use flopgap_hint::{ErrorKind, Hint, Text};

use super::JobId;
use super::script::quoted;

/// Why a job array could not be written or submitted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SlurmError {
    /// There is no `sbatch`.
    #[error("`{}`: not found", program.display())]
    Missing {
        /// What was to be run.
        program: PathBuf,
    },
    /// `sbatch` does not start.
    #[error("`{}`: cannot be run", program.display())]
    Start {
        /// What was to be run.
        program: PathBuf,
        /// The system error.
        #[source]
        source: io::Error,
    },
    /// `sbatch` ended with an error.
    #[error("sbatch rejected {} ({status}): {said}", script.display())]
    Rejected {
        /// The script.
        script: PathBuf,
        /// How it ended.
        status: String,
        /// What it wrote to standard error.
        said: String,
    },
    /// `sbatch` did not print the number of a job.
    #[error("sbatch printed `{printed}` for {}: expected the number of a job", script.display())]
    NotAJob {
        /// The script.
        script: PathBuf,
        /// What it printed.
        printed: String,
    },
    /// The array was submitted, and the job that aggregates it was not.
    #[error("job array {array} is submitted, but the job that aggregates it is not")]
    NotAggregated {
        /// The array.
        array: JobId,
        /// The script of the other job.
        aggregate: PathBuf,
        /// Why.
        #[source]
        source: Box<SlurmError>,
    },
    /// A path or an argument cannot be in a job script.
    #[error("{what} `{text}` cannot be in a job script: {reason}")]
    Text {
        /// What it is: `the run directory`.
        what: &'static str,
        /// The text, invalid UTF-8 replaced.
        text: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// An option for `sbatch` that cannot be passed on.
    #[error("invalid option for sbatch `{text}`: {reason}")]
    Option {
        /// The option.
        text: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A script cannot be written.
    #[error(transparent)]
    Write(#[from] flopgap_fs::WriteError),
}

impl Hint for SlurmError {
    fn hint(&self) -> Option<Text<'_>> {
        let hint = match self {
            SlurmError::Missing { .. } => "submit from a machine that has Slurm's programs in its PATH",
            SlurmError::Rejected { .. } => {
                "correct the script or the options for sbatch, and submit the run again"
            }
            SlurmError::NotAJob { .. } => "check with `squeue --me` whether the job was submitted",
            SlurmError::NotAggregated { array, aggregate, .. } => {
                let path = quoted(&aggregate.to_string_lossy());
                return Some(format!("submit it with: sbatch {}{path}", array.dependency_arguments()).into());
            }
            SlurmError::Text { .. } => "choose another path",
            SlurmError::Option { .. } => "pass each option on its own, such as `--partition=gpu`",
            SlurmError::Write(error) => return error.hint(),
            SlurmError::Start { .. } => return None,
        };
        Some(hint.into())
    }

    fn kind(&self) -> ErrorKind {
        match self {
            SlurmError::Missing { .. } => ErrorKind::Absent,
            SlurmError::Text { .. } | SlurmError::Option { .. } => ErrorKind::Usage,
            SlurmError::Write(error) => error.kind(),
            _ => ErrorKind::Failed,
        }
    }
}
