//! Exceptions. The classes are Python's, `flopgap/errors.py`; here errors of the libraries become them.

#![allow(
    missing_docs,
    reason = "the macro documents nothing; the classes are documented where they are defined"
)]

pyo3::import_exception!(flopgap.errors, AbsentError);
pyo3::import_exception!(flopgap.errors, CountError);
pyo3::import_exception!(flopgap.errors, InputError);
pyo3::import_exception!(flopgap.errors, InputNotFoundError);
