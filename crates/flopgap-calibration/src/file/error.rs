//! Errors of calibration files.

use std::io;
use std::path::PathBuf;

use flopgap_hint::{ErrorKind, Hint, Text};

use super::OriginDifference;

/// An error of reading or writing a calibration file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file cannot be read.
    #[error("{}: cannot be read", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The underlying I/O error.
        source: io::Error,
    },
    /// The file is empty.
    #[error("{}: file is empty", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The compressed data is damaged or truncated.
    #[error("{}: cannot be decompressed", path.display())]
    Compressed {
        /// The file.
        path: PathBuf,
        /// The error from zstd.
        source: io::Error,
    },
    /// The decompressed file is too large to be a calibration.
    #[error("{}: decompresses to more than {largest} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Bytes allowed.
        largest: u64,
    },
    /// The first line is not a header.
    #[error("{}: not a calibration: {reason}", path.display())]
    NotACalibration {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The file was written by a newer version, or by another program.
    #[error(
        "{}: unsupported format `{format}` version {version}; supported: {} up to version {}",
        path.display(), super::FORMAT, super::VERSION
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its `format`.
        format: String,
        /// Its `version`.
        version: u32,
    },
    /// A line is not a row.
    #[error("{}:{line}: not a row: {reason}", path.display())]
    Row {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong, with the column.
        reason: String,
    },
    /// A number is impossible, such as a time of zero.
    #[error("{}:{line}: {what} is {value}, which is impossible", path.display())]
    Number {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The field.
        what: String,
        /// Its value.
        value: f64,
    },
    /// A row was not written, because one of its numbers is impossible.
    #[error("{}: row not written: {what} is {value}, which is impossible", path.display())]
    NotWritten {
        /// The file.
        path: PathBuf,
        /// The field.
        what: &'static str,
        /// Its value.
        value: f64,
    },
    /// The file holds several calibrations.
    #[error("{}:{line}: second header: the file holds two calibrations", path.display())]
    SecondHeader {
        /// The file.
        path: PathBuf,
        /// The line of the second header, from 1.
        line: usize,
    },
    /// The rows are from another machine, or other software.
    #[error("{}: measured on another machine or with other software: {difference}", path.display())]
    OtherOrigin {
        /// The file.
        path: PathBuf,
        /// How the origins differ.
        difference: OriginDifference,
    },
    /// Rows cannot be appended to a compressed file.
    #[error("{}: cannot append rows to a compressed file", path.display())]
    Packed {
        /// The file.
        path: PathBuf,
    },
    /// The file to create already exists.
    #[error("{}: already exists", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// Another process is writing to the file.
    #[error("{}: another process is writing to the file", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// The file could not be written.
    #[error(transparent)]
    Write(#[from] flopgap_fs::WriteError),
}

impl Hint for FileError {
    fn hint(&self) -> Option<Text<'_>> {
        let hint = match self {
            Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                "`flopgap calibrate sweep` writes calibration files"
            }
            Self::Compressed { .. } => "copy the complete file again",
            Self::Empty { .. } | Self::NotACalibration { .. } | Self::TooLarge { .. } => {
                "pass a file that `flopgap calibrate sweep` wrote: calibration.jsonl or calibration.jsonl.zst"
            }
            Self::Version { .. } => "update flopgap, or measure again with `flopgap calibrate sweep`",
            Self::Row { .. } | Self::Number { .. } => {
                "restore the file, or delete the line and resume the sweep to measure it again"
            }
            Self::SecondHeader { .. } => "pass one file for each sweep",
            Self::OtherOrigin { .. } => "start a new sweep for this machine and software",
            Self::Packed { .. } => "decompress it first with `zstd -d`",
            Self::Exists { .. } => "choose another name, or resume the sweep",
            Self::Locked { .. } => "wait for the other sweep to end, or choose another directory",
            Self::Write(error) => return error.hint(),
            Self::Io { .. } | Self::NotWritten { .. } => return None,
        };
        Some(hint.into())
    }

    fn kind(&self) -> ErrorKind {
        match self {
            Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => ErrorKind::Absent,
            _ => ErrorKind::Failed,
        }
    }
}

/// The message of a JSON error. The line that serde counts is always the first of one, so only the
/// column is kept.
pub(super) fn in_line(error: &serde_json::Error) -> String {
    error.to_string().replacen(" at line 1 column ", " at column ", 1)
}
