//! A table as the rows that a predictor is fitted to.

use std::collections::BTreeMap;

use flopgap_flops::Precision;
use flopgap_graph::Mode;

use super::{Record, Sheet, SheetWarning};
use crate::row::{Measurement, Origin, Row, Timing, mode_by_name};

/// The engine of rows from a table that names none.
const ENGINE: &str = "table";

/// Why a row is left out.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Without {
    Workload,
    Precision(String),
    Mode(String),
}

pub(super) fn of_sheet(sheet: &Sheet) -> (Origin, Vec<Row>, Vec<SheetWarning>) {
    let device = sheet.records.iter().find_map(|record| record.device.clone()).unwrap_or_default();
    let kind = if device.eq_ignore_ascii_case("cpu") { "cpu" } else { "cuda" };
    let otherwise = if kind == "cpu" { Mode::Call } else { Mode::Stream };
    let (mut rows, mut without) = (Vec::new(), BTreeMap::<Without, usize>::new());
    for record in &sheet.records {
        match row(sheet, record, otherwise) {
            Ok(row) => rows.push(row),
            Err(why) => *without.entry(why).or_default() += 1,
        }
    }
    let warnings = without.into_iter().map(|(why, rows)| match why {
        Without::Workload => SheetWarning::NoWorkload { rows },
        Without::Precision(name) => SheetWarning::UnknownPrecision { rows, name },
        Without::Mode(name) => SheetWarning::UnknownMode { rows, name },
    });
    (Origin { device, kind: kind.to_owned(), ..Origin::default() }, rows, warnings.collect())
}

fn row(sheet: &Sheet, record: &Record, otherwise: Mode) -> Result<Row, Without> {
    let cell = |name: &str| {
        let index = sheet.identity.iter().position(|column| column == name)?;
        Some(record.identity[index].as_str()).filter(|text| !text.is_empty())
    };
    let workload = record.workload.clone().ok_or(Without::Workload)?;
    let median_ns = record.measured.time_ms.ok_or(Without::Workload)? * 1e6;
    let precision = record.precision.as_deref().unwrap_or_default();
    let precision: Precision = precision.parse().map_err(|_| Without::Precision(precision.to_owned()))?;
    let mode = match cell("mode") {
        None => otherwise,
        Some(name) => mode_by_name(name).ok_or_else(|| Without::Mode(name.to_owned()))?,
    };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bytes above 0")]
    let bytes = |megabytes: f64| (megabytes * 1e6).round() as u64;
    let time = Timing {
        median_ns,
        low_ns: median_ns,
        high_ns: median_ns,
        minimum_ns: median_ns,
        runs: 1,
        capped: false,
        wall_ns: None,
    };
    Ok(Row {
        workload,
        engine: cell("engine").unwrap_or(ENGINE).to_owned(),
        mode,
        precision,
        threads: cell("threads").and_then(|threads| threads.parse().ok()).unwrap_or(0),
        measurement: Measurement {
            memory_bytes: record.measured.memory_mb.map(bytes),
            ..Measurement::of_time(time)
        },
    })
}
