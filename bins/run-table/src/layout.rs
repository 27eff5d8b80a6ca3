//! Where things lie in a data set.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::manifest::Manifest;
use crate::name;

/// The directory of what is known about each run. Engines skip names that begin with `_`.
const RUNS: &str = "_runs";
/// The name of the file of a run in a table.
const PART: &str = "part-0.parquet";
/// What the names in the directory of runs end with.
const MANIFEST: &str = ".json";
pub(crate) const READY: &str = ".ready";
pub(crate) const STAGING: &str = ".staging";

/// A directory that is a data set, or becomes one.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) root: PathBuf,
}

/// A table of a data set: its name, and the file of each run.
#[derive(Clone, Debug)]
pub(crate) struct TableFiles {
    pub(crate) name: String,
    /// The name of the run, and the file.
    pub(crate) files: Vec<(String, PathBuf)>,
}

impl Layout {
    pub(crate) fn new(root: &Path) -> Layout {
        Layout { root: root.to_owned() }
    }

    pub(crate) fn runs(&self) -> PathBuf {
        self.root.join(RUNS)
    }

    /// What is known about a run.
    pub(crate) fn manifest(&self, encoded: &str) -> PathBuf {
        self.runs().join(format!("{encoded}{MANIFEST}"))
    }

    /// Who holds it writes the run.
    pub(crate) fn lock(&self, encoded: &str) -> PathBuf {
        self.runs().join(format!("{encoded}.lock"))
    }

    /// Where files of a run lie until all of them are written.
    pub(crate) fn staging(&self, encoded: &str) -> PathBuf {
        self.runs().join(format!("{encoded}{STAGING}"))
    }

    /// Where the files of a run lie from when all of them are written until all of them are in
    /// their places.
    pub(crate) fn ready(&self, encoded: &str) -> PathBuf {
        self.runs().join(format!("{encoded}{READY}"))
    }

    /// The runs of which something lies in `_runs/`, by what its name ends with, encoded.
    pub(crate) fn encoded_with(&self, ending: &str) -> Vec<String> {
        let entries = fs::read_dir(self.runs()).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut found: Vec<String> =
            names.filter_map(|name| name.strip_suffix(ending).map(str::to_owned)).collect();
        found.sort();
        found
    }

    /// What is known about all runs that are completely collected, by their encoded names.
    pub(crate) fn manifests(&self) -> Vec<(String, Manifest)> {
        let names = self.encoded_with(MANIFEST).into_iter();
        names
            .filter_map(|encoded| {
                let manifest = Manifest::read(&self.manifest(&encoded)).ok()??;
                Some((encoded, manifest))
            })
            .collect()
    }

    /// The directory of a run in a table.
    pub(crate) fn partition(&self, table: &str, encoded: &str) -> PathBuf {
        self.root.join(table).join(format!("run={encoded}"))
    }

    /// The file of a run in a table.
    pub(crate) fn part(&self, table: &str, encoded: &str) -> PathBuf {
        self.partition(table, encoded).join(PART)
    }

    /// The directories that may be tables.
    pub(crate) fn table_names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.root)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if !name.starts_with(['_', '.']) && entry.path().is_dir() {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// The tables that have files.
    pub(crate) fn tables(&self) -> io::Result<Vec<TableFiles>> {
        let mut tables = Vec::new();
        for name in self.table_names()? {
            let mut files = Vec::new();
            for entry in fs::read_dir(self.root.join(&name))? {
                let entry = entry?;
                let partition = entry.file_name().to_string_lossy().into_owned();
                let part = entry.path().join(PART);
                if let Some(encoded) = partition.strip_prefix("run=")
                    && part.is_file()
                {
                    files.push((name::decoded(encoded), part));
                }
            }
            files.sort();
            if !files.is_empty() {
                tables.push(TableFiles { name, files });
            }
        }
        Ok(tables)
    }
}

/// Whether a directory is a data set.
pub(crate) fn is_data_set(path: &Path) -> bool {
    path.join(RUNS).is_dir()
}
