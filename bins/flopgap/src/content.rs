//! What a file or directory is.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use flopgap_cli::{Exit, Failure};
use flopgap_table::{Error, Kind};

use crate::programs::{BENCH, CALIBRATE, PROFILE, Program};

/// What an answer depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// An export of nsys, a trace of `torch.profiler`, or a directory with those of all ranks.
    Trace,
    /// A recording that nsys exports.
    Recording,
    /// A report of Nsight Compute.
    Report,
    /// A record of `hyper-profile`, which is read as a report.
    Record,
    /// A run directory of `hyper-profile`.
    Run,
    /// A model.
    #[cfg_attr(not(feature = "calibrate"), allow(dead_code, reason = "no program reads it"))]
    Model,
    /// The configuration of a language model.
    #[cfg_attr(not(feature = "calibrate"), allow(dead_code, reason = "no program reads it"))]
    Language,
    /// A calibration, or the directory of a sweep.
    Calibration,
    /// Results of `mlp-bench`.
    Bench,
    /// A data set of `run-table`.
    DataSet,
}

/// What flopgap reads, for those who gave it something else.
const READS: &str = "flopgap reads exports and recordings of nsys, traces of torch.profiler, reports of ncu \
    (.ncu-rep, --csv), run directories of hyper-profile, models (.onnx, .pt2, config.json), calibrations, results of \
    flopgap bench --format json, and data sets of run-table";

/// How many files of a directory without traces are examined for an example.
const EXAMINED: usize = 256;

/// Files that often lie beside those that flopgap reads, by their first bytes.
const KNOWN: [(&[u8], &str); 11] = [
    (
        b"flopgap\x01",
        "a recording of one process; `flopgap record convert DIR` makes its directory an export",
    ),
    (b"\x7fELF", "a program or library"),
    (b"%PDF", "a PDF document"),
    (b"\x89PNG", "a PNG picture"),
    (b"\x89HDF", "an HDF5 file"),
    (b"PK\x03\x04", "a zip archive without an exported program of PyTorch"),
    (b"\x80\x02", "a Python pickle"),
    (b"\x80\x04", "a Python pickle"),
    (b"<!DOCTYPE", "an HTML page"),
    (b"<html", "an HTML page"),
    (b"<?xml", "an XML document"),
];

/// Recognizes a file or directory by its content.
pub(crate) fn of(path: &Path) -> Result<Content, Failure> {
    // Before traces, which any JSON may be.
    #[cfg(feature = "calibrate")]
    if flopgap_graph::language::is_language_model(path).is_ok_and(|is| is) {
        return Ok(Content::Language);
    }
    let content = match Kind::of(path) {
        Ok(Kind::Nsys | Kind::Kineto) => Content::Trace,
        Ok(Kind::Recording) => Content::Recording,
        Ok(Kind::Ncu) => Content::Report,
        Ok(Kind::Record) => Content::Record,
        Ok(Kind::Run) => linked(Content::Run, PROFILE, path)?,
        Ok(Kind::Calibration) => linked(Content::Calibration, CALIBRATE, path)?,
        Ok(Kind::Bench) => linked(Content::Bench, BENCH, path)?,
        Ok(Kind::DataSet) => Content::DataSet,
        Ok(Kind::Parquet) => return Err(parquet(path)),
        Ok(kind) => return Err(unrecognized(path, kind.in_words())),
        Err(Error::Unrecognized { .. }) if path.is_dir() => return of_directory(path),
        Err(Error::Unrecognized { what, .. }) => match of_calibrate(path)? {
            Some(content) => content,
            None => return Err(unrecognized(path, looks_like(path).unwrap_or(&what))),
        },
        Err(Error::Io { source, .. }) => return Err(unreadable(path, &source)),
        Err(error) => return Err(Failure::of(&error)),
    };
    Ok(content)
}

/// Models, and tables of measurements, whose columns decide.
#[cfg(feature = "calibrate")]
fn of_calibrate(path: &Path) -> Result<Option<Content>, Failure> {
    use flopgap_calibration::sheet::{Role, read};

    /// More than tables of measurements have by far: those are read as a whole.
    const LARGEST_TABLE: u64 = 64 << 20;
    if flopgap_graph::is_model(path).map_err(|error| unreadable(path, &error))? {
        return Ok(Some(Content::Model));
    }
    let small = fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() < LARGEST_TABLE);
    let is_table = small && looks_like(path).is_none() && read(path, Role::Both, None).is_ok();
    Ok(is_table.then_some(Content::Calibration))
}

#[cfg(not(feature = "calibrate"))]
#[expect(clippy::unnecessary_wraps, reason = "as with the feature")]
fn of_calibrate(_path: &Path) -> Result<Option<Content>, Failure> {
    Ok(None)
}

/// A kind whose program may not be part of this executable.
fn linked(content: Content, program: Program, path: &Path) -> Result<Content, Failure> {
    if program.command().is_some() {
        return Ok(content);
    }
    let message =
        format!("{}: read by {}, which this flopgap was built without", path.display(), program.name);
    Err(Failure::new(message)
        .hint(format!("install flopgap with its default features, or {}", program.name))
        .exit(Exit::Absent))
}

/// A directory that is nothing of flopgap's own: one with traces, or one with reports of ncu.
fn of_directory(path: &Path) -> Result<Content, Failure> {
    let entries = fs::read_dir(path).map_err(|error| unreadable(path, &error))?;
    let mut files: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    files.sort();
    let kinds: Vec<Option<Kind>> = files.iter().map(|file| Kind::of(file).ok()).collect();
    let directory = path.display();
    let error = |what: &str, hint: String| {
        Err(Failure::new(format!("{directory}: {what}")).hint(hint).exit(Exit::Absent))
    };
    let is_of_nsys = |kind: &Option<Kind>| matches!(kind, Some(Kind::Nsys | Kind::Recording));
    let traces = files.iter().zip(&kinds);
    let mut traces = traces.filter(|(_, kind)| is_of_nsys(kind) || **kind == Some(Kind::Kineto));
    match traces.next() {
        Some(_) if !kinds.iter().any(is_of_nsys) => return Ok(Content::Trace),
        Some((first, _)) => {
            return error(
                "a directory of traces",
                format!(
                    "`flopgap nsys batch {directory}` writes a page of each; or name files, such as {}",
                    first.display()
                ),
            );
        }
        None => {}
    }
    let mut known = kinds.iter().flatten().peekable();
    if known.peek().is_some() && known.all(|kind| matches!(kind, Kind::Ncu | Kind::Record)) {
        return Ok(Content::Report);
    }
    match files.iter().take(EXAMINED).find(|file| of(file).is_ok()) {
        Some(first) => {
            error("a directory of several files", format!("name the files, such as {}", first.display()))
        }
        None => Err(unrecognized(path, "a directory without any file that flopgap reads")),
    }
}

fn parquet(path: &Path) -> Failure {
    Failure::new(format!("{}: a table in a Parquet file", path.display()))
        .hint("DuckDB, Polars and pandas read it; `flopgap table collect DIR FILE…` makes a data set of such files")
        .exit(Exit::Absent)
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    let failure = Failure::new(format!("{}: cannot be read: {error}", path.display()));
    // Perhaps it was meant as a command.
    let is_word = path.to_str().is_some_and(|text| text.chars().all(|c| c.is_ascii_alphabetic()));
    if error.kind() == std::io::ErrorKind::NotFound && is_word {
        return failure.hint("there is no such file, and no such command; `flopgap --help` lists both");
    }
    failure
}

fn unrecognized(path: &Path, what: &str) -> Failure {
    let message = format!("{}: not recognized: {what}", path.display());
    let failure = Failure::new(message).hint(READS).exit(Exit::Absent);
    if cfg!(feature = "calibrate") {
        return failure;
    }
    failure.hint(
        "models and tables of measurements are read by model-calibrate, which this flopgap was built without",
    )
}

/// What a file is that flopgap does not read, as far as its first bytes tell.
fn looks_like(path: &Path) -> Option<&'static str> {
    let mut head = Vec::new();
    fs::File::open(path).ok()?.take(512).read_to_end(&mut head).ok()?;
    if head.starts_with(b"\x1f\x8b") || head.starts_with(b"\x28\xb5\x2f\xfd") {
        return None; // compressed
    }
    if let Some((_, what)) = KNOWN.iter().find(|(begin, _)| head.starts_with(begin)) {
        return Some(what);
    }
    if head.get(257..262) == Some(b"ustar") {
        return Some("a tar archive");
    }
    head.contains(&0).then_some("a binary file of an unknown format")
}
