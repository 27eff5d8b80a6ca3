//! The SHA-256 of what a table was made from.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::Error;

/// How much of a file is hashed at once.
const CHUNK: usize = 1 << 17;

/// The SHA-256 of a file's bytes in hexadecimal digits, or of what `sha256sum` prints of a
/// directory's manifest and its files below `raw/`: what the tables of a run are made from.
///
/// # Errors
/// [`Error::Io`].
pub fn digest(path: &Path) -> Result<String, Error> {
    let digest =
        if path.is_dir() { of_run(path) } else { of_file(path).map_err(|error| (path.to_owned(), error)) };
    digest.map_err(|(path, source)| Error::Io { path, source })
}

fn of_run(path: &Path) -> Result<String, (PathBuf, io::Error)> {
    let mut names = Vec::new();
    for part in ["manifest.json", "raw"] {
        if path.join(part).exists() {
            list(path, part.to_owned(), &mut names)?;
        }
    }
    names.sort();
    let mut all = Sha256::new();
    for name in names {
        let file = path.join(&name);
        let digest = of_file(&file).map_err(|error| (file, error))?;
        all.update(format!("{digest}  {name}\n"));
    }
    Ok(hexadecimal(all))
}

/// Files below `name`, a path within `folder`. Names that begin with a dot are unfinished files.
fn list(folder: &Path, name: String, names: &mut Vec<String>) -> Result<(), (PathBuf, io::Error)> {
    let path = folder.join(&name);
    let error = |error| (path.clone(), error);
    if !path.is_dir() {
        names.push(name);
        return Ok(());
    }
    for entry in fs::read_dir(&path).map_err(error)? {
        let entry = entry.map_err(error)?.file_name();
        let entry = entry.to_string_lossy();
        if !entry.starts_with('.') {
            list(folder, format!("{name}/{entry}"), names)?;
        }
    }
    Ok(())
}

fn of_file(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut digest = Sha256::new();
    let mut chunk = vec![0; CHUNK];
    loop {
        let read = match file.read(&mut chunk) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if read == 0 {
            return Ok(hexadecimal(digest));
        }
        digest.update(&chunk[..read]);
    }
}

fn hexadecimal(digest: Sha256) -> String {
    digest.finalize().iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
