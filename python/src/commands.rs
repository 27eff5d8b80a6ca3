//! The programs that the package installs.

use std::ffi::OsString;

use flopgap_cli::Restart;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Runs a program with its arguments, without its name, as its binary would run, and returns the
/// exit code. `python` is the interpreter, by which a program starts itself again.
#[pyfunction]
pub(crate) fn command(py: Python<'_>, program: &str, arguments: Vec<OsString>, python: &str) -> PyResult<u8> {
    let arguments: Vec<OsString> = std::iter::once(program.into()).chain(arguments).collect();
    let restart = Restart::with(python, ["-m", "flopgap"].map(str::to_owned));
    let exit = py.detach(|| match program {
        "flopgap" => Some(flopgap_command::run_as(&restart, arguments)),
        _ => flopgap_command::run_program(&restart, arguments),
    });
    match exit {
        Some(exit) => Ok(exit as u8),
        None => Err(PyValueError::new_err(format!("no program is called {program}"))),
    }
}
