//! Exceptions. The classes are Python's, `flopgap/errors.py`; here errors of the libraries become
//! them.

#![allow(
    missing_docs,
    reason = "the macro documents nothing; the classes are documented where they are defined"
)]

use arrow_schema::ArrowError;
use flopgap_files::{Hint, Text, chain};
use pyo3::PyErr;

pyo3::import_exception!(flopgap.errors, AbsentError);
pyo3::import_exception!(flopgap.errors, CountError);
pyo3::import_exception!(flopgap.errors, InputError);
pyo3::import_exception!(flopgap.errors, InputNotFoundError);

/// The exception of what is wrong with a source of tables.
pub(crate) fn of_table(error: &flopgap_table::Error) -> PyErr {
    let arguments = (chain(error).to_string(), error.hint().map(Text::into_owned));
    if error.is_not_found() {
        InputNotFoundError::new_err(arguments)
    } else if error.is_absence() {
        AbsentError::new_err(arguments)
    } else {
        InputError::new_err(arguments)
    }
}

/// The exception of what is wrong with a batch.
pub(crate) fn of_arrow(error: &ArrowError) -> PyErr {
    let own = match error {
        ArrowError::ExternalError(source) => source.downcast_ref::<flopgap_table::Error>(),
        _ => None,
    };
    own.map_or_else(|| InputError::new_err((error.to_string(), None::<String>)), of_table)
}

/// The exception of any other error, such as of a question that has no answer.
pub(crate) fn of_hint(error: &impl Hint) -> PyErr {
    let arguments = (chain(error).to_string(), error.hint().map(Text::into_owned));
    if error.is_absence() { AbsentError::new_err(arguments) } else { InputError::new_err(arguments) }
}
