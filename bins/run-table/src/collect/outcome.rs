//! What became of the inputs.

use std::path::PathBuf;

use flopgap_cli::Failure;

use super::runs;

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
    /// Its source is gone, and so is the run.
    Removed,
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
    /// What it lacks, and why.
    pub(super) skipped: Vec<String>,
}

impl Tables {
    /// Adds a table of the source; `runs` is the data set's own.
    pub(super) fn add(&mut self, name: &str, rows: u64, bytes: u64) {
        if name != runs::NAME {
            self.count += 1;
            self.rows += rows;
            self.bytes += bytes;
        }
    }
}
