//! Errors of CSV tables.

use std::io;
use std::path::PathBuf;

use flopgap_hint::{ErrorKind, Hint, Text};

/// An error of reading or joining CSV tables.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SheetError {
    /// The file cannot be read.
    #[error("{}: cannot be read", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The underlying I/O error.
        source: io::Error,
    },
    /// The file is empty, or has only a header.
    #[error("{}: {what}", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
        /// `the file is empty`, `no rows below the header`.
        what: &'static str,
    },
    /// The file is not CSV.
    #[error("{}:{line}: not CSV: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong.
        reason: String,
    },
    /// Columns are missing.
    #[error("{}: missing columns: {}; the file has: {}", path.display(), missing.join(", "), found.join(", "))]
    MissingColumns {
        /// The file.
        path: PathBuf,
        /// The missing columns.
        missing: Vec<String>,
        /// The columns of the file.
        found: Vec<String>,
    },
    /// Two columns have the same name.
    #[error("{}: two columns are named `{column}`", path.display())]
    DuplicateColumn {
        /// The file.
        path: PathBuf,
        /// Their name.
        column: String,
    },
    /// A row has more or fewer fields than the header.
    #[error("{}:{line}: {found} fields; the header has {expected}", path.display())]
    Fields {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// Fields of the row.
        found: u64,
        /// Fields of the header.
        expected: u64,
    },
    /// A second header among the rows.
    #[error("{}:{line}: second header: the file holds two tables", path.display())]
    SecondHeader {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
    },
    /// A cell is invalid.
    #[error("{}:{line}: {column} is `{text}`; {expected}", path.display())]
    Cell {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The column.
        column: String,
        /// The cell.
        text: String,
        /// The rule: `a time is a number above 0`.
        expected: &'static str,
    },
    /// The rows are from several devices, and none was chosen.
    #[error("{}: rows from {} devices: {}", path.display(), devices.len(), listed(devices))]
    MixedDevices {
        /// The file.
        path: PathBuf,
        /// The devices and how many rows each has.
        devices: Vec<(String, usize)>,
    },
    /// No row is from the requested device.
    #[error("{}: no rows from device `{device}`; the file has {}", path.display(), listed(devices))]
    NoSuchDevice {
        /// The file.
        path: PathBuf,
        /// The requested device.
        device: String,
        /// The devices and how many rows each has.
        devices: Vec<(String, usize)>,
    },
    /// A row is estimated twice.
    #[error("{}:{line}: estimates the same row as line {first}: {label}", path.display())]
    Duplicate {
        /// The file.
        path: PathBuf,
        /// The second line, from 1.
        line: u64,
        /// The first line, from 1.
        first: u64,
        /// What both estimate.
        label: String,
    },
    /// The tables share no column that identifies a row.
    #[error("{}: none of the columns that identify measurements: {}", path.display(), wanted.join(", "))]
    NothingInCommon {
        /// The file with the estimates.
        path: PathBuf,
        /// The columns of the measurements.
        wanted: Vec<String>,
    },
    /// No measured row has an estimate.
    #[error("{}: no estimate for any of the {rows} measured rows; the first is {first}", path.display())]
    NothingMatches {
        /// The file with the estimates.
        path: PathBuf,
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

impl Hint for SheetError {
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
            Self::SecondHeader { .. } => "pass one file for each sweep",
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
