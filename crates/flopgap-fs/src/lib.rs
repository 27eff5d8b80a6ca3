#![doc = include_str!("../README.md")]

use std::fs;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

/// A file or folder could not be written; names it.
#[derive(Debug, thiserror::Error)]
#[error("{}: cannot {action}: {source}", path.display())]
pub struct WriteError {
    /// The file or folder.
    pub path: PathBuf,
    /// What was attempted: `write` or `create the folder`.
    pub action: &'static str,
    /// What the system said.
    pub source: io::Error,
}

impl WriteError {
    /// What the user can do about it, where there is something.
    pub fn hint(&self) -> Option<&'static str> {
        match self.source.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Some("choose a folder that you may write to with --output DIR")
            }
            io::ErrorKind::StorageFull => Some("the disk is full; what was written before is complete"),
            _ => None,
        }
    }
}

/// Writes `bytes` to `path`: a reader sees the old file or the whole new one, also after a crash.
///
/// # Errors
/// When the file's folder does not exist or cannot be written to, or the disk is full. The target is unchanged then.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    write_atomic_with(path, |file| {
        file.write_all(bytes).map_err(|source| WriteError { path: path.to_owned(), action: "write", source })
    })
}

/// Like [`write_atomic`], for contents that `fill` writes piece by piece; nothing takes the target's name if it fails.
///
/// # Errors
/// What `fill` returns, and as [`write_atomic`].
pub fn write_atomic_with<T, E: From<WriteError>>(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<&fs::File>) -> Result<T, E>,
) -> Result<T, E> {
    let error = |source| WriteError { path: path.to_owned(), action: "write", source };
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let temporary = tempfile::Builder::new().prefix(".flopgap-").tempfile_in(folder).map_err(error)?;
    let mut writer = BufWriter::new(temporary.as_file());
    let result = fill(&mut writer)?;
    writer.flush().map_err(error)?;
    drop(writer);
    temporary.as_file().sync_all().map_err(error)?;
    // A temporary file is private to its owner; a result should be as readable as any other new file.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(path).map_or(0o644, |metadata| metadata.permissions().mode());
        temporary.as_file().set_permissions(fs::Permissions::from_mode(mode)).map_err(error)?;
    }
    temporary.persist(path).map_err(|persist| error(persist.error))?;
    // The new name itself is only safe once the folder is on the disk. Not every file system lets a folder be synced.
    if let Ok(folder) = fs::File::open(folder) {
        let _ = folder.sync_all();
    }
    Ok(result)
}

/// Makes a folder and those above it, if they are missing.
///
/// # Errors
/// When it cannot be made; names the folder.
pub fn create_folder(path: &Path) -> Result<(), WriteError> {
    fs::create_dir_all(path).map_err(|source| WriteError {
        path: path.to_owned(),
        action: "create the folder",
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_failed_write_leaves_the_target_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("folder");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("inside"), b"kept").unwrap();
        let error = write_atomic(&path, b"x").unwrap_err();
        assert_eq!(error.path, path);
        assert_eq!(fs::read(path.join("inside")).unwrap(), b"kept");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file stays behind");
    }
}
