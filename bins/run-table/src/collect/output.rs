//! Where a data set may not be written.

use std::fs;
use std::path::{Path, PathBuf};

use flopgap_cli::Failure;

use super::find::is_run;
use crate::layout::is_data_set;

/// Refuses a path that is no place for a data set: a file, a link that leads nowhere, and what lies
/// within a run or another data set, whose readers would take its files for theirs.
pub(super) fn check(output: &Path) -> Result<(), Failure> {
    let refused =
        |what: String, hint: &str| Err(Failure::new(format!("{}: {what}", output.display())).hint(hint));
    match fs::metadata(output) {
        Ok(found) if !found.is_dir() => {
            return refused("not a directory".to_owned(), "give the directory of the data set with -o");
        }
        Err(error) if fs::symlink_metadata(output).is_ok() => {
            let hint = "remove the link, or create the directory that it names";
            return refused(format!("a link that leads nowhere: {error}"), hint);
        }
        _ => {}
    }
    let whole = resolved(output);
    for (above, folder) in whole.ancestors().enumerate() {
        let what = match () {
            () if is_run(folder) => "the run",
            () if above > 0 && is_data_set(folder) => "the data set",
            () => continue,
        };
        let place = if above == 0 { "this is" } else { "it lies within" };
        return refused(
            format!("{place} {what} {}", folder.display()),
            "give a directory outside of it with -o",
        );
    }
    Ok(())
}

/// The path without links; what does not exist yet stays as it is.
fn resolved(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    path.ancestors()
        .find_map(|there| Some(there.canonicalize().ok()?.join(path.strip_prefix(there).ok()?)))
        .unwrap_or(path)
}
