//! Errors of calibration files.

use std::io;

use flopgap_files::run::FormatFault;
use flopgap_files::{Action, ErrorKind, Hint, InFile, Text, WriteError};

use super::OriginDifference;

/// An error of reading or writing a calibration file: where, and the fault.
pub type FileError = InFile<FileFault>;

/// What is wrong with a calibration file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileFault {
    /// The file cannot be read.
    #[error("cannot be read")]
    Io {
        /// The underlying I/O error.
        source: io::Error,
    },
    /// The file is empty.
    #[error("file is empty")]
    Empty,
    /// The compressed data is damaged or truncated.
    #[error("cannot be decompressed")]
    Compressed {
        /// The error from zstd.
        source: io::Error,
    },
    /// The decompressed file is too large to be a calibration.
    #[error("decompresses to more than {largest} bytes")]
    TooLarge {
        /// Bytes allowed.
        largest: u64,
    },
    /// The first line is not a header.
    #[error("not a calibration: {reason}")]
    NotACalibration {
        /// What is wrong.
        reason: String,
    },
    /// The file was written by another version, or by another program.
    #[error(transparent)]
    Format(FormatFault),
    /// A line is not a row.
    #[error("not a row: {reason}")]
    Row {
        /// What is wrong, with the column.
        reason: String,
    },
    /// A number is impossible, such as a time of zero.
    #[error("{what} is {value}, which is impossible")]
    Number {
        /// The field.
        what: String,
        /// Its value.
        value: f64,
    },
    /// A row was not written, because one of its numbers is impossible.
    #[error("row not written: {what} is {value}, which is impossible")]
    NotWritten {
        /// The field.
        what: &'static str,
        /// Its value.
        value: f64,
    },
    /// The file holds several calibrations.
    #[error("second header: the file holds two calibrations")]
    SecondHeader,
    /// The rows are from another machine, or other software.
    #[error("measured on another machine or with other software: {difference}")]
    OtherOrigin {
        /// How the origins differ.
        difference: OriginDifference,
    },
    /// Rows cannot be appended to a compressed file.
    #[error("cannot append rows to a compressed file")]
    Packed,
    /// The file to create already exists.
    #[error("already exists")]
    Exists,
    /// The file could not be written.
    #[error("cannot {action}")]
    Write {
        /// The attempted action.
        action: Action,
        /// The underlying I/O error.
        source: io::Error,
        /// What to do about it.
        hint: Option<String>,
    },
}

impl Hint for FileFault {
    fn hint(&self) -> Option<Text<'_>> {
        let hint = match self {
            Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                "`flopgap calibrate sweep` writes calibration files"
            }
            Self::Compressed { .. } => "copy the complete file again",
            Self::Empty | Self::NotACalibration { .. } | Self::TooLarge { .. } => {
                "pass a file that `flopgap calibrate sweep` wrote: calibration.jsonl or calibration.jsonl.zst"
            }
            Self::Format(_) => "update flopgap, or measure again with `flopgap calibrate sweep`",
            Self::Row { .. } | Self::Number { .. } => {
                "restore the file, or delete the line and resume the sweep to measure it again"
            }
            Self::SecondHeader => "pass one file for each sweep",
            Self::OtherOrigin { .. } => "start a new sweep for this machine and software",
            Self::Packed => "decompress it first with `zstd -d`",
            Self::Exists => "choose another name, or resume the sweep",
            Self::Write { hint, .. } => return hint.as_deref().map(Into::into),
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
pub(super) fn in_line(message: &str) -> String {
    message.replacen(" at line 1 column ", " at column ", 1)
}

/// The error of a file that could not be written.
pub(super) fn not_written(error: WriteError) -> FileError {
    let hint = error.hint().map(Text::into_owned);
    InFile::new(error.path, FileFault::Write { action: error.action, source: error.source, hint })
}
