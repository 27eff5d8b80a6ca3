//! A table as the rows that a predictor is fitted to.

use flopgap_flops::Precision;
use flopgap_graph::Mode;

use super::{Record, Sheet};
use crate::row::{Measurement, Origin, Row, Timing};

/// The engine of rows from a table that names none.
const ENGINE: &str = "table";

pub(super) fn of_sheet(sheet: &Sheet) -> (Origin, Vec<Row>, usize) {
    let device = sheet.records.iter().find_map(|record| record.device.clone()).unwrap_or_default();
    let kind = if device.eq_ignore_ascii_case("cpu") { "cpu" } else { "cuda" };
    let engine = sheet.identity.iter().position(|column| column == "engine");
    let row = |record: &Record| {
        let precision: Precision = record.precision.as_deref()?.parse().ok()?;
        let median_ns = record.measured.time_ms? * 1e6;
        let engine = engine.map(|index| record.identity[index].as_str()).filter(|name| !name.is_empty());
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
        Some(Row {
            workload: record.workload.clone()?,
            engine: engine.unwrap_or(ENGINE).to_owned(),
            mode: if kind == "cpu" { Mode::Call } else { Mode::Stream },
            precision,
            threads: 0,
            measurement: Measurement {
                memory_bytes: record.measured.memory_mb.map(bytes),
                ..Measurement::of_time(time)
            },
        })
    };
    let rows: Vec<Row> = sheet.records.iter().filter_map(row).collect();
    let without = sheet.records.len() - rows.len();
    (Origin { device, kind: kind.to_owned(), ..Origin::default() }, rows, without)
}
