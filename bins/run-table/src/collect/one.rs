//! One source into the data set.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Instant;

use flopgap_cli::Failure;
use flopgap_files::Hint as _;
use flopgap_table::parquet::{Provenance, Written};
use flopgap_table::{Error, Kind, Source, parquet};

use super::identity::{Content, Input, Stamp};
use super::lock::lock;
use super::outcome::{Outcome, State, Tables};
use super::{Options, commit, gap, prune, runs};
use crate::layout::Layout;
use crate::manifest::{Manifest, SourceFile};
use crate::name;

impl State {
    /// The word for it in lists. A run that lacks something is never called collected.
    pub(super) fn name(&self) -> &'static str {
        match self {
            State::Collected(tables) | State::Unchanged(tables) if !tables.skipped.is_empty() => "incomplete",
            State::Collected(_) => "collected",
            State::Unchanged(_) => "unchanged",
            State::Removed => "removed",
            State::Failed(_) => "failed",
            State::Unrecognized(_) => "left out",
        }
    }
}

pub(super) fn collect(input: &Input, options: &Options<'_>) -> Outcome {
    let start = Instant::now();
    let kind = input.content.as_ref().map(|content| content.kind.name().to_owned());
    let found = match &input.content {
        Some(content) => try_collect(input, content, options),
        None => open(input).map_or_else(Ok, |_| Err(changed(&input.path))),
    };
    let state = found.unwrap_or_else(State::Failed);
    let recognized = kind.as_deref().unwrap_or("not recognized");
    let (path, seconds) = (input.path.display(), start.elapsed().as_secs_f64());
    options.console.detail(format_args!("{path}: {recognized}, {}: {seconds:.3} s", state.name()));
    Outcome { run: input.run.clone(), path: input.path.clone(), kind, state }
}

/// Opens a source, or says what else it is and what is wrong with it.
fn open(input: &Input) -> Result<Source, State> {
    let error = match Source::open(&input.path) {
        Ok(source) if source.kind() == Kind::Parquet && input.in_search => {
            // Its rows are likely those of a report or trace beside it.
            return Err(State::Unrecognized("a table in a Parquet file".to_owned()));
        }
        Ok(source) => return Ok(source),
        Err(error) => error,
    };
    // What begins as JSON is a trace where it has events, and then it is damaged.
    let is_damaged = || matches!(Kind::of(&input.path), Ok(Kind::Kineto));
    Err(match is_something_else(&error).filter(|_| input.in_search) {
        Some(why) if !is_damaged() => State::Unrecognized(why),
        _ => State::Failed(error.into()),
    })
}

fn changed(path: &Path) -> Failure {
    Failure::new(format!("{}: changed while being read", path.display()))
        .hint("collect it again when it is complete")
}

fn try_collect(input: &Input, content: &Content, options: &Options<'_>) -> Result<State, Failure> {
    let layout = options.layout;
    let path = input.path.display();
    let encoded = name::encoded(&input.run).map_err(|why| {
        Failure::new(format!("{path}: the run name `{}` {why}", input.run))
            .hint(format!("give it another: `NAME={path}`"))
    })?;
    let Some(_lock) = lock(layout, &encoded)? else {
        let message = format!("{path}: another process is collecting the run `{}`", input.run);
        return Err(Failure::new(message).hint("collect it again when that one has finished"));
    };
    commit::complete(layout, &encoded)?;
    let known = Manifest::read(&layout.manifest(&encoded))?;
    let canonical = input.path.canonicalize().unwrap_or_else(|_| input.path.clone());
    let file = SourceFile {
        path: canonical.display().to_string(),
        kind: content.kind.name().to_owned(),
        bytes: content.stamp.bytes,
        sha256: content.sha256.clone(),
        only: all_asked(&options.only, known.as_ref()),
    };
    if let Some(known) = known {
        let of = &known.source;
        if of.path != file.path && of.sha256 != file.sha256 && !options.replace {
            let message =
                format!("{path}: the data set has a run `{}` of another file, {}", input.run, of.path);
            let hint =
                format!("give this one another name, `NAME={path}`, or replace that one with --replace");
            return Err(Failure::new(message).hint(hint));
        }
        // Another way to the same content is no change, as long as the first one is there.
        let is_there = of.path == file.path || Path::new(&of.path).exists();
        if (&of.sha256, &of.only) == (&file.sha256, &file.only)
            && is_there
            && !options.again
            && let Some(tables) = present(layout, &encoded, known)
        {
            return Ok(State::Unchanged(tables));
        }
    }
    let source = match open(input) {
        Ok(source) => source.with_digest(content.sha256.clone()),
        Err(state) => return Ok(state),
    };
    let (staged, skipped) = match stage(&source, input, content, &file, &layout.staging(&encoded)) {
        Ok(staged) => staged,
        Err(failure) => {
            let _ = fs::remove_dir_all(layout.staging(&encoded));
            return Err(failure);
        }
    };
    let rows = staged.iter().map(|(name, written)| (name.clone(), written.rows)).collect();
    let manifest = Manifest { run: input.run.clone(), source: file, tables: rows, skipped: skipped.clone() };
    commit::commit(layout, &encoded, &manifest)?;
    if let Some(old) = &input.instead_of {
        let encoded =
            name::encoded(old).map_err(|why| Failure::new(format!("the run name `{old}` {why}")))?;
        prune::remove(layout, &encoded, old)?;
    }
    let mut tables = Tables { skipped, ..Tables::default() };
    for (name, written) in &staged {
        tables.add(name, written.rows, written.bytes);
    }
    Ok(State::Collected(tables))
}

/// The tables that a run has when those that are asked for now come to those of earlier calls: a
/// run never loses a table that its source has.
fn all_asked(now: &BTreeSet<String>, known: Option<&Manifest>) -> BTreeSet<String> {
    match known.map(|known| &known.source.only) {
        Some(before) if now.is_empty() || before.is_empty() => BTreeSet::new(),
        Some(before) => now | before,
        None => now.clone(),
    }
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

/// What of a run is in the data set; none if not all of it is.
fn present(layout: &Layout, encoded: &str, manifest: Manifest) -> Option<Tables> {
    let mut tables = Tables { skipped: manifest.skipped, ..Tables::default() };
    for (name, rows) in &manifest.tables {
        tables.add(name, *rows, fs::metadata(layout.part(name, encoded)).ok()?.len());
    }
    Some(tables)
}

/// Files that were written beside the data set, by table.
type Staged = BTreeMap<String, Written>;

/// Writes all tables of a source where nobody reads them yet, and says what of it is lost.
fn stage(
    source: &Source,
    input: &Input,
    content: &Content,
    file: &SourceFile,
    staging: &Path,
) -> Result<(Staged, Vec<String>), Failure> {
    let mut provenance = source.provenance()?;
    crate::PROGRAM.clone_into(&mut provenance.tool);
    provenance.others.insert("run".to_owned(), input.run.clone());
    flopgap_files::create_folder(staging)?;
    let (mut staged, mut skipped) = (Staged::new(), Vec::new());
    for info in source.tables() {
        if !file.only.is_empty() && !file.only.contains(&*info.name) {
            continue;
        }
        let table = match source.table(&info.name) {
            Ok(table) => table,
            Err(error) if error.is_absence() => {
                skipped.push(format!("the table `{}`: {error}", info.name));
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        write(&mut staged, &table.unified(), staging, &provenance)?;
    }
    let is_asked = file.only.is_empty() || file.only.contains(gap::NAME);
    if let Some(table) = if is_asked { gap::table(source)? } else { None } {
        write(&mut staged, &table, staging, &provenance)?;
    }
    // Every run is in this table, whatever was asked for: it has the dates.
    write(&mut staged, &runs::table(&provenance, file, content.stamp.modified)?, staging, &provenance)?;
    let losses = source.losses();
    flopgap_cli::warn_all(
        crate::PROGRAM,
        source.warnings().into_iter().filter(|warning| !losses.contains(warning)),
    );
    skipped.extend(losses);
    if Stamp::of(&input.path)? == content.stamp { Ok((staged, skipped)) } else { Err(changed(&input.path)) }
}

fn write(
    staged: &mut Staged,
    table: &flopgap_table::Table,
    staging: &Path,
    provenance: &Provenance,
) -> Result<(), Failure> {
    let path = staging.join(format!("{}.parquet", table.name()));
    staged.insert(table.name().to_owned(), parquet::write(table, &path, provenance)?);
    Ok(())
}
