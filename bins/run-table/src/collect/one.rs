//! One source into the data set.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use flopgap_cli::Failure;
use flopgap_hint::Hint as _;
use flopgap_table::parquet::{Provenance, Written};
use flopgap_table::{Error, Kind, Source, parquet};

use super::find::Input;
use super::{Options, runs};
use crate::layout::Layout;
use crate::manifest::{Manifest, SourceFile, VERSION};
use crate::name;

/// What became of an input.
pub(super) struct Outcome {
    pub(super) run: String,
    pub(super) path: PathBuf,
    /// What the source is.
    pub(super) kind: Option<String>,
    pub(super) state: State,
}

pub(super) enum State {
    Collected(Tables),
    /// It is in the data set as it is.
    Unchanged(Tables),
    Failed(Failure),
    /// A file of a directory that is something else, and what.
    Unrecognized(String),
}

/// What a run has in the data set.
#[derive(Default)]
pub(super) struct Tables {
    pub(super) count: usize,
    pub(super) rows: u64,
    pub(super) bytes: u64,
}

/// The runs of the data set by their sources.
pub(super) fn known_sources(layout: &Layout) -> HashMap<PathBuf, String> {
    let entries = fs::read_dir(layout.runs()).into_iter().flatten().flatten();
    let manifests = entries.filter(|entry| entry.path().extension().is_some_and(|ending| ending == "json"));
    manifests
        .filter_map(|entry| Manifest::read(&entry.path()).ok().flatten())
        .map(|manifest| (PathBuf::from(manifest.source.path), manifest.run))
        .collect()
}

pub(super) fn collect(input: &Input, options: &Options<'_>) -> Outcome {
    let mut kind = None;
    let start = Instant::now();
    let state = match try_collect(input, options, &mut kind) {
        Ok(state) => state,
        Err(failure) => State::Failed(failure),
    };
    let recognized = kind.as_deref().unwrap_or("not recognized");
    let (path, seconds) = (input.path.display(), start.elapsed().as_secs_f64());
    let what = match &state {
        State::Collected(_) => "collected",
        State::Unchanged(_) => "unchanged",
        State::Failed(_) => "failed",
        State::Unrecognized(_) => "left out",
    };
    options.console.detail(format_args!("{path}: {recognized}, {what}: {seconds:.3} s"));
    Outcome { run: input.run.clone(), path: input.path.clone(), kind, state }
}

fn try_collect(input: &Input, options: &Options<'_>, kind: &mut Option<String>) -> Result<State, Failure> {
    let layout = options.layout;
    let path = input.path.display();
    let encoded = name::encoded(&input.run).map_err(|why| {
        Failure::new(format!("{path}: the run name `{}` {why}", input.run))
            .hint(format!("give it another: `NAME={path}`"))
    })?;
    let source = match Source::open(&input.path) {
        Ok(source) => source,
        Err(error) => {
            // What begins as JSON is a trace where it has events, and then it is damaged.
            let is_damaged = || matches!(Kind::of(&input.path), Ok(Kind::Kineto));
            return match is_something_else(&error).filter(|_| input.in_search) {
                Some(why) if !is_damaged() => Ok(State::Unrecognized(why)),
                _ => Err(error.into()),
            };
        }
    };
    if input.in_search && source.kind() == Kind::Parquet {
        // Its rows are likely those of a report or trace beside it.
        return Ok(State::Unrecognized("a table in a Parquet file".to_owned()));
    }
    *kind = Some(source.kind().name().to_owned());
    let _lock = lock(layout, &encoded, input)?;
    let before = state_of(&input.path)?;
    let mut provenance = source.provenance()?;
    let canonical = input.path.canonicalize().unwrap_or_else(|_| input.path.clone());
    let of_source = SourceFile {
        path: canonical.display().to_string(),
        kind: source.kind().name().to_owned(),
        bytes: before.0,
        sha256: provenance.source_sha256.clone().unwrap_or_default(),
        only: options.only.clone(),
    };
    let manifest = layout.manifest(&encoded);
    if let Some(known) = Manifest::read(&manifest)? {
        if known.source.path != of_source.path && known.source.sha256 != of_source.sha256 && !options.replace
        {
            let message = format!(
                "{path}: the data set has a run `{}` of another file, {}",
                input.run, known.source.path
            );
            let hint =
                format!("give this one another name, `NAME={path}`, or replace that one with --replace");
            return Err(Failure::new(message).hint(hint));
        }
        let same = known.version == VERSION
            && SourceFile { path: of_source.path.clone(), ..known.source.clone() } == of_source;
        if same
            && !options.again
            && let Some(tables) = present(layout, &encoded, &known)
        {
            return Ok(State::Unchanged(tables));
        }
    }

    crate::PROGRAM.clone_into(&mut provenance.tool);
    provenance.others.insert("run".to_owned(), input.run.clone());
    let staging = layout.staging(&encoded);
    let result = stage(&source, &provenance, &of_source, &staging, options);
    let (tables, skipped) = match result {
        Ok(staged) => staged,
        Err(failure) => {
            let _ = fs::remove_dir_all(&staging);
            return Err(failure);
        }
    };
    flopgap_cli::warn_all(crate::PROGRAM, source.warnings());
    if state_of(&input.path)? != before {
        let _ = fs::remove_dir_all(&staging);
        let message = format!("{path}: changed while being read");
        return Err(Failure::new(message).hint("collect it again when it is complete"));
    }
    let rows = tables.iter().map(|(name, written)| (name.clone(), written.rows)).collect();
    replace(layout, &encoded, &tables)?;
    Manifest::new(&input.run, of_source, rows, skipped).write(&manifest)?;
    let sum = |of: fn(&Written) -> u64| tables.values().map(of).sum();
    let (rows, bytes) = (sum(|written| written.rows), sum(|written| written.bytes));
    Ok(State::Collected(Tables { count: tables.len(), rows, bytes }))
}

/// Why a file that lies in a directory is of another program, and not a damaged source.
fn is_something_else(error: &Error) -> Option<String> {
    match error {
        Error::Unrecognized { what, .. } => Some(format!("not recognized: {what}")),
        Error::Nsys(flopgap_nsys::Error::NotAnExport { .. }) => {
            Some("a database of another program".to_owned())
        }
        Error::Kineto(flopgap_kineto::Error::NotATrace { .. } | flopgap_kineto::Error::Json { .. }) => {
            Some("not recognized: JSON".to_owned())
        }
        _ => None,
    }
}

/// Size and time of a file, or of all files of a run, so that a change shows.
fn state_of(path: &Path) -> Result<(u64, Option<SystemTime>), Failure> {
    let failed = |error: io::Error| Failure::new(format!("{}: {error}", path.display()));
    let metadata = fs::metadata(path).map_err(failed)?;
    if !metadata.is_dir() {
        return Ok((metadata.len(), metadata.modified().ok()));
    }
    let mut state = (0, None);
    for entry in fs::read_dir(path.join("raw")).map_err(failed)? {
        let metadata = entry.and_then(|entry| entry.metadata()).map_err(failed)?;
        state.0 += metadata.len();
        state.1 = state.1.max(metadata.modified().ok());
    }
    Ok(state)
}

/// Holds a run as long as it lives: no other process writes it.
struct Lock {
    path: PathBuf,
    _file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // While it is still held: see `lock`.
        let _ = fs::remove_file(&self.path);
    }
}

fn lock(layout: &Layout, encoded: &str, input: &Input) -> Result<Lock, Failure> {
    let path = layout.lock(encoded);
    let failed = |error: io::Error| Failure::new(format!("{}: cannot be locked: {error}", path.display()));
    let held = || {
        Failure::new(format!(
            "{}: another process is collecting the run `{}`",
            input.path.display(),
            input.run
        ))
        .hint("collect it again when that one has finished")
    };
    let file = File::options().create(true).append(true).open(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(held()),
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }
    // The one that held it may have removed the file between opening and locking.
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let is_it = fs::metadata(&path).is_ok_and(|there| {
            file.metadata().is_ok_and(|ours| (there.dev(), there.ino()) == (ours.dev(), ours.ino()))
        });
        if !is_it {
            return Err(held());
        }
    }
    Ok(Lock { path, _file: file })
}

/// What of a run is in the data set; none if not all of it is.
fn present(layout: &Layout, encoded: &str, manifest: &Manifest) -> Option<Tables> {
    let mut tables = Tables::default();
    for (name, rows) in &manifest.tables {
        tables.count += 1;
        tables.rows += rows;
        tables.bytes += fs::metadata(layout.part(name, encoded)).ok()?.len();
    }
    Some(tables)
}

/// Files that were written beside the data set, by table.
type Staged = BTreeMap<String, Written>;

/// Writes all tables of a source where nobody reads them yet, and says which could not be asked
/// for.
fn stage(
    source: &Source,
    provenance: &Provenance,
    file: &SourceFile,
    staging: &Path,
    options: &Options<'_>,
) -> Result<(Staged, Vec<String>), Failure> {
    // What a process that was killed left behind.
    match fs::remove_dir_all(staging) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(Failure::new(format!("{}: cannot be removed: {error}", staging.display())));
        }
        _ => {}
    }
    flopgap_fs::create_folder(staging)?;
    let (mut staged, mut skipped) = (Staged::new(), Vec::new());
    let wanted = |name: &str| options.only.is_empty() || options.only.iter().any(|only| only == name);
    for info in source.tables() {
        if !wanted(&info.name) {
            continue;
        }
        let table = match source.table(&info.name) {
            Ok(table) => table,
            Err(error) if error.is_absence() => {
                skipped.push(error.to_string());
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let path = staging.join(format!("{}.parquet", info.name));
        staged.insert(info.name.to_string(), parquet::write(&table.unified(), &path, provenance)?);
    }
    if wanted(runs::NAME) {
        let path = staging.join(format!("{}.parquet", runs::NAME));
        staged.insert(
            runs::NAME.to_owned(),
            parquet::write(&runs::table(provenance, file)?, &path, provenance)?,
        );
    }
    Ok((staged, skipped))
}

/// Puts new files in the place of old ones, each by a rename, and removes tables that the run no
/// longer has.
fn replace(layout: &Layout, encoded: &str, staged: &Staged) -> Result<(), Failure> {
    let failed = |path: &Path, error: io::Error| {
        Failure::new(format!("{}: cannot be replaced: {error}", path.display()))
    };
    // Without it the run is collected again, should this process be killed here.
    let manifest = layout.manifest(encoded);
    match fs::remove_file(&manifest) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(&manifest, error)),
        _ => {}
    }
    for name in staged.keys() {
        flopgap_fs::create_folder(&layout.partition(name, encoded))?;
        let part = layout.part(name, encoded);
        let new = layout.staging(encoded).join(format!("{name}.parquet"));
        fs::rename(new, &part).map_err(|error| failed(&part, error))?;
    }
    for name in layout.table_names().map_err(|error| failed(&layout.root, error))? {
        let partition = layout.partition(&name, encoded);
        if !staged.contains_key(&name) && partition.is_dir() {
            fs::remove_dir_all(&partition).map_err(|error| failed(&partition, error))?;
            // A table without runs is no table.
            let _ = fs::remove_dir(layout.root.join(&name));
        }
    }
    let staging = layout.staging(encoded);
    fs::remove_dir_all(&staging).map_err(|error| failed(&staging, error))
}
