//! The compiled half of the Python package `flopgap`: what it offers is documented in its stubs,
//! `flopgap/_flopgap.pyi`.

mod answers;
mod cells;
mod columns;
mod commands;
mod counting;
mod errors;
mod estimate;
mod read;
mod record;
mod table;

use pyo3::prelude::*;

/// The compiled half of `flopgap`. Import `flopgap` instead.
#[pymodule]
mod _flopgap {
    use pyo3::prelude::*;
    use pyo3::types::PyModule;

    #[pymodule_export]
    use super::answers::{compare, diff, gap, kernels, passes, summary};
    #[pymodule_export]
    use super::columns::table_of_columns;
    #[pymodule_export]
    use super::commands::command;
    #[pymodule_export]
    use super::counting::{Gpu, Session, cupti_path, kernel_info, presets_of_chip};
    #[pymodule_export]
    use super::estimate::estimate;
    #[pymodule_export]
    use super::read::{Source, read};
    #[pymodule_export]
    use super::record::{record_export, record_session, record_switch};
    #[pymodule_export]
    use super::table::{Field, Schema, Table};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
