//! The reports that files and directories stand for.

use std::fs;
use std::path::{Path, PathBuf};

use flopgap_cli::{Exit, Failure};
use flopgap_ncu::{Error, Fault};
use flopgap_phases::sweep::is_record;

use crate::PROGRAM;
use crate::input::Input;

/// Whether a directory is a run of `hyper-profile`.
pub(crate) fn is_run(path: &Path) -> bool {
    path.join("raw").is_dir()
}

/// A file to be read.
pub(crate) struct Listed {
    pub(crate) path: PathBuf,
    /// Whether a directory was named, and not the file: then its failure does not stop the others.
    pub(crate) of_directory: bool,
}

/// The files, with the reports of each directory in its place. A run directory stays one.
pub(crate) fn expand(files: &[PathBuf], input: &Input) -> Result<Vec<Listed>, Failure> {
    let mut expanded = Vec::new();
    for path in files {
        let of_directory = path.is_dir() && !is_run(path);
        let paths = if of_directory { reports_in(path, input)? } else { vec![path.clone()] };
        expanded.extend(paths.into_iter().map(|path| Listed { path, of_directory }));
    }
    Ok(expanded)
}

/// The reports and records of a directory, by name; what is neither is named in a warning.
fn reports_in(directory: &Path, input: &Input) -> Result<Vec<PathBuf>, Failure> {
    let failed = |error| Failure::new(format!("{}: {error}", directory.display()));
    let mut entries = fs::read_dir(directory)
        .map_err(failed)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(failed)?;
    entries.sort();
    let (mut reports, mut others) = (Vec::new(), Vec::new());
    for path in entries {
        let is_report = || {
            is_record(&path)
                || !matches!(input.open(&path), Err(Error { what: Fault::NotAReport { .. }, .. }))
        };
        if !path.is_dir() && is_report() { reports.push(path) } else { others.push(path) }
    }
    if reports.is_empty() {
        return Err(Failure::new(format!("{}: no report of ncu is in the directory", directory.display()))
            .hint("name a run directory of flopgap profile, which contains raw/, or a directory with .ncu-rep files or CSVs of ncu")
            .exit(Exit::Absent));
    }
    if !others.is_empty() {
        let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let named: Vec<String> = others.iter().take(3).map(name).collect();
        let more = if others.len() > named.len() { ", …" } else { "" };
        flopgap_cli::warn(
            PROGRAM,
            format_args!(
                "{}: left out {}, not reports of ncu: {}{more}",
                directory.display(),
                if others.len() == 1 { "1 entry".to_owned() } else { format!("{} entries", others.len()) },
                named.join(", ")
            ),
        );
    }
    Ok(reports)
}
