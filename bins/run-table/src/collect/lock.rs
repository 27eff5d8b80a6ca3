//! One process at a time writes a run.

use std::fs::{self, File};
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
        // While it is still held, or it could be that of the next process.
        let _ = fs::remove_file(&self.path);
    }
}

/// Locks a run; none where another process holds it.
pub(super) fn lock(layout: &Layout, encoded: &str) -> Result<Option<Lock>, Failure> {
    let path = layout.lock(encoded);
    let file = flopgap_files::lock_file(&path)
        .map_err(|error| Failure::new(format!("{}: cannot be locked: {error}", path.display())))?;
    Ok(file.map(|file| Lock { path, _file: file }))
}
