//! Reports of nsys.

use flopgap_nsys::{ReportTable, Unit, Units, Value};
use flopgap_report::ReportError;
use flopgap_report::table::{Cell, Column, Table};

/// Columns of numbers that are names.
const IDS: [&str; 14] = [
    "PID",
    "TID",
    "Pid",
    "Tid",
    "DevId",
    "CorrId",
    "CorrID",
    "RangeId",
    "ParentId",
    "Ctx",
    "Strm",
    "Device ID",
    "Context ID",
    "Stream ID",
];

/// A report as it is.
pub fn report(title: &str, report: &ReportTable, units: Units) -> Result<Table, ReportError> {
    let headings = report.columns.iter().enumerate().map(|(at, column)| {
        let heading = column.heading(units);
        let words = report.rows.iter().any(|row| matches!(row[at], Value::Text(_)));
        if words { Column::text(heading.clone(), heading) } else { Column::number(heading.clone(), heading) }
    });
    let mut table = Table::new(title, headings)?;
    for row in &report.rows {
        let cells = report.columns.iter().zip(row);
        table.push(cells.map(|(column, value)| match value {
            Value::Int(value) if IDS.contains(&column.title) => {
                i64::try_from(*value).map_or_else(|_| Cell::from(*value), Cell::Id)
            }
            value => cell(units, column.unit, value),
        }))?;
    }
    Ok(table)
}

fn cell(units: Units, unit: Unit, value: &Value) -> Cell {
    match (value, units.number(unit, value)) {
        (Value::Absent, _) => Cell::Absent,
        (Value::Text(text), _) => Cell::text(text.as_ref()),
        (_, Some((number, decimals))) => Cell::float(number, decimals),
        (Value::Int(value), None) => Cell::from(*value),
        (Value::Real(value), None) => Cell::float(*value, 1),
    }
}
