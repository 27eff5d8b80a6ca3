//! One process at a time writes a run.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

use flopgap_cli::Failure;

use crate::layout::Layout;

/// Holds a run as long as it lives: no other process writes it.
pub(super) struct Lock {
    path: PathBuf,
    _file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // While it is still held: see `lock`.
        let _ = fs::remove_file(&self.path);
    }
}

/// Locks a run; none where another process holds it.
pub(super) fn lock(layout: &Layout, encoded: &str) -> Result<Option<Lock>, Failure> {
    let path = layout.lock(encoded);
    let failed = |error: io::Error| Failure::new(format!("{}: cannot be locked: {error}", path.display()));
    let file = File::options().create(true).append(true).open(&path).map_err(failed)?;
    if !flopgap_fs::try_lock(&file).map_err(failed)? {
        return Ok(None);
    }
    // The one that held it may have removed the file between opening and locking.
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let is_it = fs::metadata(&path).is_ok_and(|there| {
            file.metadata().is_ok_and(|ours| (there.dev(), there.ino()) == (ours.dev(), ours.ino()))
        });
        if !is_it {
            return Ok(None);
        }
    }
    Ok(Some(Lock { path, _file: file }))
}
