//! Recording of this process.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use flopgap_record::{Graphs, Options, Session, export_between, switch, wait_for_records, wait_for_switch};
use pyo3::prelude::*;

use crate::errors::of_hint;

/// How long programs may take to finish what they record.
const WAIT_AT_MOST: Duration = Duration::from_secs(10);

/// A directory to record to: the library, and the variables of the environment.
#[pyfunction]
pub(crate) fn record_session(
    directory: PathBuf,
    cupti: Option<PathBuf>,
) -> PyResult<(PathBuf, Vec<(&'static str, OsString)>)> {
    let mut options = Options::default();
    options.starts_on = false;
    options.cupti = cupti;
    options.graphs = Graphs::Nodes;
    let session = Session::create(&directory, &options).map_err(|error| of_hint(&error))?;
    Ok((session.library(), session.environment()))
}

/// Switches recording on or off, and waits until it is.
#[pyfunction]
pub(crate) fn record_switch(py: Python<'_>, directory: PathBuf, on: bool) -> PyResult<()> {
    let switched = py.detach(|| {
        switch(&directory, on)?;
        wait_for_switch(&directory, on, WAIT_AT_MOST)
    });
    switched.map(drop).map_err(|error| of_hint(&error))
}

/// What was recorded, and sentences about what is missing.
type Counts = (u64, u64, u64, u64, u64, Vec<String>);

/// Waits until all is recorded, and writes what began between these times.
#[pyfunction]
pub(crate) fn record_export(
    py: Python<'_>,
    directory: PathBuf,
    path: PathBuf,
    begin: u64,
    end: u64,
) -> PyResult<Counts> {
    let exported = py.detach(|| {
        wait_for_records(&directory, WAIT_AT_MOST)?;
        export_between(&directory, &path, begin..end)
    });
    let exported = exported.map_err(|error| of_hint(&error))?;
    let losses = exported.losses.iter().map(ToString::to_string).collect();
    let flopgap_record::Exported { processes, kernels, copies, calls, ranges, .. } = exported;
    Ok((processes, kernels, copies, calls, ranges, losses))
}
