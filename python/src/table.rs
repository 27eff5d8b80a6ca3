//! Tables, as Python takes them: through Arrow's capsules, without a copy.

use std::fmt::Write as _;

use arrow_array::RecordBatch;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{DataType, SchemaRef};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyTuple};

use crate::cells::{cell, dicts, escaped, shown};
use crate::errors::{of_arrow, of_table};

/// How many rows are shown.
const SHOWN: usize = 10;
/// How many columns are shown.
const SHOWN_COLUMNS: usize = 20;
/// How much of a text is shown.
const SHOWN_TEXT: usize = 60;

/// A table of a source, or some of its columns.
#[pyclass(frozen, module = "flopgap")]
pub(crate) struct Table(pub(crate) flopgap_table::Table);

/// The columns of a table.
#[pyclass(frozen, module = "flopgap")]
pub(crate) struct Schema(SchemaRef);

/// A column: its name, its type, and what it means.
#[pyclass(frozen, module = "flopgap", get_all)]
pub(crate) struct Field {
    name: String,
    r#type: String,
    nullable: bool,
    description: String,
    /// Of a metric of Nsight Compute: its name there.
    metric: Option<String>,
    /// Of a metric of Nsight Compute: its unit there.
    unit: Option<String>,
}

/// A schema as capsule.
fn schema_capsule<'py>(py: Python<'py>, schema: &SchemaRef) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema.as_ref())
        .map_err(|error| PyValueError::new_err(error.to_string()))?;
    PyCapsule::new_with_value(py, schema, c"arrow_schema")
}

#[pymethods]
impl Table {
    /// Its name: `kernels`.
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    /// What its rows are, in a sentence.
    #[getter]
    fn about(&self) -> &str {
        self.0.about()
    }

    /// The names of its columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.0.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Its columns: names, types and meanings.
    #[getter]
    fn schema(&self) -> Schema {
        Schema(self.0.schema())
    }

    /// The same table with these columns alone. What is not asked for is not read.
    #[pyo3(signature = (*columns))]
    fn select(&self, columns: &Bound<'_, PyTuple>) -> PyResult<Table> {
        let columns: Vec<String> = columns.extract()?;
        Ok(Table(self.0.select(&columns).map_err(|error| of_table(&error))?))
    }

    /// Its rows as dicts, at most so many.
    #[pyo3(signature = (limit=None))]
    fn to_dicts<'py>(&self, py: Python<'py>, limit: Option<usize>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let first = |limit| self.0.first(limit).map_err(|error| of_table(&error));
        if let Some(limit) = limit {
            return dicts(py, &py.detach(|| first(limit))?);
        }
        let reader = py.detach(|| self.0.read()).map_err(|error| of_table(&error))?;
        let mut rows = Vec::new();
        for batch in reader {
            rows.extend(dicts(py, &batch.map_err(|error| of_arrow(&error))?)?);
        }
        Ok(rows)
    }

    /// A fresh stream of its rows, from the first on.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A consumer may ask for other types; it must take what it is given.
        let _ = requested_schema;
        let reader = py.detach(|| self.0.read()).map_err(|error| of_table(&error))?;
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), c"arrow_array_stream")
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.0.schema())
    }

    fn __repr__(&self) -> String {
        let schema = self.0.schema();
        let columns: Vec<String> = schema
            .fields()
            .iter()
            .take(SHOWN_COLUMNS)
            .map(|field| format!("{}: {}", field.name(), type_name(field.data_type())))
            .collect();
        let more = schema.fields().len().saturating_sub(SHOWN_COLUMNS);
        let more = if more > 0 { format!(", ... {more} more") } else { String::new() };
        format!("<flopgap.Table {} ({}{more})>", self.0.name(), columns.join(", "))
    }

    fn _repr_html_(&self, py: Python<'_>) -> PyResult<String> {
        let batch = py.detach(|| self.0.first(SHOWN + 1)).map_err(|error| of_table(&error))?;
        Ok(html(self.0.name(), self.0.about(), &batch))
    }
}

/// The first rows of a table.
fn html(name: &str, about: &str, batch: &RecordBatch) -> String {
    let schema = batch.schema();
    let rows = batch.num_rows().min(SHOWN);
    let columns = schema.fields().len().min(SHOWN_COLUMNS);
    let mut html = format!(
        "<p><b>{}</b>: {}</p>\n<div style=\"overflow-x: auto\">\n<table>\n<thead><tr>",
        escaped(name),
        escaped(about)
    );
    for field in &schema.fields()[..columns] {
        let about = field.metadata().get("description").map_or("", String::as_str);
        let _ = write!(html, "<th title=\"{}\">{}</th>", escaped(about), escaped(field.name()));
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for row in 0..rows {
        html.push_str("<tr>");
        for array in &batch.columns()[..columns] {
            let text = shown(cell(array, row));
            let is_text = matches!(array.data_type(), DataType::Dictionary(..));
            let align = if is_text { "left" } else { "right" };
            let _ = write!(html, "<td style=\"text-align: {align}\"");
            if text.chars().count() > SHOWN_TEXT {
                let short: String = text.chars().take(SHOWN_TEXT - 1).collect();
                let _ = write!(html, " title=\"{}\">{}…</td>", escaped(&text), escaped(&short));
            } else {
                let _ = write!(html, ">{}</td>", escaped(&text));
            }
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody>\n</table>\n</div>\n");
    let mut notes = Vec::new();
    if batch.num_rows() > rows {
        notes.push(format!("the first {rows} rows"));
    }
    if schema.fields().len() > columns {
        notes.push(format!("{columns} of {} columns", schema.fields().len()));
    }
    if !notes.is_empty() {
        let _ = writeln!(html, "<p><small>{}</small></p>", notes.join(", "));
    }
    html
}

/// The type of a column in a word.
fn type_name(kind: &DataType) -> &'static str {
    match kind {
        DataType::Int64 => "int64",
        DataType::UInt64 => "uint64",
        DataType::Float64 => "float64",
        _ => "text",
    }
}

impl Schema {
    fn field(&self, at: usize) -> Field {
        let field = self.0.field(at);
        let note = |key: &str| field.metadata().get(key).cloned();
        Field {
            name: field.name().clone(),
            r#type: type_name(field.data_type()).to_owned(),
            nullable: field.is_nullable(),
            description: note("description").unwrap_or_default(),
            metric: note("metric"),
            unit: note("unit"),
        }
    }
}

#[pymethods]
impl Schema {
    /// The names of the columns.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.0.fields().iter().map(|field| field.name().clone()).collect()
    }

    fn __len__(&self) -> usize {
        self.0.fields().len()
    }

    fn __getitem__(&self, key: Key) -> PyResult<Field> {
        let at = match key {
            Key::Name(name) => self.0.index_of(&name).ok(),
            Key::Place(place) => {
                let length = self.0.fields().len();
                let place = if place < 0 { place.checked_add_unsigned(length) } else { Some(place) };
                place.and_then(|place| usize::try_from(place).ok()).filter(|place| *place < length)
            }
        };
        at.map(|at| self.field(at)).ok_or_else(|| PyIndexError::new_err("there is no such column"))
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.0)
    }

    fn __repr__(&self) -> String {
        let fields = (0..self.0.fields().len()).map(|at| self.field(at));
        let line = |field: Field| {
            let null = if field.nullable { " or null" } else { "" };
            format!("{}: {}{null}. {}", field.name, field.r#type, field.description)
        };
        fields.map(line).collect::<Vec<_>>().join("\n")
    }

    fn _repr_html_(&self) -> String {
        let mut html =
            "<table>\n<thead><tr><th>column</th><th>type</th><th>description</th></tr></thead>\n<tbody>\n"
                .to_owned();
        for field in (0..self.0.fields().len()).map(|at| self.field(at)) {
            let null = if field.nullable { " or null" } else { "" };
            let left = "<td style=\"text-align: left\">";
            let _ = writeln!(
                html,
                "<tr>{left}{}</td>{left}{}{null}</td>{left}{}</td></tr>",
                escaped(&field.name),
                field.r#type,
                escaped(&field.description)
            );
        }
        html + "</tbody>\n</table>\n"
    }
}

/// How a column is asked for.
#[derive(FromPyObject)]
enum Key {
    Place(isize),
    Name(String),
}

#[pymethods]
impl Field {
    fn __repr__(&self) -> String {
        let null = if self.nullable { " or null" } else { "" };
        format!("<flopgap.Field {}: {}{null}. {}>", self.name, self.r#type, self.description)
    }
}
