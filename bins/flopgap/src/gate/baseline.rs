//! Files that are kept under a name, to compare later ones with.

use std::fs;
use std::path::{Path, PathBuf};

use flopgap_cli::{Exit, Failure};

/// The directory of a name.
fn directory(store: &Path, name: &str) -> Result<PathBuf, Failure> {
    let is_plain = |c: char| c.is_alphanumeric() || "-_.+@".contains(c);
    if name.is_empty() || name.starts_with('.') || !name.chars().all(is_plain) {
        let message = format!("invalid name `{name}` of a baseline");
        let hint = "use letters, digits, `-`, `_`, `.`, `+` and `@`, and no point at the beginning";
        return Err(Failure::new(message).hint(hint).exit(Exit::Usage));
    }
    Ok(store.join(name))
}

/// Keeps a copy of a file in place of the one before, as it is on the disk; its path.
pub(super) fn save(store: &Path, name: &str, file: &Path) -> Result<PathBuf, Failure> {
    let directory = directory(store, name)?;
    let io = |path: &Path, error: &std::io::Error| Failure::new(format!("{}: {error}", path.display()));
    let called = file.file_name().filter(|_| file.is_file());
    let Some(called) = called else {
        let message = format!("{}: a directory, which cannot be saved", file.display());
        return Err(
            Failure::new(message).hint("keep it elsewhere, and name both in `flopgap gate BEFORE AFTER`")
        );
    };
    let bytes = fs::read(file).map_err(|error| io(file, &error))?;
    flopgap_files::create_folder(&directory)?;
    let kept = directory.join(called);
    flopgap_files::write_atomic(&kept, &bytes)?;
    // Only then: a save that is interrupted leaves two files, which `find` refuses, and none lost.
    for other in files(&directory)?.into_iter().filter(|other| *other != kept) {
        fs::remove_file(&other).map_err(|error| io(&other, &error))?;
    }
    Ok(kept)
}

/// The file that was kept under a name.
pub(super) fn find(store: &Path, name: &str) -> Result<PathBuf, Failure> {
    let directory = directory(store, name)?;
    let found = if directory.is_dir() { files(&directory)? } else { Vec::new() };
    match <[PathBuf; 1]>::try_from(found) {
        Ok([file]) => Ok(file),
        Err(found) if found.is_empty() => {
            let message = format!("no baseline `{name}` in {}", store.display());
            let hint = format!("`flopgap gate --save {name} FILE` keeps one");
            Err(Failure::new(message).hint(hint).exit(Exit::Absent))
        }
        Err(found) => {
            let message = format!("{}: {} files instead of one", directory.display(), found.len());
            Err(Failure::new(message).hint(format!("save it again: `flopgap gate --save {name} FILE`")))
        }
    }
}

fn files(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", directory.display()));
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if path.is_file() && !is_hidden {
            files.push(path);
        }
    }
    Ok(files)
}
