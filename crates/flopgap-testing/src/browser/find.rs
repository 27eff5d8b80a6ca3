//! Finds the browser.

use std::env;
use std::path::PathBuf;

use crate::browser::Error;

const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"];

/// The browser to start.
pub(crate) fn chromium() -> Result<PathBuf, Error> {
    if let Some(named) = env::var_os("FLOPGAP_CHROMIUM") {
        let named = PathBuf::from(named);
        return if named.is_file() {
            Ok(named)
        } else {
            Err(Error::Missing(format!("FLOPGAP_CHROMIUM names {}, which is not a file", named.display())))
        };
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let programs = env::split_paths(&path).flat_map(|directory| NAMES.map(|name| directory.join(name)));
    programs.into_iter().find(|program| program.is_file()).ok_or_else(|| {
        Error::Missing(format!("none of {} is on the path; install chromium", NAMES.join(", ")))
    })
}

/// Whether tests must fail without it.
pub(crate) fn is_required() -> bool {
    env::var("FLOPGAP_REQUIRE").is_ok_and(|required| required.split(',').any(|one| one == "chromium"))
}
