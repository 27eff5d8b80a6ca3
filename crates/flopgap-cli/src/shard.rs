//! `--submit`: a run on a cluster.

use std::num::NonZero;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use flopgap_cluster::Shard;
use flopgap_cluster::slurm::{JobArray, Sbatch, Submitted, local_file_system};

use crate::{Console, Exit, Failure, print};

/// Tasks of a job array, where no number is given.
const TASKS: u32 = 8;

/// What runs jobs on a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[non_exhaustive]
pub enum Scheduler {
    /// A job array of Slurm and a dependent job, both through sbatch
    Slurm,
}

/// How a run is submitted.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct SubmitArgs {
    /// Submit the run to a cluster: a job array with one GPU per task, then a job that measures
    /// missing parts and aggregates. Needs no GPU on this machine
    #[arg(long, value_enum, value_name = "SCHEDULER")]
    pub submit: Option<Scheduler>,
    /// Number of tasks of the job array [default: 8]
    #[arg(long, requires = "submit", value_name = "N")]
    pub tasks: Option<NonZero<u32>>,
    /// Option for sbatch, such as --partition=gpu or --time=2:00:00. Can be repeated
    #[arg(long = "sbatch-arg", requires = "submit", allow_hyphen_values = true, value_name = "OPTION")]
    pub sbatch_args: Vec<String>,
}

/// A run that is ready to be submitted.
#[derive(Debug)]
pub struct Submission {
    array: JobArray,
    /// Absent where the scripts are only shown.
    sbatch: Option<Sbatch>,
}

impl SubmitArgs {
    /// How many tasks measure a plan of so many entries, at most one for each.
    pub fn tasks(&self, entries: usize) -> NonZero<u32> {
        let asked = self.tasks.map_or(TASKS, NonZero::get);
        let most = u32::try_from(entries).unwrap_or(u32::MAX);
        NonZero::new(asked.min(most)).unwrap_or(NonZero::<u32>::MIN)
    }

    /// Checks everything that can be checked before a directory is created: what goes into the
    /// scripts, and, unless they are only shown, whether there is `sbatch`.
    ///
    /// # Errors
    /// As [`JobArray::scripts`] and [`Sbatch::find`].
    pub fn prepare(&self, array: JobArray, dry_run: bool) -> Result<Submission, Failure> {
        array.scripts()?;
        let sbatch = if dry_run {
            None
        } else {
            let found = Sbatch::find();
            Some(found.map_err(|error| {
                Failure::of(&error).hint("--dry-run writes the scripts, to be submitted by hand")
            })?)
        };
        Ok(Submission { array, sbatch })
    }
}

impl Submission {
    /// Writes the scripts into the run directory, and submits or shows them. `again` is the command
    /// that submits the run again when that fails.
    ///
    /// # Errors
    /// As [`JobArray::write`] and [`Sbatch::submit`].
    pub fn submit(self, console: impl Into<Console>, again: &str) -> Result<(), Failure> {
        let console = console.into();
        let written = self.array.write()?;
        if let Some(file_system) = local_file_system(&self.array.run) {
            let run = self.array.run.display();
            let what = "which other machines usually do not see; the nodes need the run under the same path";
            console.warn(format_args!("{run} is on {file_system}, {what}"));
        }
        let Some(sbatch) = self.sbatch else {
            let scripts = self.array.scripts()?;
            console.note(format_args!("scripts in {}", directory(&self.array).display()));
            return print(&format!("{}\n{}", scripts.array, scripts.aggregate));
        };
        let Submitted { array, aggregate } = sbatch
            .submit(&written)
            .map_err(|error| Failure::of(&error).hint(format!("`{again}` submits the run again")))?;
        let tasks = self.array.tasks;
        let plural = if tasks.get() == 1 { "task" } else { "tasks" };
        console
            .note(format_args!("submitted job array {array} of {tasks} {plural}, and then job {aggregate}"));
        console.note(format_args!("scripts and logs in {}", directory(&self.array).display()));
        Ok(())
    }
}

fn directory(array: &JobArray) -> PathBuf {
    flopgap_cluster::slurm::directory(&array.run)
}

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

/// A path as a job must be given it, which starts in another directory.
///
/// # Errors
/// When the current directory is unknown, or the path cannot be an argument in a script.
pub fn absolute(path: &Path) -> Result<(PathBuf, String), Failure> {
    let absolute =
        std::path::absolute(path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
    let Some(text) = absolute.to_str().map(str::to_owned) else {
        let message = format!("{}: a path that is not UTF-8 cannot be in a job script", path.display());
        return Err(Failure::new(message).exit(Exit::Usage).hint("choose another path"));
    };
    Ok((absolute, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_task_is_without_work() {
        let tasks = |asked: Option<u32>, entries| {
            SubmitArgs { tasks: asked.and_then(NonZero::new), ..SubmitArgs::default() }.tasks(entries).get()
        };
        assert_eq!(tasks(None, 1280), 8);
        assert_eq!(tasks(None, 5), 5);
        assert_eq!(tasks(Some(64), 1280), 64);
        assert_eq!(tasks(Some(64), 3), 3);
        assert_eq!(tasks(Some(2), 0), 1);
    }
}
