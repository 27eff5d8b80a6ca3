//! The locks of the processes that fill a run directory: a file for each part of the plan.
//!
//! What is done follows from what was measured. A lock only keeps two processes from measuring the
//! same, and says who is at work. The system releases it when its process ends, however it ends.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Hint, Text, WriteError, create_folder, lock_file, remove_leftovers};
use serde::{Deserialize, Serialize};

use super::{Shard, now};

/// The directory of the locks in a run directory.
pub const LOCKS: &str = "locks";

/// How long to wait for another process that is opening the same run.
const OPENING: Duration = Duration::from_secs(30);
/// How long to wait for the lock of another process, which may have been killed just now.
const ENDING: Duration = Duration::from_millis(500);
/// The time between two attempts.
const MOMENT: Duration = Duration::from_millis(5);

/// Why a run, or a part of it, cannot be filled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Another process is measuring the same part of the run.
    #[error("{}: {holder} is filling it", run.display())]
    Busy {
        /// The run directory.
        run: PathBuf,
        /// The process.
        holder: Holder,
    },
    /// A lock could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl Hint for LockError {
    fn hint(&self) -> Option<Text<'_>> {
        match self {
            LockError::Busy { .. } => Some("wait until it ends, or end it".into()),
            LockError::Write(error) => error.hint(),
        }
    }
}

/// The process that holds a part of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Holder {
    /// A process that is measuring.
    Process(Owner),
    /// A process that has just started.
    Starting,
    /// A process that has been opening the run for half a minute.
    Opening,
}

/// The contents of a lock: the process that took it last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    pid: u32,
    host: String,
    started: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Holder::Process(Owner { pid, host, started }) => {
                write!(f, "process {pid} on {host}, started {started},")
            }
            Holder::Starting => f.write_str("another process, started this moment,"),
            Holder::Opening => f.write_str("a process that has been opening the run for half a minute"),
        }
    }
}

/// A part of a run that this process fills, until this is dropped.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// The right to open a run directory, which one process has at a time, for a short while.
#[derive(Debug)]
pub struct Opening {
    run: PathBuf,
    _file: File,
}

impl Opening {
    /// Waits for other processes that are opening the run, whose directory exists.
    ///
    /// # Errors
    /// [`LockError::Busy`] after half a minute; [`LockError::Write`].
    pub fn wait(run: &Path) -> Result<Opening, LockError> {
        create_folder(&run.join(LOCKS))?;
        let path = run.join(LOCKS).join("opening");
        match take(&path, OPENING)? {
            Some(file) => Ok(Opening { run: run.to_owned(), _file: file }),
            None => Err(LockError::Busy { run: run.to_owned(), holder: Holder::Opening }),
        }
    }

    /// Takes the lock of a worker, unless a living process fills a part of the run that overlaps
    /// with it. Where no other process is left, temporary files of killed ones are removed.
    ///
    /// # Errors
    /// [`LockError::Busy`], [`LockError::Write`].
    pub fn claim(&self, shard: Shard) -> Result<Lock, LockError> {
        let mut others_live = false;
        for (path, other) in self.locks()? {
            let patience = if other.overlaps(shard) { ENDING } else { Duration::ZERO };
            if other != shard && take(&path, patience)?.is_none() {
                if other.overlaps(shard) {
                    return Err(self.busy(&path));
                }
                others_live = true;
            }
        }
        let path = self.path(shard);
        let Some(mut file) = take(&path, ENDING)? else {
            return Err(self.busy(&path));
        };
        if !others_live {
            self.remove_leftovers()?;
        }
        let owner = Owner { pid: std::process::id(), host: host(), started: now() };
        let line = serde_json::to_string(&owner).unwrap_or_else(|error| unreachable!("{error}"));
        let written = file.set_len(0).and_then(|()| file.write_all((line + "\n").as_bytes()));
        written.map_err(|source| WriteError::new(&path, source))?;
        Ok(Lock { _file: file })
    }

    /// The lock of a worker: `locks/1-of-1.lock`.
    fn path(&self, shard: Shard) -> PathBuf {
        self.run.join(LOCKS).join(format!("{}-of-{}.lock", shard.index(), shard.of()))
    }

    /// The locks of the run with their workers, sorted by name.
    fn locks(&self) -> Result<Vec<(PathBuf, Shard)>, WriteError> {
        let mut locks = Vec::new();
        for path in entries(&self.run.join(LOCKS))? {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let shard = name.strip_suffix(".lock").and_then(|name| name.replace("-of-", "/").parse().ok());
            locks.extend(shard.map(|shard| (path, shard)));
        }
        locks.sort();
        Ok(locks)
    }

    /// Names the process that has a lock.
    fn busy(&self, lock: &Path) -> LockError {
        let owner = fs::read(lock).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        LockError::Busy { run: self.run.clone(), holder: owner.map_or(Holder::Starting, Holder::Process) }
    }

    fn remove_leftovers(&self) -> Result<(), WriteError> {
        remove_leftovers(&self.run)?;
        for folder in entries(&self.run)?.into_iter().filter(|path| path.is_dir()) {
            remove_leftovers(&folder)?;
        }
        Ok(())
    }
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, WriteError> {
    let entries = fs::read_dir(folder).and_then(|all| all.map(|entry| Ok(entry?.path())).collect());
    entries.map_err(|source: io::Error| WriteError::new(folder, source))
}

/// The file of a lock, which this process has then; `None` if another one still has it after some
/// time.
fn take(path: &Path, patience: Duration) -> Result<Option<File>, WriteError> {
    let begin = Instant::now();
    loop {
        let file = lock_file(path).map_err(|source| WriteError::new(path, source))?;
        if file.is_some() || begin.elapsed() >= patience {
            return Ok(file);
        }
        thread::sleep(MOMENT);
    }
}

/// The machine's name, for messages.
fn host() -> String {
    let name =
        fs::read_to_string("/proc/sys/kernel/hostname").ok().or_else(|| std::env::var("HOSTNAME").ok());
    name.map_or_else(|| "this machine".to_owned(), |name| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(run: &Path, shard: &str) -> Result<Lock, LockError> {
        Opening::wait(run)?.claim(shard.parse().unwrap())
    }

    #[test]
    fn one_process_has_a_lock_and_its_name_is_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path();
        let lock = claim(run, "1/1").unwrap();
        let error = claim(run, "1/1").unwrap_err().to_string();
        assert!(error.contains(&format!("process {} on ", std::process::id())), "{error}");
        drop(lock);
        // What a process that was killed while it wrote its name left.
        let path = run.join("locks/1-of-1.lock");
        fs::write(&path, "{\"pid\":1234567,\"host\":\"a name that is longer than").unwrap();
        drop(claim(run, "1/1").unwrap());
        let owner: Owner = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(owner.pid, std::process::id());
    }

    #[test]
    fn parts_that_overlap_exclude_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path();
        let both = [claim(run, "1/2").unwrap(), claim(run, "2/2").unwrap()];
        for overlapping in ["1/2", "1/3", "1/1"] {
            let error = claim(run, overlapping).unwrap_err();
            assert!(error.hint().is_some_and(|hint| hint.starts_with("wait until")), "{error}");
        }
        drop(both);
        claim(run, "1/1").unwrap();
    }

    #[test]
    fn temporary_files_of_killed_processes_are_removed_where_no_other_lives() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path();
        fs::create_dir(run.join("raw")).unwrap();
        let leftovers = [run.join(".flopgap-a"), run.join("raw/.flopgap-b")];
        let left = || leftovers.iter().filter(|path| path.exists()).count();
        let write = || leftovers.iter().for_each(|path| fs::write(path, "").unwrap());
        write();
        let _first = claim(run, "1/2").unwrap();
        assert_eq!(left(), 0);
        write();
        let _second = claim(run, "2/2").unwrap();
        assert_eq!(left(), 2, "they may be the first one's");
    }
}
