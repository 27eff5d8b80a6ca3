//! Errors of opening and reading tables.

use std::io;
use std::path::PathBuf;

#[cfg(feature = "tables")]
use arrow_schema::ArrowError;
use flopgap_files::{ErrorKind, Hint, InFile, Text};
use flopgap_phases::sweep::{RecordError, RunError, RunFault};

/// An error of opening a source or reading one of its tables.
///
/// Every variant names the file; [`Hint::hint`] says what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be opened or read.
    #[error("{}: cannot be read", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The underlying I/O error.
        #[source]
        source: io::Error,
    },
    /// A compressed database could not be unpacked into the directory of temporary files.
    #[error("{}: cannot be unpacked in {}: {reason}", path.display(), std::env::temp_dir().display())]
    Unpack {
        /// The file.
        path: PathBuf,
        /// What is wrong with the file, or with that directory.
        reason: io::Error,
    },
    /// The file has no format that this crate reads.
    #[error("{}: no report, trace or run that can be read as tables ({what})", path.display())]
    Unrecognized {
        /// The file.
        path: PathBuf,
        /// What was found instead.
        what: String,
    },
    /// The source has no table of this name.
    #[error("{}: {kind} has no table `{table}`", path.display())]
    NoSuchTable {
        /// The file.
        path: PathBuf,
        /// What the file is.
        kind: &'static str,
        /// The requested name.
        table: String,
        /// The names that exist, as text.
        tables: String,
    },
    /// The table has no column of this name.
    #[error("{}: the table `{table}` has no column `{column}`", path.display())]
    NoSuchColumn {
        /// The file.
        path: PathBuf,
        /// The table.
        table: String,
        /// The requested name.
        column: String,
        /// The names that exist, as text.
        columns: String,
    },
    /// A run whose launches are in reports of Nsight Compute.
    #[error("{}: its launches are in reports of Nsight Compute, not in records", path.display())]
    NoRecords {
        /// The run directory.
        path: PathBuf,
    },
    /// A report of Nsight Compute could not be read.
    #[error(transparent)]
    Ncu(#[from] flopgap_ncu::Error),
    /// A trace of Nsight Systems could not be read.
    #[error(transparent)]
    Nsys(#[from] flopgap_nsys::Error),
    /// A trace of `torch.profiler` could not be read.
    #[error(transparent)]
    Kineto(#[from] flopgap_kineto::Error),
    /// A run directory could not be read.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A record of a run could not be read.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A calibration could not be read.
    #[cfg(feature = "calibration")]
    #[error(transparent)]
    Calibration(#[from] flopgap_calibration::FileError),
    /// A JSON document is not what `mlp-bench` prints.
    #[error("{}: not results of flopgap bench", path.display())]
    Bench {
        /// The file.
        path: PathBuf,
        /// What is wrong, with line and column.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Counts of a run overflow.
    #[error("{}: counts do not fit", path.display())]
    Flops {
        /// The run directory.
        path: PathBuf,
        /// Which quantity.
        #[source]
        source: flopgap_flops::FlopError,
    },
    /// A file could not be written.
    #[error(transparent)]
    Write(#[from] flopgap_files::WriteError),
    /// What a table was written to failed.
    #[error("the table cannot be written")]
    Output {
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A table has columns that Parquet cannot hold.
    #[error("{}: the table `{table}` cannot be written as Parquet", path.display())]
    NotWritten {
        /// The file to write.
        path: PathBuf,
        /// The table.
        table: String,
        /// The reason.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A Parquet file is cut off or damaged, or is none.
    #[error("{}: Parquet file is incomplete or damaged", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// Where it is damaged.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A Parquet file of another program.
    #[error("{}: Parquet file was not written by flopgap: its metadata has no `flopgap.format`", path.display())]
    ForeignParquet {
        /// The file.
        path: PathBuf,
    },
    /// A Parquet file of a newer version of flopgap.
    #[error("{}: Parquet file has version {version} of flopgap's format; supported: {supported}", path.display())]
    NewerParquet {
        /// The file.
        path: PathBuf,
        /// Its `flopgap.version`.
        version: String,
        /// The newest version that this build reads.
        supported: u32,
    },
    /// The columns do not form a table, for example because their text exceeds what Arrow's arrays
    /// hold.
    #[cfg(feature = "tables")]
    #[error("{}: the table `{table}` cannot be made", path.display())]
    Arrow {
        /// The file.
        path: PathBuf,
        /// The table.
        table: String,
        /// The underlying Arrow error.
        #[source]
        source: ArrowError,
    },
}

impl Hint for Error {
    fn hint(&self) -> Option<Text<'_>> {
        match self {
            Error::Unrecognized { .. } => Some(
                "give a report of Nsight Compute (.ncu-rep, or what `ncu --csv` printed), an export of Nsight Systems (.sqlite), \
                 a trace of torch.profiler (.json), results of flopgap bench (.json), each also as .gz or .zst, a calibration (.jsonl), \
                 a run directory of flopgap profile, or a Parquet file of flopgap"
                    .into(),
            ),
            Error::NoSuchTable { tables, .. } => Some(format!("it has {tables}").into()),
            Error::NoSuchColumn { columns, .. } => Some(format!("it has {columns}").into()),
            Error::NoRecords { .. } => Some("read the reports in its directory raw/ themselves".into()),
            Error::Ncu(error) => error.hint(),
            Error::Nsys(error) => error.hint(),
            Error::Kineto(error) => error.hint(),
            Error::Run(error) => error.hint(),
            Error::Record(error) => error.hint(),
            #[cfg(feature = "calibration")]
            Error::Calibration(error) => error.hint(),
            Error::Bench { .. } => Some("give the complete document that `flopgap bench --format json` printed".into()),
            Error::Flops { source, .. } => source.hint(),
            Error::Io { source, .. } => {
                (source.kind() == io::ErrorKind::FileTooLarge).then(|| flopgap_files::unpack::HINT.into())
            }
            Error::Unpack { reason, .. } => Some(match reason.kind() {
                io::ErrorKind::FileTooLarge => flopgap_files::unpack::HINT.into(),
                io::ErrorKind::StorageFull => "set TMPDIR to a directory with more space".into(),
                _ => "decompress the file yourself and pass the result".into(),
            }),
            Error::Write(error) => error.hint(),
            Error::Parquet { .. } => Some("copy the complete file again, or write it again from its source".into()),
            Error::ForeignParquet { .. } => {
                Some("read it with Polars, DuckDB or pyarrow, or pass the report, trace or run itself".into())
            }
            Error::NewerParquet { .. } => Some("update flopgap, or write the file again from its source".into()),
            #[cfg(feature = "tables")]
            Error::Arrow { .. } => None,
            Error::NotWritten { .. } | Error::Output { .. } => None,
        }
    }

    fn kind(&self) -> ErrorKind {
        match self {
            Error::NoSuchTable { .. } | Error::NoSuchColumn { .. } | Error::NoRecords { .. } => {
                ErrorKind::Absent
            }
            Error::Nsys(error) => error.kind(),
            _ => ErrorKind::Failed,
        }
    }
}

impl Error {
    /// Whether there is no such file or directory.
    pub fn is_not_found(&self) -> bool {
        let (Error::Io { source, .. }
        | Error::Ncu(flopgap_ncu::Error { what: flopgap_ncu::Fault::Io { source }, .. })
        | Error::Nsys(flopgap_nsys::Error::Io { source, .. })
        | Error::Kineto(flopgap_kineto::Error::Io { source, .. })
        | Error::Run(RunError::Run(InFile { what: RunFault::Io { source }, .. }))) = self
        else {
            return false;
        };
        source.kind() == io::ErrorKind::NotFound
    }
}

/// Readers of Arrow have Arrow's errors, so they get the message with its hint.
#[cfg(feature = "tables")]
impl From<Error> for ArrowError {
    fn from(error: Error) -> ArrowError {
        ArrowError::ExternalError(Box::new(error))
    }
}
