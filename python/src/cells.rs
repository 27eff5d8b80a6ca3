//! Values of Arrow arrays as Python's, and as text.

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// A value of a table.
#[derive(Clone, Copy, Debug, PartialEq, IntoPyObject)]
pub(crate) enum Cell<'a> {
    Int(i64),
    Count(u64),
    Float(f64),
    Text(&'a str),
}

/// The value of a column in a row; nothing where it is absent.
pub(crate) fn cell(array: &dyn Array, row: usize) -> Option<Cell<'_>> {
    if array.is_null(row) {
        return None;
    }
    Some(match array.data_type() {
        DataType::Int64 => Cell::Int(array.as_primitive::<Int64Type>().value(row)),
        DataType::UInt64 => Cell::Count(array.as_primitive::<UInt64Type>().value(row)),
        DataType::Float64 => Cell::Float(array.as_primitive::<Float64Type>().value(row)),
        DataType::Dictionary(..) => {
            let dictionary = array.as_dictionary::<Int32Type>();
            let key = dictionary.key(row)?;
            Cell::Text(dictionary.values().as_string::<i32>().value(key))
        }
        // Tables have no others; a test reads every column of every source.
        _ => return None,
    })
}

/// The rows of a batch as dicts.
pub(crate) fn dicts<'py>(py: Python<'py>, batch: &RecordBatch) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let schema = batch.schema();
    let row = |at: usize| {
        let row = PyDict::new(py);
        for (field, array) in schema.fields().iter().zip(batch.columns()) {
            row.set_item(field.name(), cell(array, at))?;
        }
        Ok(row)
    };
    (0..batch.num_rows()).map(row).collect()
}

/// A value for people: thousands are grouped, and numbers with decimals have six digits that count.
pub(crate) fn shown(cell: Option<Cell<'_>>) -> String {
    match cell {
        None => String::new(),
        Some(Cell::Int(value)) => grouped(&value.to_string()),
        Some(Cell::Count(value)) => grouped(&value.to_string()),
        Some(Cell::Float(value)) => decimal(value),
        Some(Cell::Text(text)) => text.to_owned(),
    }
}

fn decimal(value: f64) -> String {
    let size = value.abs();
    if size >= 1e15 || (size < 1e-4 && size > 0.0) || !value.is_finite() {
        return format!("{value:.3e}");
    }
    let decimals = if size >= 1e5 {
        1
    } else if size >= 100.0 {
        3
    } else {
        5
    };
    let text = format!("{value:.decimals$}");
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() { grouped(whole) } else { format!("{}.{fraction}", grouped(whole)) }
}

/// Digits in groups of three.
fn grouped(number: &str) -> String {
    let (sign, digits) = number.strip_prefix('-').map_or(("", number), |digits| ("-", digits));
    let mut text = sign.to_owned();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Text as it stands in HTML.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for sign in text.chars() {
        match sign {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            sign => escaped.push(sign),
        }
    }
    escaped
}
