//! The files of a run take the place of older ones, and nothing is removed before they stand.
//!
//! All files are written where nobody reads them. One rename then decides: before it the run is
//! what it was, and what was written is thrown away; after it, the next process completes what a
//! killed process left.

use std::fs;
use std::io;
use std::path::Path;

use flopgap_cli::Failure;

use super::lock::lock;
use crate::layout::{Layout, READY, STAGING};
use crate::manifest::Manifest;

/// The manifest among the files of a run that is ready. No table has a name with a point.
const MANIFEST: &str = "manifest.json";

/// Replaces a run, whose lock is held, by what lies in its staging directory.
pub(super) fn commit(layout: &Layout, encoded: &str, manifest: &Manifest) -> Result<(), Failure> {
    let (staging, ready) = (layout.staging(encoded), layout.ready(encoded));
    manifest.write(&staging.join(MANIFEST))?;
    fs::rename(&staging, &ready).map_err(|error| failed(&ready, "replaced", &error))?;
    complete(layout, encoded)
}

/// Completes a run that is ready, and throws away what is not; its lock is held. Each step may have
/// been done already.
pub(super) fn complete(layout: &Layout, encoded: &str) -> Result<(), Failure> {
    let ready = layout.ready(encoded);
    remove_folder(&layout.staging(encoded))?;
    if let Some(manifest) = Manifest::read(&ready.join(MANIFEST))? {
        for name in manifest.tables.keys() {
            flopgap_files::create_folder(&layout.partition(name, encoded))?;
            let (new, part) = (ready.join(format!("{name}.parquet")), layout.part(name, encoded));
            match fs::rename(&new, &part) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && part.exists() => {}
                moved => moved.map_err(|error| failed(&part, "replaced", &error))?,
            }
        }
        for name in tables(layout)?.into_iter().filter(|name| !manifest.tables.contains_key(name)) {
            remove_part(layout, &name, encoded)?;
        }
        let path = layout.manifest(encoded);
        fs::rename(ready.join(MANIFEST), &path).map_err(|error| failed(&path, "replaced", &error))?;
    }
    remove_folder(&ready)
}

/// Completes what killed processes left, but for runs that another process is writing.
pub(super) fn complete_all(layout: &Layout) -> Result<(), Failure> {
    for encoded in [layout.encoded_with(READY), layout.encoded_with(STAGING)].concat() {
        if let Some(_lock) = lock(layout, &encoded)? {
            complete(layout, &encoded)?;
        }
    }
    Ok(())
}

/// Removes a run, whose lock is held. What is known about it goes last, so that a killed process
/// leaves a run that is known to lack tables.
pub(super) fn remove(layout: &Layout, encoded: &str) -> Result<(), Failure> {
    for name in tables(layout)? {
        remove_part(layout, &name, encoded)?;
    }
    let path = layout.manifest(encoded);
    fs::remove_file(&path).map_err(|error| failed(&path, "removed", &error))
}

fn remove_part(layout: &Layout, name: &str, encoded: &str) -> Result<(), Failure> {
    remove_folder(&layout.partition(name, encoded))?;
    // A table exists as long as a run has it.
    let _ = fs::remove_dir(layout.root.join(name));
    Ok(())
}

/// Removes a directory that may not be there.
fn remove_folder(path: &Path) -> Result<(), Failure> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(path, "removed", &error)),
        _ => Ok(()),
    }
}

fn tables(layout: &Layout) -> Result<Vec<String>, Failure> {
    layout.table_names().map_err(|error| failed(&layout.root, "read", &error))
}

fn failed(path: &Path, what: &str, error: &io::Error) -> Failure {
    Failure::new(format!("{}: cannot be {what}: {error}", path.display()))
}
