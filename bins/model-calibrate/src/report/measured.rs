//! What a calibration holds, without judging estimates by it.

use std::collections::BTreeMap;

use flopgap_calibration::accuracy::{quantile, repeatability};
use flopgap_calibration::{Row, mode_name};
use flopgap_report::ReportError;
use flopgap_report::table::{Cell, Column, Table};

/// Rows by engine, precision, mode and family: how many, how long they take, and how far repeated
/// ones are apart.
pub(super) fn measured(rows: &[Row]) -> Result<Table, ReportError> {
    let mut table = Table::new(
        "What was measured",
        [
            Column::text("engine", "engine"),
            Column::number("threads", "threads").rank(2),
            Column::text("precision", "precision"),
            Column::text("mode", "mode"),
            Column::text("family", "family"),
            Column::number("rows", "rows"),
            Column::number("fastest_ms", "fastest").unit("ms"),
            Column::number("median_ms", "median").unit("ms"),
            Column::number("slowest_ms", "slowest").unit("ms"),
            Column::number("repeatability", "repeatability").rank(1),
        ],
    )?;
    let mut groups: BTreeMap<_, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        let Row { engine, threads, precision, mode, workload, .. } = row;
        let key = (engine, threads, precision.to_string(), mode_name(*mode), workload.family().to_owned());
        groups.entry(key).or_default().push(row);
    }
    for ((engine, threads, precision, mode, family), own) in groups {
        let mut times: Vec<f64> = own.iter().map(|row| row.measurement.time.median_ns / 1e6).collect();
        times.sort_by(f64::total_cmp);
        let at = |share| Cell::optional(quantile(&times, share), |ms| Cell::float(ms, 4));
        table.push([
            Cell::text(engine),
            Cell::optional((*threads > 0).then_some(u128::from(*threads)), Cell::Unsigned),
            Cell::text(precision),
            Cell::text(mode),
            Cell::text(family),
            Cell::Unsigned(own.len() as u128),
            at(0.0),
            at(0.5),
            at(1.0),
            Cell::optional(repeatability(&own), |apart| Cell::percent(apart, 1)),
        ])?;
    }
    Ok(table)
}
