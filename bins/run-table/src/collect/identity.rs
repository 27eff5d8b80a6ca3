//! Which run a source is: by its content, whatever it is called and however it was found.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use flopgap_cli::Failure;
use flopgap_table::{Kind, parquet};

use super::find::Found;
use super::outcome::{Outcome, State};
use crate::layout::Layout;

/// What a source is.
#[derive(Clone, Debug)]
pub(super) struct Content {
    pub(super) kind: Kind,
    pub(super) sha256: String,
    pub(super) stamp: Stamp,
}

/// Size and time of a file, or of all files of a run, so that a change shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) bytes: u64,
    pub(super) modified: Option<SystemTime>,
}

/// A source to collect, as a run of its own.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) run: String,
    pub(super) path: PathBuf,
    /// Whether it was found in a directory, so that it may be something else.
    pub(super) in_search: bool,
    /// None of what cannot be read; why is for its reader to say.
    pub(super) content: Option<Content>,
    /// The run that the data set has of this content, under a name that it loses.
    pub(super) instead_of: Option<String>,
}

impl Stamp {
    pub(super) fn of(path: &Path) -> Result<Stamp, Failure> {
        let failed = |error: io::Error| Failure::new(format!("{}: {error}", path.display()));
        let metadata = fs::metadata(path).map_err(failed)?;
        if !metadata.is_dir() {
            return Ok(Stamp { bytes: metadata.len(), modified: metadata.modified().ok() });
        }
        let mut stamp = Stamp { bytes: 0, modified: None };
        for entry in fs::read_dir(path.join("raw")).map_err(failed)? {
            let metadata = entry.and_then(|entry| entry.metadata()).map_err(failed)?;
            stamp.bytes += metadata.len();
            stamp.modified = stamp.modified.max(metadata.modified().ok());
        }
        Ok(stamp)
    }
}

/// Reads what a source is; none where it has no tables, or cannot be read.
pub(super) fn look(found: &Found) -> Option<Content> {
    let kind = Kind::of(&found.path).ok()?;
    // A table beside reports likely has their rows; the others have programs of their own.
    let is_other = matches!(kind, Kind::Recording | Kind::Record | Kind::DataSet)
        || (kind == Kind::Parquet && found.searched.is_some());
    if is_other {
        return None;
    }
    let stamp = Stamp::of(&found.path).ok()?;
    Some(Content { kind, sha256: parquet::digest(&found.path).ok()?, stamp })
}

/// The runs of the data set, by content and by path.
struct Known {
    by_content: HashMap<String, String>,
    by_path: HashMap<PathBuf, String>,
}

impl Known {
    fn new(layout: &Layout) -> Known {
        let (mut by_content, mut by_path) = (HashMap::new(), HashMap::new());
        for (_, manifest) in layout.manifests() {
            by_content.insert(manifest.source.sha256, manifest.run.clone());
            by_path.insert(manifest.source.path.into(), manifest.run);
        }
        Known { by_content, by_path }
    }
}

/// What is to be collected, under which name.
#[derive(Default)]
pub(super) struct Named {
    pub(super) inputs: Vec<Input>,
    /// Inputs without a name of their own.
    pub(super) refused: Vec<Outcome>,
    /// Files with the content of another one, and of which.
    pub(super) doubles: Vec<String>,
}

/// Names sources: those that the user names first, then contents that the data set has, which keep
/// their names, then all others.
pub(super) fn named(mut found: Vec<(Found, Option<Content>)>, layout: &Layout, replace: bool) -> Named {
    let known = Known::new(layout);
    let is_new = |content: &Option<Content>| {
        content.as_ref().is_none_or(|content| !known.by_content.contains_key(&content.sha256))
    };
    found.sort_by_key(|(found, content)| (found.name.is_none(), is_new(content)));
    let mut inputs: BTreeMap<String, Input> = BTreeMap::new();
    let mut runs: HashMap<String, (String, PathBuf)> = HashMap::new();
    let mut unread = BTreeSet::new();
    let mut named = Named::default();
    for (Found { name, path, searched }, content) in found {
        let canonical = path.canonicalize().unwrap_or_else(|_| path.clone());
        let shown = path.display();
        let sha256 = content.as_ref().map(|content| content.sha256.as_str());
        let first = sha256.and_then(|sha256| runs.get(sha256));
        let of_content = sha256.and_then(|sha256| known.by_content.get(sha256));
        let default = || {
            let default = || crate::name::of(searched.as_deref().unwrap_or_else(|| file_name(&path)));
            of_content.or_else(|| known.by_path.get(&canonical)).cloned().unwrap_or_else(default)
        };
        let run = name.clone().unwrap_or_else(default);
        if content.is_none() {
            // A file that is not a source takes no name from one.
            if unread.insert(canonical) {
                let in_search = searched.is_some();
                named.inputs.push(Input { run, path, in_search, content, instead_of: None });
            }
            continue;
        }
        let refusal = match (first, of_content) {
            (Some((other, _)), _) if name.as_ref().is_some_and(|name| name != other) => Some((
                format!("{shown}: its content is collected as the run `{other}`"),
                "a content is one run: give it one name".to_owned(),
            )),
            (Some((_, other)), _) => {
                if *other != path {
                    named.doubles.push(format!("{shown}: the content of {}", other.display()));
                }
                continue;
            }
            (None, Some(old)) if *old != run && !replace => Some((
                format!("{shown}: the data set has its content as the run `{old}`"),
                "leave the name out, or give that run this name with --replace".to_owned(),
            )),
            (None, _) => inputs.get(&run).map(|other| {
                (
                    format!("{shown}: the run name `{run}` is also that of {}", other.path.display()),
                    format!("name one of them: `NAME={shown}`"),
                )
            }),
        };
        if let Some((message, hint)) = refusal {
            let state = State::Failed(Failure::new(message).hint(hint));
            named.refused.push(Outcome { run, path, kind: None, state });
            continue;
        }
        if let Some(sha256) = sha256 {
            runs.insert(sha256.to_owned(), (run.clone(), path.clone()));
        }
        let instead_of = of_content.filter(|old| **old != run).cloned();
        inputs.insert(run.clone(), Input { run, path, in_search: searched.is_some(), content, instead_of });
    }
    named.inputs.extend(inputs.into_values());
    named
}

fn file_name(path: &Path) -> &Path {
    path.file_name().map_or(path, Path::new)
}
