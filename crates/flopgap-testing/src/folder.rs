//! Directories for one test.

use std::path::PathBuf;

use tempfile::TempDir;

/// Paths in a new directory, which lives as long as the first value. Nothing is there yet.
///
/// # Panics
/// If no directory can be made.
pub fn paths<const N: usize>(names: [&str; N]) -> (TempDir, [PathBuf; N]) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let paths = names.map(|name| folder.path().join(name));
    (folder, paths)
}
