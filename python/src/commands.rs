//! The programs that the package installs.

use std::ffi::OsString;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Runs a program with its arguments, without its name, as its binary would run, and returns the
/// exit code.
#[pyfunction]
pub(crate) fn command(py: Python<'_>, program: &str, arguments: Vec<OsString>) -> PyResult<u8> {
    let arguments = std::iter::once(program.into()).chain(arguments);
    let exit = match program {
        "ncu-analyze" => py.detach(|| ncu_analyze::run(arguments)),
        "nsys-analyze" => py.detach(|| nsys_analyze::run(arguments)),
        _ => return Err(PyValueError::new_err(format!("no program is called {program}"))),
    };
    Ok(exit as u8)
}
