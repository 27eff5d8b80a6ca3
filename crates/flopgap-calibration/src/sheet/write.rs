//! Writing rows as a table.

use flopgap_graph::Workload;

use super::{Record, Values};
use crate::row::{Origin, Row, mode_name};
use crate::split::model_name;

/// The columns that identify a row: those of any estimator's tables, then what else distinguishes
/// rows of a calibration.
const IDENTITY: [&str; 10] = [
    "model",
    "input_dim",
    "hidden_dims",
    "output_dim",
    "batch_size",
    "device",
    "precision",
    "engine",
    "mode",
    "threads",
];

/// The columns of numbers: those of any estimator's tables, then energy and the interval.
const VALUES: [&str; 13] = [
    "empirical_time_ms",
    "empirical_memory_mb",
    "empirical_flops",
    "analytical_time_ms",
    "analytical_memory_mb",
    "analytical_flops",
    "time_error_pct",
    "memory_error_pct",
    "flops_error_pct",
    "empirical_energy_j",
    "analytical_energy_j",
    "analytical_time_low_ms",
    "analytical_time_high_ms",
];

/// A row of a table: what identifies it, and its numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct SheetRow {
    /// Cells of the columns that identify it.
    pub identity: Vec<String>,
    /// What was measured.
    pub measured: Values,
    /// What was estimated.
    pub estimated: Values,
    /// Bounds of the interval of the estimated time in milliseconds.
    pub interval_ms: Option<(f64, f64)>,
}

/// The names of the identifying columns, and the cells of a row in them.
pub fn identity_of(row: &Row, origin: &Origin, label: &str) -> (Vec<String>, Vec<String>) {
    let batch = match &row.workload {
        Workload::Mlp(spec) => Some(spec.batch),
        Workload::Resnet(spec) => Some(spec.batch),
        Workload::File(spec) => Some(spec.batch),
        Workload::Step(_) => None,
    };
    let batch = batch.map(|batch| batch.to_string()).unwrap_or_default();
    let (model, dimensions) = match &row.workload {
        Workload::Mlp(spec) => {
            let hidden: Vec<String> = spec.hidden.iter().map(u64::to_string).collect();
            (
                format!("mlp_{}layer", spec.hidden.len()),
                [spec.input.to_string(), format!("[{}]", hidden.join(", ")), spec.output.to_string()],
            )
        }
        other => (model_name(other).unwrap_or_else(|| label.to_owned()), Default::default()),
    };
    let [input, hidden, output] = dimensions;
    let cells = vec![
        model,
        input,
        hidden,
        output,
        batch,
        origin.kind.clone(),
        row.precision.to_string(),
        row.engine.clone(),
        mode_name(row.mode).to_owned(),
        row.threads.to_string(),
    ];
    (IDENTITY.iter().map(|&name| name.to_owned()).collect(), cells)
}

impl From<&Record> for SheetRow {
    fn from(record: &Record) -> Self {
        SheetRow {
            identity: record.identity.clone(),
            measured: record.measured,
            estimated: record.estimated,
            interval_ms: record.interval_ms,
        }
    }
}

/// A table as CSV. Numbers have the fewest digits that read back to the same value; what is absent
/// is empty.
pub fn to_csv(identity: &[String], rows: &[SheetRow]) -> String {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    let header = identity.iter().map(String::as_str).chain(VALUES);
    let mut write = |record: Vec<String>| {
        // A buffer in memory takes everything, and every row has the header's number of fields.
        writer.write_record(&record).unwrap_or_else(|error| unreachable!("{error}"));
    };
    write(header.map(str::to_owned).collect());
    for row in rows {
        let (measured, estimated) = (&row.measured, &row.estimated);
        let error = |measured: Option<f64>, estimated: Option<f64>| {
            let (measured, estimated) = measured.zip(estimated)?;
            (measured > 0.0).then(|| 100.0 * (estimated - measured).abs() / measured)
        };
        let numbers = [
            measured.time_ms,
            measured.memory_mb,
            measured.flops,
            estimated.time_ms,
            estimated.memory_mb,
            estimated.flops,
            error(measured.time_ms, estimated.time_ms),
            error(measured.memory_mb, estimated.memory_mb),
            error(measured.flops, estimated.flops),
            measured.energy_j,
            estimated.energy_j,
            row.interval_ms.map(|interval| interval.0),
            row.interval_ms.map(|interval| interval.1),
        ];
        let cells = numbers.map(|number| number.map(|number| number.to_string()).unwrap_or_default());
        write(row.identity.iter().cloned().chain(cells).collect());
    }
    let bytes = writer.into_inner().unwrap_or_else(|error| unreachable!("{error}"));
    String::from_utf8_lossy(&bytes).into_owned()
}
