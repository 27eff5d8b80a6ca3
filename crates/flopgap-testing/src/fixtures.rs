//! Recorded data of the repository.

use std::fs;
use std::path::{Path, PathBuf};

/// A file or directory of the repository's `fixtures/`. An absolute path stays as it is.
pub fn fixture(name: impl AsRef<Path>) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name)
}

/// The content of a fixture that is compressed with Zstandard.
///
/// # Panics
/// If it cannot be read.
pub fn unpacked(name: impl AsRef<Path>) -> Vec<u8> {
    let path = fixture(name);
    let decompressed = fs::File::open(&path).and_then(zstd::decode_all);
    decompressed.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The text of a fixture that is compressed with Zstandard.
///
/// # Panics
/// If it cannot be read or is not UTF-8.
pub fn unpacked_text(name: impl AsRef<Path>) -> String {
    String::from_utf8(unpacked(name)).expect("UTF-8")
}

/// Writes the content of a fixture that is compressed with Zstandard to a file.
///
/// # Panics
/// If it cannot be read or written.
pub fn unpack(name: impl AsRef<Path>, to: impl AsRef<Path>) {
    let to = to.as_ref();
    fs::write(to, unpacked(name)).unwrap_or_else(|error| panic!("{}: {error}", to.display()));
}
