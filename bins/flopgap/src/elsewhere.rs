//! Programs that are not part of this executable.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use flopgap_cli::{Exit, Failure};

/// What becomes of this process while another program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// The program replaces it, where the system can do that.
    Replace,
    /// It waits.
    Wait,
}

/// Runs the program of this name and package, which is the command `within` of flopgap, with these
/// arguments.
pub(crate) fn run(
    name: &str,
    package: &str,
    within: &str,
    then: Then,
    arguments: &[OsString],
) -> Result<Exit, Failure> {
    let path = find(name).ok_or_else(|| missing(name, package, within))?;
    let failed = |error| Failure::new(format!("{}: cannot be run: {error}", path.display()));
    let mut command = Command::new(&path);
    command.args(arguments);
    #[cfg(unix)]
    {
        use std::os::unix::process::CommandExt as _;
        // What its usage and messages begin with.
        command.arg0(within);
        if then == Then::Replace {
            return Err(failed(command.exec()));
        }
    }
    let _ = then;
    let status = command.status().map_err(failed)?;
    match status.code() {
        Some(0) => Ok(Exit::Done),
        Some(1) => Ok(Exit::Failed),
        Some(2) => Ok(Exit::Usage),
        Some(3) => Ok(Exit::Absent),
        Some(4) => Ok(Exit::Undecided),
        _ => Err(Failure::new(format!("{}: ended with {status}", path.display()))),
    }
}

/// Beside this executable, then in the search path.
fn find(name: &str) -> Option<PathBuf> {
    let name = format!("{name}{}", env::consts::EXE_SUFFIX);
    let beside = env::current_exe().ok().as_deref().and_then(Path::parent).map(Path::to_owned);
    let path = env::var_os("PATH").unwrap_or_default();
    beside
        .into_iter()
        .chain(env::split_paths(&path))
        .map(|folder| folder.join(&name))
        .find(|file| file.is_file())
}

fn missing(name: &str, package: &str, within: &str) -> Failure {
    Failure::new(format!("`{within}` is the program {name}, which is neither beside flopgap nor in PATH"))
        .hint(format!("install it with `cargo install {package}`, or from a checkout with `cargo install --path bins/{package}`"))
        .exit(Exit::Absent)
}
