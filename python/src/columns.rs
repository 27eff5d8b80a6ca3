//! Columns that Python made, as a table: what was counted in this process.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::StringDictionaryBuilder;
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, Float64Array, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow_schema::{Field, Schema};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::table::Table;

/// Name, type (`text`, `count` or `number`), description, values of which some may be `None`.
type Column<'py> = (String, String, String, Bound<'py, PyAny>);

/// The tables of counts, and what their rows are.
const TABLES: [(&str, &str); 5] = [
    ("total", "Everything that was counted, in a row."),
    (
        "regions",
        "Regions, ranges and modules, each with what is its own and with the sums of what is inside.",
    ),
    ("kernels", "Kernels by their names, with the sums of their launches."),
    ("launches", "Launches in order."),
    ("operators", "Calls of operators that compute, in order, with what theory asks for."),
];

/// A table of these columns.
#[pyfunction]
pub(crate) fn table_of_columns(name: &str, columns: Vec<Column<'_>>) -> PyResult<Table> {
    let Some(&(name, about)) = TABLES.iter().find(|(known, _)| *known == name) else {
        return Err(PyValueError::new_err(format!("no table {name:?}")));
    };
    let (mut fields, mut arrays): (Vec<Field>, Vec<ArrayRef>) = (Vec::new(), Vec::new());
    let mut rows = 0;
    for (name, kind, description, values) in columns {
        let array: ArrayRef = match kind.as_str() {
            "count" => Arc::new(UInt64Array::from(values.extract::<Vec<Option<u64>>>()?)),
            "number" => Arc::new(Float64Array::from(values.extract::<Vec<Option<f64>>>()?)),
            "text" => {
                let mut texts = StringDictionaryBuilder::<Int32Type>::new();
                for text in values.extract::<Vec<Option<String>>>()? {
                    texts.append_option(text);
                }
                Arc::new(texts.finish())
            }
            other => return Err(PyValueError::new_err(format!("no type {other:?} of a column"))),
        };
        rows = array.len();
        let nullable = array.null_count() > 0;
        let description = HashMap::from([("description".to_owned(), description)]);
        fields.push(Field::new(name, array.data_type().clone(), nullable).with_metadata(description));
        arrays.push(array);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let batch = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
        .map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(Table(flopgap_table::Table::held(name, about, batch)))
}
