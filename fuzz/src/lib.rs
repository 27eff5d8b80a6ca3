//! What the fuzz targets share.

use std::fs;
use std::path::PathBuf;

/// The folder of this process for the files that readers open, in `TMPDIR`, which `run.sh` sets to
/// one in memory that it removes at the end.
pub fn folder() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("flopgap-fuzz-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("the folder can be made");
    folder
}

/// A file with these bytes under this name in [`folder`].
pub fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder().join(name);
    fs::write(&path, bytes).expect("the file can be written");
    path
}

/// Splits the bytes at the first newline: a text that chooses what is done, and the file.
pub fn first_line(bytes: &[u8]) -> (&str, &[u8]) {
    let end = bytes.iter().position(|&byte| byte == b'\n').unwrap_or(bytes.len());
    let rest = bytes.get(end + 1..).unwrap_or_default();
    (std::str::from_utf8(&bytes[..end]).unwrap_or_default(), rest)
}
