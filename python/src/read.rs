//! Files and folders that were recorded.

use std::fmt::Write as _;
use std::path::PathBuf;

use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;

use crate::cells::escaped;
use crate::errors::of_table;
use crate::table::Table;

/// A recorded file or folder, and the tables in it.
#[pyclass(frozen, mapping, module = "flopgap")]
pub(crate) struct Source(pub(crate) flopgap_table::Source);

/// What a function takes that reads something.
#[derive(FromPyObject)]
pub(crate) enum Input<'py> {
    Source(Bound<'py, Source>),
    Path(PathBuf),
}

/// Opens what a profiler recorded.
#[pyfunction]
#[pyo3(signature = (path, /))]
pub(crate) fn read(py: Python<'_>, path: PathBuf) -> PyResult<Source> {
    let opened = py.detach(|| flopgap_table::Source::open(path));
    opened.map(Source).map_err(|error| of_table(&error))
}

impl Source {
    fn table(&self, py: Python<'_>, name: &str) -> PyResult<Table> {
        py.detach(|| self.0.table(name)).map(Table).map_err(|error| of_table(&error))
    }
}

#[pymethods]
impl Source {
    /// The file or folder.
    #[getter]
    fn path(&self) -> PathBuf {
        self.0.path().to_owned()
    }

    /// What it is: `ncu`, `nsys`, `kineto`, `run` or `bench`.
    #[getter]
    fn kind(&self) -> &'static str {
        self.0.kind().name()
    }

    /// The names of its tables.
    #[getter]
    fn tables(&self) -> Vec<String> {
        self.0.tables().into_iter().map(|table| table.name.into_owned()).collect()
    }

    /// What was strange in what was read so far.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.0.warnings()
    }

    fn keys(&self) -> Vec<String> {
        self.tables()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.tables().into_pyobject(py)?.call_method0("__iter__")
    }

    fn __len__(&self) -> usize {
        self.0.tables().len()
    }

    fn __contains__(&self, name: &str) -> bool {
        self.0.tables().iter().any(|table| table.name == name)
    }

    fn __getitem__(&self, py: Python<'_>, name: &str) -> PyResult<Table> {
        self.table(py, name)
    }

    /// Tables as attributes. Python asks for many names that no source has: these are attribute
    /// errors.
    fn __getattr__(&self, py: Python<'_>, name: &str) -> PyResult<Table> {
        if name.starts_with('_') {
            return Err(PyAttributeError::new_err(name.to_owned()));
        }
        self.table(py, name).map_err(|error| {
            let absent = error.is_instance_of::<crate::errors::AbsentError>(py);
            if !absent {
                return error;
            }
            let attribute = PyAttributeError::new_err(error.value(py).to_string());
            attribute.set_cause(py, Some(error));
            attribute
        })
    }

    fn __dir__(slf: &Bound<'_, Self>) -> PyResult<Vec<String>> {
        let mut names: Vec<String> = slf.get_type().dir()?.extract()?;
        names.extend(slf.get().tables());
        Ok(names)
    }

    fn __repr__(&self) -> String {
        format!(
            "<flopgap.Source {}: {}, with {}>",
            self.0.path().display(),
            self.0.kind().in_words(),
            self.tables().join(", ")
        )
    }

    fn _repr_html_(&self) -> String {
        let path = self.0.path().display().to_string();
        let mut html = format!(
            "<p><b>{}</b>: {}</p>\n<table>\n<thead><tr><th>table</th><th>rows are</th></tr></thead>\n<tbody>\n",
            escaped(&path),
            self.0.kind().in_words()
        );
        for table in self.0.tables() {
            let left = "<td style=\"text-align: left\">";
            let _ = writeln!(html, "<tr>{left}{}</td>{left}{}</td></tr>", table.name, escaped(&table.about));
        }
        html + "</tbody>\n</table>\n"
    }
}
