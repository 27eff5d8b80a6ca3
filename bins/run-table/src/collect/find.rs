//! Which files and directories the inputs are.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use flopgap_cli::Failure;

use crate::layout::{Layout, is_data_set};

/// Something that may be a source.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// The name that the user gave.
    pub(super) name: Option<String>,
    pub(super) path: PathBuf,
    /// Where it lies below the directory that was searched.
    pub(super) searched: Option<PathBuf>,
}

/// What the inputs are.
#[derive(Debug, Default)]
pub(super) struct Search {
    pub(super) inputs: Vec<Found>,
    /// What was passed over, and why.
    pub(super) skipped: Vec<String>,
    /// How many of these are directories that could not be read.
    pub(super) unreadable: usize,
    /// Directories that were searched.
    seen: BTreeSet<PathBuf>,
}

/// Finds what the inputs are, in the order of their names.
pub(super) fn find(inputs: &[PathBuf], layout: &Layout) -> Result<Search, Failure> {
    let mut search = Search::default();
    // The data set itself is no input, wherever it lies.
    search.seen.extend(layout.root.canonicalize().ok());
    for input in inputs {
        let (name, path) = split(input);
        let missing = |error: io::Error| Failure::new(format!("{}: {error}", path.display()));
        let metadata = fs::metadata(&path).map_err(missing)?;
        if metadata.is_dir() && !is_run(&path) {
            if is_same(&path, &layout.root) {
                return Err(is_output(&path));
            }
            if name.is_some() {
                let message =
                    format!("{}: a name is for one run, and this is a directory of several", path.display());
                return Err(Failure::new(message).hint("name the files one by one, or leave the name out"));
            }
            search.directory(&path, &path);
        } else {
            search.inputs.push(Found { name, path, searched: None });
        }
    }
    Ok(search)
}

/// Whether two paths are one directory; not if one does not exist.
fn is_same(a: &Path, b: &Path) -> bool {
    a.canonicalize().is_ok_and(|a| b.canonicalize().is_ok_and(|b| a == b))
}

/// The data set would be its own input.
fn is_output(path: &Path) -> Failure {
    let (what, hint) = if is_data_set(path) {
        ("this is the data set that is written", "give the directory of the reports and traces")
    } else {
        (
            "the data set would lie among its own inputs",
            "give it a directory of its own with -o, which may lie in this one",
        )
    };
    Failure::new(format!("{}: {what}", path.display())).hint(hint)
}

/// An input with the name that stands before it. What exists as it is given has none.
fn split(input: &Path) -> (Option<String>, PathBuf) {
    if !input.exists()
        && let Some((name, path)) = input.to_str().and_then(|text| text.split_once('='))
    {
        return (Some(name.to_owned()), PathBuf::from(path));
    }
    (None, input.to_owned())
}

/// Whether a directory is a run and not to be searched.
pub(super) fn is_run(path: &Path) -> bool {
    let raw = path.join("raw");
    let is_of_a_network = |name: &str| name.starts_with('n') && name.contains("_d") && name.contains("_m");
    raw.is_dir()
        && (path.join("manifest.json").is_file()
            || fs::read_dir(raw).is_ok_and(|entries| {
                entries.flatten().any(|entry| is_of_a_network(&entry.file_name().to_string_lossy()))
            }))
}

/// What nsys writes before it is exported.
fn is_recording(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    matches!(ending, Some("nsys-rep" | "qdrep" | "qdstrm"))
}

/// Whether an export of a recording lies beside it.
fn is_exported(path: &Path) -> bool {
    ["sqlite", "sqlite.zst", "sqlite.gz"].iter().any(|ending| path.with_extension(ending).exists())
}

impl Search {
    /// Adds what lies in a directory. Links are followed, each directory is searched once.
    fn directory(&mut self, path: &Path, root: &Path) {
        let unreadable = |search: &mut Search, error: &io::Error| {
            search.skipped.push(format!("{}: {error}", path.display()));
            search.unreadable += 1;
        };
        match path.canonicalize() {
            Ok(canonical) if !self.seen.insert(canonical.clone()) => {
                // The data set within the directory that is collected needs no mention.
                if !is_data_set(&canonical) {
                    self.skipped
                        .push(format!("{}: a link to a directory that is searched already", path.display()));
                }
                return;
            }
            Ok(_) => {}
            Err(error) => return unreadable(self, &error),
        }
        let entries = match fs::read_dir(path).and_then(Iterator::collect::<Result<Vec<_>, _>>) {
            Ok(entries) => entries,
            Err(error) => return unreadable(self, &error),
        };
        let mut paths: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).collect();
        paths.sort();
        let mut forbidden = false;
        for path in paths {
            let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
            if is_hidden {
                self.skipped.push(format!("{}: hidden, which is not searched", path.display()));
                continue;
            }
            match fs::metadata(&path) {
                Err(error) => {
                    // What may not be looked at could be anything; a broken link is nothing.
                    forbidden |= error.kind() == io::ErrorKind::PermissionDenied;
                    self.skipped.push(format!("{}: {error}", path.display()));
                }
                Ok(found) if found.is_dir() && !is_run(&path) => {
                    if is_data_set(&path) && path.canonicalize().is_ok_and(|path| !self.seen.contains(&path))
                    {
                        self.skipped.push(format!("{}: a data set", path.display()));
                    } else {
                        self.directory(&path, root);
                    }
                }
                Ok(found) if found.is_file() && is_recording(&path) => {
                    if !is_exported(&path) {
                        let hint = "not exported yet; run `nsys export --type sqlite`";
                        self.skipped.push(format!("{}: {hint}", path.display()));
                    }
                }
                Ok(found) if found.is_file() || found.is_dir() => {
                    let searched = path.strip_prefix(root).ok().map(Path::to_owned);
                    self.inputs.push(Found { name: None, path, searched });
                }
                // Sockets, pipes and devices are not read: that could take forever.
                Ok(_) => self.skipped.push(format!("{}: not a regular file", path.display())),
            }
        }
        self.unreadable += usize::from(forbidden);
    }
}
