//! Files that are written whole or not at all.

use std::fmt;
use std::fs;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use crate::{Hint, Text};

/// A file or directory could not be written.
#[derive(Debug, thiserror::Error)]
#[error("{}: cannot {action}", path.display())]
#[non_exhaustive]
pub struct WriteError {
    /// The file or directory.
    pub path: PathBuf,
    /// The attempted action.
    pub action: Action,
    /// The underlying I/O error.
    #[source]
    pub source: io::Error,
}

/// The action that failed with a [`WriteError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Action {
    /// Writing a file.
    Write,
    /// Creating a directory.
    CreateDirectory,
    /// Removing temporary files from a directory.
    RemoveLeftovers,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Action::Write => "write",
            Action::CreateDirectory => "create the directory",
            Action::RemoveLeftovers => "remove temporary files in it",
        })
    }
}

impl WriteError {
    /// The error of a file that could not be written.
    pub fn new(path: impl Into<PathBuf>, source: io::Error) -> Self {
        WriteError { path: path.into(), action: Action::Write, source }
    }
}

impl Hint for WriteError {
    fn hint(&self) -> Option<Text<'_>> {
        let hint = match (self.source.kind(), self.action) {
            (io::ErrorKind::NotFound, Action::Write) => "parent directory does not exist: create it first",
            (_, Action::CreateDirectory) if is_dangling(&self.path) => {
                "the path is a link that leads nowhere: remove it, or create what it names"
            }
            (io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory, Action::CreateDirectory) => {
                "a file has this name, or that of a directory above: name another directory"
            }
            (_, Action::Write) if self.path.is_dir() => "the path is a directory: name a file",
            (io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem, _) => {
                "choose a directory that you may write to"
            }
            (io::ErrorKind::StorageFull, _) => {
                "free space on the disk: every file written before is complete"
            }
            _ => return None,
        };
        Some(hint.into())
    }
}

/// Writes `bytes` to `path`: a reader sees the old file or the whole new one, also after a crash.
///
/// # Errors
/// When the parent directory does not exist or cannot be written to, or the disk is full. The
/// target is unchanged then.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    write_atomic_with(path, |file| file.write_all(bytes).map_err(|source| WriteError::new(path, source)))
}

/// Like [`write_atomic`], for contents that `fill` writes piece by piece; nothing takes the
/// target's name if it fails.
///
/// # Errors
/// What `fill` returns, and as [`write_atomic`].
pub fn write_atomic_with<T, E: From<WriteError>>(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<&fs::File>) -> Result<T, E>,
) -> Result<T, E> {
    let (temporary, result) = write_beside(path, true, fill)?;
    temporary.persist(path).map_err(|persist| WriteError::new(path, persist.error))?;
    sync_directory(path);
    Ok(result)
}

/// Like [`write_atomic_unsynced`], for contents that `fill` writes to a path, as a database does;
/// nothing takes the target's name if it fails.
///
/// # Errors
/// What `fill` returns, and as [`write_atomic`].
pub fn write_atomic_at<T, E: From<WriteError>>(
    path: &Path,
    fill: impl FnOnce(&Path) -> Result<T, E>,
) -> Result<T, E> {
    let temporary = temporary_for(path)?;
    let result = fill(temporary.path())?;
    make_readable(path, &temporary)?;
    temporary.persist(path).map_err(|persist| WriteError::new(path, persist.error))?;
    Ok(result)
}

/// Like [`write_atomic`], without waiting for the disk: whole or not at all even if the process is
/// killed, but not if the machine loses power. For many small files with a checksum, whose reader
/// notices an empty one and writes it again.
///
/// # Errors
/// As [`write_atomic`].
pub fn write_atomic_unsynced(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    let (temporary, ()) = write_beside(path, false, |file| {
        file.write_all(bytes).map_err(|source| WriteError::new(path, source))
    })?;
    temporary.persist(path).map_err(|persist| WriteError::new(path, persist.error))?;
    Ok(())
}

/// Writes a new file, whole or not at all, unless there is one of that name already; returns
/// whether it was written.
///
/// Of several processes that create the same file at once, one gets `true`, and all find the whole
/// file afterwards.
///
/// # Errors
/// As [`write_atomic`].
///
/// ```
/// let dir = tempfile::tempdir()?;
/// let path = dir.path().join("manifest.json");
/// assert!(flopgap_files::write_new(&path, b"{}")?);
/// assert!(!flopgap_files::write_new(&path, b"another")?);
/// assert_eq!(std::fs::read(&path)?, b"{}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write_new(path: &Path, bytes: &[u8]) -> Result<bool, WriteError> {
    let (temporary, ()) = write_beside(path, true, |file| {
        file.write_all(bytes).map_err(|source| WriteError::new(path, source))
    })?;
    match temporary.persist_noclobber(path) {
        Ok(_) => sync_directory(path),
        Err(persist) if persist.error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
        // Another process wrote it meanwhile, and took this file for a leftover.
        Err(persist) if persist.error.kind() == io::ErrorKind::NotFound && path.exists() => return Ok(false),
        Err(persist) => return Err(WriteError::new(path, persist.error)),
    }
    Ok(true)
}

/// Removes the temporary files that processes which were killed while writing left in `directory`;
/// returns how many.
///
/// A process that is writing there at this moment loses its file and reports an error, so this is
/// for directories whose only writer is the caller. A directory that does not exist has none.
///
/// # Errors
/// When the directory cannot be read or a file not removed.
pub fn remove_leftovers(directory: &Path) -> Result<usize, WriteError> {
    let error = |source| WriteError { path: directory.to_owned(), action: Action::RemoveLeftovers, source };
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(source) => return Err(error(source)),
    };
    let mut removed = 0;
    for entry in entries {
        let entry = entry.map_err(error)?;
        let ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        if ours && entry.file_type().map_err(error)?.is_file() {
            fs::remove_file(entry.path()).map_err(error)?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// The prefix of temporary files.
const PREFIX: &str = ".flopgap-";

/// Writes a temporary file next to `path` with `fill`, and flushes it to the disk if `sync` is set.
fn write_beside<T, E: From<WriteError>>(
    path: &Path,
    sync: bool,
    fill: impl FnOnce(&mut BufWriter<&fs::File>) -> Result<T, E>,
) -> Result<(tempfile::NamedTempFile, T), E> {
    let error = |source| WriteError::new(path, source);
    let temporary = temporary_for(path)?;
    let mut writer = BufWriter::new(temporary.as_file());
    let result = fill(&mut writer)?;
    writer.flush().map_err(error)?;
    drop(writer);
    if sync {
        temporary.as_file().sync_all().map_err(error)?;
    }
    make_readable(path, &temporary)?;
    Ok((temporary, result))
}

/// A temporary file next to `path`.
fn temporary_for(path: &Path) -> Result<tempfile::NamedTempFile, WriteError> {
    let directory = directory_of(path);
    let temporary = tempfile::Builder::new().prefix(PREFIX).tempfile_in(directory);
    temporary.map_err(|source| WriteError::new(path, of_directory(directory, source)))
}

/// A temporary file is private to its owner; a result should be as readable as any other new file.
#[cfg_attr(not(unix), allow(unused_variables, clippy::unnecessary_wraps))]
fn make_readable(path: &Path, temporary: &tempfile::NamedTempFile) -> Result<(), WriteError> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(path).map_or(0o644, |metadata| metadata.permissions().mode());
        let permissions = fs::Permissions::from_mode(mode);
        let set = temporary.as_file().set_permissions(permissions);
        set.map_err(|source| WriteError::new(path, source))?;
    }
    Ok(())
}

/// Explains why nothing can be created in `directory`. If it does not exist, the error refers to
/// the directory rather than to the temporary file that `tempfile` names.
fn of_directory(directory: &Path, error: io::Error) -> io::Error {
    match fs::metadata(directory) {
        Err(missing) if missing.kind() == error.kind() => missing,
        _ => error,
    }
}

/// The new name itself is only safe once the directory is on the disk. Not every file system can
/// sync one.
fn sync_directory(path: &Path) {
    if let Ok(directory) = fs::File::open(directory_of(path)) {
        let _ = directory.sync_all();
    }
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Whether a path is a link to what does not exist.
fn is_dangling(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) && fs::metadata(path).is_err()
}

/// Creates a directory and its missing parents, also while other processes remove those that are
/// empty.
///
/// # Errors
/// When it cannot be created.
pub fn create_folder(path: &Path) -> Result<(), WriteError> {
    // A parent may go between its creation, or the answer that it is there, and the creation of
    // what it holds. Each try can lose; a path that cannot be created at all fails every time.
    const TRIES: usize = 1_000;
    let mut created = fs::create_dir_all(path);
    for _ in 1..TRIES {
        match &created {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists) => {}
            _ => break,
        }
        created = fs::create_dir_all(path);
    }
    created.map_err(|source| WriteError { path: path.to_owned(), action: Action::CreateDirectory, source })
}

/// Opens a file, which is created if missing, and takes its lock for this process alone; `None`
/// while another process has it. The system releases it when the file is closed, however the
/// process ends. Who has the lock may remove the file.
///
/// On a file system without locks everybody gets one: two writers go unnoticed there.
///
/// # Errors
/// The error of the system.
pub fn lock_file(path: &Path) -> io::Result<Option<fs::File>> {
    let file = fs::File::options().write(true).create(true).truncate(false).open(path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => return Ok(None),
        Err(fs::TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
        Err(fs::TryLockError::Error(error)) => return Err(error),
    }
    // The one that had it may have removed the file between opening and locking.
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let (ours, there) = (file.metadata()?, fs::metadata(path));
        if !there.is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())) {
            return Ok(None);
        }
    }
    Ok(Some(file))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_lock_is_taken_once_and_its_file_may_be_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.lock");
        let first = lock_file(&path).unwrap().unwrap();
        assert!(lock_file(&path).unwrap().is_none());
        drop(first);
        let second = lock_file(&path).unwrap().unwrap();
        fs::remove_file(&path).unwrap();
        let third = lock_file(&path).unwrap().unwrap();
        drop((second, third));
        assert!(lock_file(&dir.path().join("missing/a.lock")).is_err());
    }

    #[test]
    fn replaces_the_whole_file_and_leaves_nothing_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.txt");
        write_atomic(&path, b"a long first version").unwrap();
        write_atomic(&path, b"short").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"short");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn of_many_that_create_a_file_at_once_one_does_and_all_find_it_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("manifest.json");
        let winners: usize = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..8u8)
                .map(|writer| {
                    let path = &path;
                    scope.spawn(move || {
                        let written = write_new(path, &[writer; 4096]).unwrap();
                        let found = fs::read(path).unwrap();
                        assert_eq!(found, vec![found[0]; 4096]);
                        assert!(!written || found[0] == writer);
                        usize::from(written)
                    })
                })
                .collect();
            writers.into_iter().map(|writer| writer.join().unwrap()).sum()
        });
        assert_eq!(winners, 1);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "the losers leave nothing behind");
    }

    #[test]
    fn leftovers_go_and_everything_else_stays() {
        let dir = tempfile::tempdir().unwrap();
        for name in [".flopgap-Ab12", "n2_d8_m8.csv", ".hidden"] {
            fs::write(dir.path().join(name), "x").unwrap();
        }
        fs::create_dir(dir.path().join(".flopgap-directory")).unwrap();
        assert_eq!(remove_leftovers(dir.path()).unwrap(), 1);
        assert!(!dir.path().join(".flopgap-Ab12").exists());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
        assert_eq!(remove_leftovers(&dir.path().join("missing")).unwrap(), 0);
    }

    #[test]
    fn a_missing_parent_directory_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("missing/a.txt");
        let error = write_atomic(&path, b"x").unwrap_err();
        assert!(!error.to_string().contains(PREFIX), "{error}");
        assert_eq!(error.hint().as_deref(), Some("parent directory does not exist: create it first"));
        let in_the_way = write_atomic(dir.path(), b"x").unwrap_err();
        assert_eq!(in_the_way.hint().as_deref(), Some("the path is a directory: name a file"));
    }

    #[test]
    fn what_is_in_the_way_of_a_directory_is_named() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "x").unwrap();
        for path in ["file", "file/below"] {
            let error = create_folder(&dir.path().join(path)).unwrap_err();
            assert!(error.hint().unwrap().starts_with("a file has this name"), "{error}");
        }
        #[cfg(unix)]
        for (link, target) in [("to nothing", "nothing"), ("circle", "circle")] {
            let link = dir.path().join(link);
            std::os::unix::fs::symlink(dir.path().join(target), &link).unwrap();
            let error = create_folder(&link).unwrap_err();
            assert!(error.hint().unwrap().starts_with("the path is a link that leads nowhere"), "{error}");
        }
        create_folder(&dir.path().join("a/b")).unwrap();
    }

    #[test]
    fn a_directory_is_created_while_others_remove_its_empty_parent() {
        let dir = tempfile::tempdir().unwrap();
        let (parent, done) = (dir.path().join("table"), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let _ = fs::remove_dir(&parent);
                    // Others remove it now and then, not as fast as they can.
                    std::thread::sleep(Duration::from_micros(20));
                }
            });
            let created: Result<Vec<()>, _> = (0..2000)
                .map(|_| {
                    create_folder(&parent.join("run"))?;
                    fs::remove_dir(parent.join("run")).unwrap();
                    Ok::<_, WriteError>(())
                })
                .collect();
            done.store(true, Ordering::Relaxed);
            created.unwrap();
        });
    }

    #[test]
    fn a_failed_write_leaves_the_target_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("directory");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("inside"), b"kept").unwrap();
        let error = write_atomic(&path, b"x").unwrap_err();
        assert_eq!(error.path, path);
        assert_eq!(fs::read(path.join("inside")).unwrap(), b"kept");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file stays behind");
    }
}
