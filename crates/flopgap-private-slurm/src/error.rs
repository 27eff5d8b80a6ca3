//! Why there is no Slurm.

use std::io;

use flopgap_hint::Hint;

/// Why a Slurm did not start or refused a command.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or process could not be made.
    #[error("a private Slurm could not be made")]
    Io(#[source] io::Error),
    /// A program of Slurm failed.
    #[error("{program} failed ({status}): {said}")]
    Program {
        /// The program.
        program: String,
        /// How it ended.
        status: String,
        /// What it wrote to standard error.
        said: String,
    },
    /// What was waited for did not come.
    #[error("Slurm did not become ready in time:\n{logs}")]
    NotReady {
        /// What the daemons logged.
        logs: String,
    },
}

impl Hint for Error {}
