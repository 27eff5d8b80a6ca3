//! Runs whose sources are gone.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use flopgap_cli::Failure;

use super::commit;
use super::find::is_run;
use super::lock::lock;
use super::outcome::{Outcome, State};
use crate::layout::Layout;

/// Removes the runs whose sources lay below a directory of the inputs and are no longer there.
/// Sources elsewhere may be those of another machine.
pub(super) fn prune(inputs: &[PathBuf], layout: &Layout) -> Vec<Outcome> {
    let searched = inputs.iter().filter(|input| input.is_dir() && !is_run(input));
    let searched: Vec<PathBuf> = searched.filter_map(|input| input.canonicalize().ok()).collect();
    let gone = layout.manifests().into_iter().filter(|(_, manifest)| {
        let source = Path::new(&manifest.source.path);
        searched.iter().any(|folder| source.starts_with(folder)) && is_gone(source)
    });
    gone.map(|(encoded, manifest)| {
        let state = match remove(layout, &encoded, &manifest.run) {
            Ok(()) => State::Removed,
            Err(failure) => State::Failed(failure),
        };
        let (path, kind) = (manifest.source.path.into(), Some(manifest.source.kind));
        Outcome { run: manifest.run, path, kind, state }
    })
    .collect()
}

/// Only what is certainly not there: what cannot be looked at may be.
fn is_gone(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Removes a run unless another process is writing it.
pub(super) fn remove(layout: &Layout, encoded: &str, run: &str) -> Result<(), Failure> {
    match lock(layout, encoded)? {
        Some(_lock) => commit::remove(layout, encoded),
        None => Err(Failure::new(format!("the run `{run}` is being collected by another process"))
            .hint("remove it when that one has finished")),
    }
}
