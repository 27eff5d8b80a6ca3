//! Why a table cannot be used.

use std::io;
use std::path::PathBuf;

/// Why a CSV table cannot be read or joined.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SheetError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file holds nothing, or a header alone.
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
    #[error("{}: missing columns: {}; the file has {}", path.display(), missing.join(", "), found.join(", "))]
    MissingColumns {
        /// The file.
        path: PathBuf,
        /// Those that are needed.
        missing: Vec<String>,
        /// Those that there are.
        found: Vec<String>,
    },
    /// Two columns have one name.
    #[error("{}: two columns are called `{column}`", path.display())]
    DuplicateColumn {
        /// The file.
        path: PathBuf,
        /// Their name.
        column: String,
    },
    /// A row has more or fewer fields than the header.
    #[error("{}:{line}: {found} fields, but the header has {expected}", path.display())]
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
    /// A header in the midst of rows: files were joined.
    #[error("{}:{line}: a second header: this is two tables in one file", path.display())]
    SecondHeader {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
    },
    /// A cell is not what its column holds.
    #[error("{}:{line}: {column} is `{text}`; {expected}", path.display())]
    Cell {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The column.
        column: String,
        /// What it says.
        text: String,
        /// What it should be: `a time is a number above 0`.
        expected: &'static str,
    },
    /// Rows of several devices, of which none was chosen.
    #[error("{}: rows of {} devices are mixed: {}", path.display(), devices.len(), listed(devices))]
    MixedDevices {
        /// The file.
        path: PathBuf,
        /// The devices and how many rows each has.
        devices: Vec<(String, usize)>,
    },
    /// No row of the device that was asked for.
    #[error("{}: no rows of device `{device}`; the file has {}", path.display(), listed(devices))]
    NoSuchDevice {
        /// The file.
        path: PathBuf,
        /// The one asked for.
        device: String,
        /// The devices and how many rows each has.
        devices: Vec<(String, usize)>,
    },
    /// An estimator has two answers.
    #[error("{}:{line}: estimates the same as line {first}: {label}", path.display())]
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
    /// The tables have no column in common that says what was run.
    #[error("{}: has none of the columns that identify measurements: {}", path.display(), wanted.join(", "))]
    NothingInCommon {
        /// The file with the estimates.
        path: PathBuf,
        /// The columns of the measurements.
        wanted: Vec<String>,
    },
    /// No measured row has an estimate.
    #[error("{}: estimates none of the {rows} measured rows; the first is {first}", path.display())]
    NothingMatches {
        /// The file with the estimates.
        path: PathBuf,
        /// Measured rows.
        rows: usize,
        /// What the first of them is.
        first: String,
    },
}

fn listed(devices: &[(String, usize)]) -> String {
    let one = |(name, rows): &(String, usize)| match name.as_str() {
        "" => format!("none named ({rows} rows)"),
        name => format!("{name} ({rows} rows)"),
    };
    devices.iter().map(one).collect::<Vec<_>>().join(", ")
}

impl SheetError {
    /// What the user can do about it, where there is something.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                "pass a calibration file or a CSV table; `model-calibrate sweep` makes the first"
            }
            Self::Io { .. } => return None,
            Self::Empty { .. } => "pass a table with a header and at least one row",
            Self::Malformed { .. } => "pass a CSV table in UTF-8, or a calibration file",
            Self::MissingColumns { missing, .. }
                if missing.iter().any(|name| name.starts_with("analytical_")) =>
            {
                "pass the estimates with --analytical FILE, or a table that has both"
            }
            Self::MissingColumns { .. } => {
                "a table has batch_size, device, precision, empirical_time_ms, what identifies a row \
                 (model, input_dim, hidden_dims, output_dim), and estimates as analytical_time_ms"
            }
            Self::DuplicateColumn { .. } => "rename or remove one of them",
            Self::Fields { .. } => "put cells that contain a comma into quotes: \"[512, 512]\"",
            Self::SecondHeader { .. } => "pass one file for each sweep",
            Self::Cell { .. } => "correct the cell; leave out rows that were not measured",
            Self::MixedDevices { .. } | Self::NoSuchDevice { .. } => "choose one with --device NAME",
            Self::Duplicate { .. } => "keep one estimate for each row",
            Self::NothingInCommon { .. } | Self::NothingMatches { .. } => {
                "the two tables must name what was run in the same way, in the same columns"
            }
        })
    }

    /// Whether what was asked for is not in the file, rather than the file being wrong.
    pub fn is_absence(&self) -> bool {
        matches!(self, Self::NoSuchDevice { .. } | Self::NothingMatches { .. })
    }
}
