//! Errors of CSV tables.

use std::io;

use flopgap_files::{ErrorKind, Hint, InFile, Text};

/// An error of reading or joining CSV tables: where, and the fault.
pub type SheetError = InFile<SheetFault>;

/// What is wrong with a CSV table.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SheetFault {
    /// The file cannot be read.
    #[error("cannot be read")]
    Io {
        /// The underlying I/O error.
        source: io::Error,
    },
    /// The file is empty, or has only a header.
    #[error("{what}")]
    Empty {
        /// `the file is empty`, `no rows below the header`.
        what: &'static str,
    },
    /// The file is not CSV.
    #[error("not CSV: {reason}")]
    Malformed {
        /// What is wrong.
        reason: String,
    },
    /// Columns are missing.
    #[error("missing columns: {}; the file has: {}", missing.join(", "), found.join(", "))]
    MissingColumns {
        /// The missing columns.
        missing: Vec<String>,
        /// The columns of the file.
        found: Vec<String>,
    },
    /// Two columns have the same name.
    #[error("two columns are named `{column}`")]
    DuplicateColumn {
        /// Their name.
        column: String,
    },
    /// A row has more or fewer fields than the header.
    #[error("{found} fields; the header has {expected}")]
    Fields {
        /// Fields of the row.
        found: u64,
        /// Fields of the header.
        expected: u64,
    },
    /// A second header among the rows.
    #[error("second header: the file holds two tables")]
    SecondHeader,
    /// A cell is invalid.
    #[error("{column} is `{text}`; {expected}")]
    Cell {
        /// The column.
        column: String,
        /// The cell.
        text: String,
        /// The rule: `a time is a number above 0`.
        expected: &'static str,
    },
    /// The rows are from several devices, and none was chosen.
    #[error("rows from {} devices: {}", devices.len(), listed(devices))]
    MixedDevices {
        /// The devices and how many rows each has.
        devices: Vec<(String, usize)>,
    },
    /// No row is from the requested device.
    #[error("no rows from device `{device}`; the file has {}", listed(devices))]
    NoSuchDevice {
        /// The requested device.
        device: String,
        /// The devices and how many rows each has.
        devices: Vec<(String, usize)>,
    },
    /// A row is estimated twice.
    #[error("estimates the same row as line {first}: {label}")]
    Duplicate {
        /// The first line, from 1.
        first: u64,
        /// What both estimate.
        label: String,
    },
    /// The tables share no column that identifies a row.
    #[error("none of the columns that identify measurements: {}", columns.join(", "))]
    NothingInCommon {
        /// The columns of the measurements.
        columns: Vec<String>,
    },
    /// No measured row has an estimate.
    #[error("no estimate for any of the {rows} measured rows; the first is {first}")]
    NothingMatches {
        /// Measured rows.
        rows: usize,
        /// The first of them.
        first: String,
    },
}

fn listed(devices: &[(String, usize)]) -> String {
    let one = |(name, rows): &(String, usize)| match name.as_str() {
        "" => format!("unnamed ({rows} rows)"),
        name => format!("{name} ({rows} rows)"),
    };
    devices.iter().map(one).collect::<Vec<_>>().join(", ")
}

impl Hint for SheetFault {
    fn hint(&self) -> Option<Text<'_>> {
        let hint = match self {
            Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                "pass a CSV table, or a calibration file that `flopgap calibrate sweep` wrote"
            }
            Self::Io { .. } | Self::MixedDevices { .. } | Self::NoSuchDevice { .. } => return None,
            Self::Empty { .. } => "pass a table with a header and at least one row",
            Self::Malformed { .. } => "pass a CSV table in UTF-8, or a calibration file",
            Self::MissingColumns { missing, .. }
                if missing.iter().any(|name| name.starts_with("analytical_")) =>
            {
                "pass the estimates as a second table, or a table that has both"
            }
            Self::MissingColumns { .. } => {
                "a table needs batch_size, device, precision, empirical_time_ms, the columns that identify a row \
                 (model, input_dim, hidden_dims, output_dim), and estimates as analytical_time_ms"
            }
            Self::DuplicateColumn { .. } => "rename or remove one of them",
            Self::Fields { .. } => "quote cells that contain a comma: \"[512, 512]\"",
            Self::SecondHeader => "pass one file for each sweep",
            Self::Cell { .. } => "correct the cell, or remove rows that were not measured",
            Self::Duplicate { .. } => "keep one estimate for each row",
            Self::NothingInCommon { .. } | Self::NothingMatches { .. } => {
                "identify rows by the same columns and the same names in both tables"
            }
        };
        Some(hint.into())
    }

    fn kind(&self) -> ErrorKind {
        match self {
            Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => ErrorKind::Absent,
            Self::NoSuchDevice { .. } | Self::NothingMatches { .. } => ErrorKind::Absent,
            _ => ErrorKind::Failed,
        }
    }
}
