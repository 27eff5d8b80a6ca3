//! What a data set knows about a run: `_runs/<run>.json`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use flopgap_cli::Failure;
use serde::{Deserialize, Serialize};

/// The version of files and columns. A run of an older version is collected again.
pub(crate) const VERSION: u64 = 3;
const FORMAT: &str = "flopgap-dataset";

/// A run that was collected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    format: String,
    pub(crate) version: u64,
    pub(crate) run: String,
    pub(crate) source: SourceFile,
    /// Rows of each table.
    pub(crate) tables: BTreeMap<String, u64>,
    /// What the source has, or should have, and could not be read, with the reason.
    pub(crate) skipped: Vec<String>,
}

/// Where a run comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SourceFile {
    /// Absolute, without links.
    pub(crate) path: String,
    pub(crate) kind: String,
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
    /// The tables that were asked for so far; all if none are named.
    pub(crate) only: BTreeSet<String>,
}

impl Manifest {
    pub(crate) fn new(
        run: &str,
        source: SourceFile,
        tables: BTreeMap<String, u64>,
        skipped: Vec<String>,
    ) -> Manifest {
        Manifest { format: FORMAT.to_owned(), version: VERSION, run: run.to_owned(), source, tables, skipped }
    }

    /// Reads one. None if there is none; a damaged or older one counts as none, since the run is
    /// collected again then.
    pub(crate) fn read(path: &Path) -> Result<Option<Manifest>, Failure> {
        let Ok(text) = fs::read(path) else { return Ok(None) };
        let Ok(manifest) = serde_json::from_slice::<Manifest>(&text) else { return Ok(None) };
        if manifest.format != FORMAT {
            return Ok(None);
        }
        if manifest.version > VERSION {
            let message = format!(
                "{}: version {} of the data set, newer than version {VERSION} of this program",
                path.display(),
                manifest.version
            );
            return Err(Failure::new(message).hint("use the program that wrote it, or a newer one"));
        }
        Ok((manifest.version == VERSION).then_some(manifest))
    }

    pub(crate) fn write(&self, path: &Path) -> Result<(), Failure> {
        let mut text = serde_json::to_vec_pretty(self).map_err(|error| Failure::from_error(&error))?;
        text.push(b'\n');
        flopgap_fs::write_atomic(path, &text).map_err(Failure::from)
    }
}
