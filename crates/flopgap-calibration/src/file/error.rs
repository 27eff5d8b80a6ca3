//! Why a calibration file could not be used.

use std::io;
use std::path::PathBuf;

use super::OriginDifference;

/// Why a calibration file could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file holds nothing.
    #[error("{}: the file is empty", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The compressed data is damaged or cut off.
    #[error("{}: cannot be decompressed: {source}", path.display())]
    Compressed {
        /// The file.
        path: PathBuf,
        /// What zstd said.
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
    /// The file was written by a newer program, or by another one.
    #[error(
        "{}: format `{format}` version {version} is not one that this program reads ({}, up to version {})",
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
    /// A number cannot have been measured: a time of zero.
    #[error("{}:{line}: {what} is {value}, which cannot have been measured", path.display())]
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
    /// A row was not written, because one of its numbers cannot have been measured.
    #[error("{}: a row was not written: {what} is {value}, which cannot have been measured", path.display())]
    NotWritten {
        /// The file.
        path: PathBuf,
        /// The field.
        what: &'static str,
        /// Its value.
        value: f64,
    },
    /// Files were joined.
    #[error("{}:{line}: a second header: this is two calibrations in one file", path.display())]
    SecondHeader {
        /// The file.
        path: PathBuf,
        /// The line of the second header, from 1.
        line: usize,
    },
    /// Rows of another machine, or of other software, would be mixed in.
    #[error("{}: measured elsewhere: {difference}", path.display())]
    OtherOrigin {
        /// The file.
        path: PathBuf,
        /// How the origins differ.
        difference: OriginDifference,
    },
    /// A compressed file was to be appended to.
    #[error("{}: is compressed: rows cannot be appended", path.display())]
    Packed {
        /// The file.
        path: PathBuf,
    },
    /// A new file was to be written where there is one.
    #[error("{}: already exists", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// Another process is writing to the file.
    #[error("{}: another process is writing to it", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// The file could not be written.
    #[error(transparent)]
    Write(#[from] flopgap_fs::WriteError),
}

impl FileError {
    /// What the user can do about it, where there is something.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                "`model-calibrate sweep` writes calibration files"
            }
            Self::Compressed { .. } => "copy the complete file again",
            Self::Empty { .. } | Self::NotACalibration { .. } | Self::TooLarge { .. } => {
                "pass a file that `model-calibrate sweep` wrote: calibration.jsonl or .jsonl.zst"
            }
            Self::Version { .. } => "update flopgap, or measure again with `model-calibrate sweep`",
            Self::Row { .. } | Self::Number { .. } => {
                "the file was changed after it was measured: restore it, or delete the line and \
                 measure it again with `model-calibrate sweep --resume`"
            }
            Self::SecondHeader { .. } => "pass one file for each sweep",
            Self::OtherOrigin { .. } => "rows of unlike origins are not mixed: start a new sweep",
            Self::Packed { .. } => "decompress it first with `zstd -d`",
            Self::Exists { .. } => "choose another name, or continue the sweep with --resume",
            Self::Locked { .. } => "wait for the other sweep to end, or choose another folder",
            Self::Write(error) => return error.hint(),
            Self::Io { .. } | Self::NotWritten { .. } => return None,
        })
    }
}

/// The message of a JSON error. The line that serde counts is always the first of one, so only the
/// column is kept.
pub(super) fn in_line(error: &serde_json::Error) -> String {
    error.to_string().replacen(" at line 1 column ", " at column ", 1)
}
