//! CSV tables of measurements and estimates, of this and of other estimators.
//!
//! Columns that begin with `empirical_` are measured and those that begin with `analytical_`
//! estimated; columns that end with `_error_pct` compare the two. All others say what was run and
//! identify a row: `model`, `input_dim`, `hidden_dims`, `output_dim`, `batch_size`, `device`,
//! `precision`, or whatever else a sweep varies. So tables of convolutions and of products are read
//! as well as those of MLPs.
//!
//! Times are milliseconds, memory is megabytes (10⁶ bytes), energy joules.

mod cells;
mod error;
mod join;
mod read;
mod rows;
mod warning;
mod workload;
mod write;

use flopgap_graph::Workload;

pub use cells::Role;
pub use error::{SheetError, SheetFault};
pub use join::join;
pub use read::{parse, read};
pub use warning::SheetWarning;
pub use write::{SheetRow, identity_of, to_csv};

/// A table.
#[derive(Debug, Clone, PartialEq)]
pub struct Sheet {
    /// Names of the columns that identify a row.
    pub identity: Vec<String>,
    /// The rows.
    pub records: Vec<Record>,
    /// What was left out, and what contradicts itself.
    pub warnings: Vec<SheetWarning>,
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The line of the file that it begins in, from 1.
    pub line: u64,
    /// The workload, if the columns identify it: an MLP, a product, a convolution.
    pub identity: Vec<String>,
    /// What was run, where the columns tell: an MLP, a product, a convolution.
    pub workload: Option<Workload>,
    /// `cpu`, `cuda`, or a name.
    pub device: Option<String>,
    /// The measurements.
    pub precision: Option<String>,
    /// The estimates.
    pub batch: Option<u64>,
    /// What was measured.
    pub measured: Values,
    /// What was estimated.
    pub estimated: Values,
    /// The limiting factor according to the estimator: `compute`, `memory`.
    pub interval_ms: Option<(f64, f64)>,
    /// FLOPs per byte according to the estimator.
    pub bottleneck: Option<String>,
    /// FLOPs for each byte, as the estimator says.
    pub intensity: Option<f64>,
}

/// The numbers of one side of a row. What is not in the table is absent.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Values {
    /// Milliseconds of a run.
    pub time_ms: Option<f64>,
    /// Megabytes in use.
    pub memory_mb: Option<f64>,
    /// FLOPs of a run.
    pub flops: Option<f64>,
    /// Joules of a run.
    pub energy_j: Option<f64>,
}

impl Sheet {
    /// The devices in the table with how many rows each has, by name.
    pub fn devices(&self) -> Vec<(String, usize)> {
        let mut devices = std::collections::BTreeMap::new();
        for record in &self.records {
            *devices.entry(record.device.clone().unwrap_or_default()).or_insert(0) += 1;
        }
        devices.into_iter().collect()
    }
}

impl Record {
    /// A short name: the cells that identify the row, without empty ones.
    pub fn label(&self) -> String {
        let cells = self.identity.iter().filter(|cell| !cell.is_empty());
        cells.map(String::as_str).collect::<Vec<_>>().join(" ")
    }
}

/// The rows of a table as measured rows of one origin, and why others are left out: their columns
/// do not describe the workload, or name an unknown precision or mode. A table has no interval of
/// a time, so the interval is the time itself; where it has no column `mode`, a GPU's rows count
/// as launched on a stream.
pub fn to_rows(sheet: &Sheet) -> (crate::row::Origin, Vec<crate::row::Row>, Vec<SheetWarning>) {
    rows::of_sheet(sheet)
}
