//! Values of the engine as cells of our tables.

use flopgap_cli::Failure;
use flopgap_report::table::{Cell, Column, Table};
use polars::prelude::{AnyValue, DataFrame, DataType};

/// A frame as a table; all columns are named as the query names them.
pub(super) fn table(frame: &DataFrame, title: &str) -> Result<Table, Failure> {
    let columns = frame.columns().iter().map(|column| {
        let name = column.name().to_string();
        if is_number(column.dtype()) {
            Column::number(name.clone(), name)
        } else {
            Column::text(name.clone(), name)
        }
    });
    let failed = |error: flopgap_report::ReportError| Failure::from_error(&error);
    let mut table = Table::new(title, columns).map_err(failed)?;
    for row in 0..frame.height() {
        let cells: Result<Vec<Cell>, Failure> = frame
            .columns()
            .iter()
            .map(|column| {
                column.get(row).map(|value| cell(&value)).map_err(|error| Failure::from_error(&error))
            })
            .collect();
        table.push(cells?).map_err(failed)?;
    }
    Ok(table)
}

/// How many bytes the first line of a CSV has, its line end included.
pub(super) fn header_length(frame: &DataFrame) -> Result<usize, Failure> {
    let text = table(&frame.slice(0, 0), "")?.to_csv().map_err(|error| Failure::from_error(&error))?;
    Ok(text.len())
}

fn is_number(kind: &DataType) -> bool {
    kind.is_primitive_numeric() || kind.is_decimal()
}

/// Whole numbers exactly; null as absent; what our tables have no cell for as the engine prints it.
fn cell(value: &AnyValue<'_>) -> Cell {
    match value {
        AnyValue::Null => Cell::Absent,
        AnyValue::Boolean(value) => Cell::text(value.to_string()),
        AnyValue::UInt8(value) => (*value).into(),
        AnyValue::UInt16(value) => (*value).into(),
        AnyValue::UInt32(value) => (*value).into(),
        AnyValue::UInt64(value) => (*value).into(),
        AnyValue::Int8(value) => (*value).into(),
        AnyValue::Int16(value) => (*value).into(),
        AnyValue::Int32(value) => (*value).into(),
        AnyValue::Int64(value) => (*value).into(),
        AnyValue::Int128(value) | AnyValue::Decimal(value, _, 0) => (*value).into(),
        AnyValue::Decimal(value, _, scale) => {
            float(*value as f64 / 10_f64.powi(i32::try_from(*scale).unwrap_or_default()))
        }
        AnyValue::Float32(value) => float(f64::from(*value)),
        AnyValue::Float64(value) => float(*value),
        AnyValue::String(text) => Cell::text(*text),
        AnyValue::StringOwned(text) => Cell::text(text.as_str()),
        value => value.get_str().map_or_else(|| Cell::text(value.to_string()), Cell::text),
    }
}

/// With four digits, and one decimal at least: 0.01234, 1.234, 123.4, 12,345.7.
fn float(value: f64) -> Cell {
    if value.is_nan() {
        // No measurement is missing: the query divides nothing by nothing.
        return Cell::text("NaN");
    }
    let size = value.abs();
    let digits_before = if size > 0.0 && size.is_finite() { size.log10().floor() } else { 3.0 };
    // The exponent of a float lies between -324 and 308.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is clamped")]
    let decimals = (3.0 - digits_before).clamp(1.0, 12.0) as usize;
    Cell::float(value, decimals)
}
