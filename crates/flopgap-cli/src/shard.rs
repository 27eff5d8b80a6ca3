//! `--shard`: a part of a run.

use flopgap_files::run::Shard;

use crate::{Exit, Failure};

/// The shard of `--shard`: `I/K`, or `slurm` for that of a task of a job array; all where the
/// option is absent.
///
/// # Errors
/// When it is neither, or this is not such a task.
pub fn shard(option: Option<&str>) -> Result<Shard, Failure> {
    let shard = match option {
        None => Ok(Shard::WHOLE),
        Some("slurm") => Shard::of_slurm_task(|name| std::env::var(name).ok()),
        Some(text) => text.parse(),
    };
    shard.map_err(|error| Failure::new(format!("--shard: {error}")).exit(Exit::Usage))
}
