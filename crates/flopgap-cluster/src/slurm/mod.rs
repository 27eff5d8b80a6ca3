//! Job arrays of Slurm.
//!
//! A [`JobArray`] is data. [`JobArray::scripts`] makes text of it, [`JobArray::write`] puts the
//! text into the run directory, and [`Sbatch`] submits it.
//!
//! A task asks for its GPU with `--gres=gpu:1`, which every version and every `SelectType` of Slurm
//! has; `--gpus-per-task` needs `select/cons_tres` and, in newer versions, a number of tasks.

mod error;
mod mount;
mod sbatch;
mod script;

use std::num::NonZero;
use std::path::{Path, PathBuf};

pub use error::SlurmError;
pub use mount::local_file_system;
pub use sbatch::{JobId, Sbatch, Submitted};

/// The directory of a run directory that has scripts and logs.
const DIRECTORY: &str = "slurm";

/// A sweep as a job array, and the job that aggregates it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobArray {
    /// The run directory, absolute, under the path that it has on the nodes.
    pub run: PathBuf,
    /// A file or directory of the run that a node must see.
    pub evidence: PathBuf,
    /// The program, absolute, under the path that it has on the nodes.
    pub program: PathBuf,
    /// Tasks of the array; each measures a shard.
    pub tasks: NonZero<u32>,
    /// GPUs of a task; with 0, it gets a whole node.
    pub gpus: u32,
    /// Arguments of the program in a task; `--shard I/K` is added.
    pub task: Vec<String>,
    /// Arguments of the program in the job that runs after all tasks.
    pub aggregate: Vec<String>,
    /// Options of `sbatch` for both jobs: `--partition=gpu`.
    pub options: Vec<String>,
}

/// The text of both job scripts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scripts {
    /// The job array.
    pub array: String,
    /// The job that runs when all tasks of the array have ended.
    pub aggregate: String,
}

/// Where both job scripts are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The job array.
    pub array: PathBuf,
    /// The job that runs when all tasks of the array have ended.
    pub aggregate: PathBuf,
}

impl JobArray {
    /// Both job scripts.
    ///
    /// # Errors
    /// [`SlurmError::Text`] when a path or an argument cannot be in a script,
    /// [`SlurmError::Option`] when an option of `sbatch` cannot be passed on.
    pub fn scripts(&self) -> Result<Scripts, SlurmError> {
        script::scripts(self)
    }

    /// Writes both scripts into the directory `slurm` of the run directory.
    ///
    /// # Errors
    /// As [`JobArray::scripts`], and when a file cannot be written.
    pub fn write(&self) -> Result<Written, SlurmError> {
        let Scripts { array, aggregate } = self.scripts()?;
        let directory = directory(&self.run);
        flopgap_fs::create_folder(&directory)?;
        let written =
            Written { array: directory.join("array.sbatch"), aggregate: directory.join("aggregate.sbatch") };
        for (path, text) in [(&written.array, array), (&written.aggregate, aggregate)] {
            flopgap_fs::write_atomic(path, text.as_bytes())?;
        }
        Ok(written)
    }
}

/// The directory of a run directory that has scripts and logs.
pub fn directory(run: &Path) -> PathBuf {
    run.join(DIRECTORY)
}
