//! What a data set knows about a run: `_runs/<run>.json`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use flopgap_cli::Failure;
use flopgap_files::run::{Format, FormatFault};
use serde::{Deserialize, Serialize};

/// The format of manifests, and the version of files and columns.
static FORMAT: Format = Format { name: "flopgap-dataset", version: 1, noun: "manifest of a data set" };

/// A run that was collected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
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
    /// Reads one. None if there is none; a damaged one counts as none, since the run is collected
    /// again then.
    pub(crate) fn read(path: &Path) -> Result<Option<Manifest>, Failure> {
        match FORMAT.read(path) {
            Err(error) if matches!(error.what, FormatFault::Version { .. }) => Err(error.into()),
            manifest => Ok(manifest.unwrap_or_default()),
        }
    }

    pub(crate) fn write(&self, path: &Path) -> Result<(), Failure> {
        flopgap_files::write_atomic(path, FORMAT.pretty(self).as_bytes()).map_err(Failure::from)
    }
}
