//! The locks of the processes that fill a run directory: a file for each part of the plan.
//!
//! What is done follows from the records. A lock only keeps two processes from measuring the same,
//! and says who is at work. The system releases it when its process ends, however it ends.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use flopgap_fs::{WriteError, create_folder, remove_leftovers, try_lock};
use serde::{Deserialize, Serialize};

use crate::session::now;
use crate::{Holder, RunError, Shard};

/// The directories that a run's files are written to.
const FOLDERS: [&str; 5] = ["", "raw", FOLDER, "processed", "plots"];

/// The directory of the locks in a run directory.
pub(crate) const FOLDER: &str = "locks";

/// How long to wait for another process that is opening the same run.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a lock says about the process that took it last.
#[derive(Debug, Serialize, Deserialize)]
struct Owner {
    pid: u32,
    host: String,
    started: String,
}

/// The lock of one worker, held until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// The lock of one worker: `locks/1-of-1.lock`.
fn path(run: &Path, shard: Shard) -> PathBuf {
    run.join(FOLDER).join(format!("{}.lock", shard.to_string().replace('/', "-of-")))
}

/// Serializes the opening of a run among processes. Held briefly.
pub(crate) fn opening(run: &Path) -> Result<File, RunError> {
    create_folder(&run.join(FOLDER))?;
    let path = run.join(FOLDER).join("opening");
    let file = open(&path)?;
    let mut waited = Duration::ZERO;
    while !try_lock(&file).map_err(|source| WriteError::new(&path, source))? {
        if waited >= PATIENCE {
            return Err(RunError::Busy { path: run.to_owned(), holder: Holder::Opening });
        }
        let moment = Duration::from_millis(5);
        thread::sleep(moment);
        waited += moment;
    }
    Ok(file)
}

/// Takes the worker's lock, unless a living process fills a part of the run that overlaps with it.
/// Where no other process is left, temporary files of killed ones are removed.
pub(crate) fn claim(run: &Path, shard: Shard) -> Result<Lock, RunError> {
    let mut others_live = false;
    for (path, other) in list(run)? {
        if other != shard && take(&path)?.is_none() {
            if other.overlaps(shard) {
                return Err(busy(run, &path));
            }
            others_live = true;
        }
    }
    let path = path(run, shard);
    let Some(mut file) = take(&path)? else {
        return Err(busy(run, &path));
    };
    if !others_live {
        for folder in FOLDERS {
            remove_leftovers(&run.join(folder))?;
        }
    }
    let owner = Owner { pid: std::process::id(), host: host(), started: now() };
    let line = serde_json::to_string(&owner).unwrap_or_else(|error| unreachable!("{error}"));
    let written = file.set_len(0).and_then(|()| file.write_all((line + "\n").as_bytes()));
    written.map_err(|source| WriteError::new(&path, source))?;
    Ok(Lock { _file: file })
}

/// The file of a lock, which this process has then; `None` if another one has it.
fn take(path: &Path) -> Result<Option<File>, RunError> {
    let file = open(path)?;
    let taken = try_lock(&file).map_err(|source| WriteError::new(path, source))?;
    Ok(taken.then_some(file))
}

fn open(path: &Path) -> Result<File, WriteError> {
    let file = File::options().write(true).create(true).truncate(false).open(path);
    file.map_err(|source| WriteError::new(path, source))
}

/// The locks of a run with their workers, sorted by name; empty without a directory.
fn list(run: &Path) -> Result<Vec<(PathBuf, Shard)>, RunError> {
    let folder = run.join(FOLDER);
    let error = |source| RunError::Io { path: folder.clone(), source };
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(error(source)),
    };
    let mut locks = Vec::new();
    for entry in entries {
        let entry = entry.map_err(error)?;
        let name = entry.file_name();
        let shard =
            name.to_str().and_then(|name| name.strip_suffix(".lock")?.replace("-of-", "/").parse().ok());
        if let Some(shard) = shard {
            locks.push((entry.path(), shard));
        }
    }
    locks.sort();
    Ok(locks)
}

/// Names the process that has a lock.
fn busy(run: &Path, lock: &Path) -> RunError {
    let owner = fs::read(lock).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let holder = match owner {
        Some(Owner { pid, host, started }) => Holder::Process { pid, host, started },
        None => Holder::Starting,
    };
    RunError::Busy { path: run.to_owned(), holder }
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

    #[test]
    fn one_process_has_a_lock_and_its_name_is_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path();
        create_folder(&run.join(FOLDER)).unwrap();
        let lock = claim(run, Shard::WHOLE).unwrap();
        let error = claim(run, Shard::WHOLE).unwrap_err().to_string();
        assert!(error.contains(&format!("process {} on ", std::process::id())), "{error}");
        drop(lock);
        // What a process that was killed while it wrote its name left.
        fs::write(path(run, Shard::WHOLE), "{\"pid\":1234567,\"host\":\"a name that is longer than").unwrap();
        drop(claim(run, Shard::WHOLE).unwrap());
        let owner: Owner = serde_json::from_slice(&fs::read(path(run, Shard::WHOLE)).unwrap()).unwrap();
        assert_eq!(owner.pid, std::process::id());
    }
}
