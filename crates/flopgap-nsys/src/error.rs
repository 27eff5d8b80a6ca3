//! Errors of opening and reading traces.

use std::fmt;
use std::io;
use std::path::PathBuf;

use flopgap_files::{ErrorKind, Hint, Text};

use crate::InvalidTime;
use crate::sqlite::Fault;

/// Why a trace could not be opened or read.
///
/// Every variant but [`Error::Output`] names the file; [`Hint::hint`] says what to do about it.
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
    /// Writing to the caller's output failed.
    #[error("the result cannot be written")]
    Output {
        /// The underlying I/O error.
        #[source]
        source: io::Error,
    },
    /// The file has changed since it was opened: another program is writing it.
    #[error("{}: file changed while being read; results may be wrong", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// A recording of nsys that has not been exported.
    #[error("{}: a recording of Nsight Systems, not its SQLite export", path.display())]
    NotExported {
        /// The file.
        path: PathBuf,
    },
    /// A compressed file.
    #[error("{}: compressed with {with}", path.display())]
    Compressed {
        /// The file.
        path: PathBuf,
        /// The program that compresses and decompresses this format.
        with: &'static str,
    },
    /// Not an `SQLite` database.
    #[error("{}: not an SQLite database ({found})", path.display())]
    NotADatabase {
        /// The file.
        path: PathBuf,
        /// What was found instead.
        found: Found,
    },
    /// A pipe or a device, which cannot be read at random.
    #[error("{}: not a regular file", path.display())]
    NotAFile {
        /// What the path refers to.
        path: PathBuf,
    },
    /// The database is shorter than its own header says.
    #[error("{}: truncated: it has {found} of at least {expected} bytes", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Bytes according to its header, or of the header itself.
        expected: u64,
        /// Bytes that are there.
        found: u64,
    },
    /// A rollback journal or write-ahead log is next to the database: it is being written, or its
    /// writer died.
    #[error("{}: the export is being written, or was interrupted: {} exists", path.display(), journal.display())]
    Journal {
        /// The file.
        path: PathBuf,
        /// The side file.
        journal: PathBuf,
    },
    /// Another process holds a lock of `SQLite` for writing.
    #[error("{}: another process is writing it", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// An `SQLite` database that nsys did not export.
    #[error("{}: an SQLite database, but not an export of Nsight Systems", path.display())]
    NotAnExport {
        /// The file.
        path: PathBuf,
    },
    /// The trace has no such table: the data was not recorded, or there was none.
    #[error("{}: does not contain {what} (no table {table})", path.display())]
    NoTable {
        /// The file.
        path: PathBuf,
        /// The table.
        table: &'static str,
        /// What the table would hold.
        what: &'static str,
    },
    /// The table lacks a column without which the answer would be wrong.
    #[error("{}: the table {table} of this export has no column {column}", path.display())]
    NoColumn {
        /// The file.
        path: PathBuf,
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
    },
    /// The rows of a table do not lie in the file as nsys writes them: they have no ids, or columns
    /// that are computed or have defaults.
    #[error("{}: the table {table} is not stored as nsys stores it", path.display())]
    NotPlain {
        /// The file.
        path: PathBuf,
        /// The table.
        table: String,
    },
    /// No NVTX range has this name.
    #[error("{}: no NVTX range is called `{range}`", path.display())]
    NoRange {
        /// The file.
        path: PathBuf,
        /// The name.
        range: String,
    },
    /// An NVTX range has fewer instances than the requested one.
    #[error("{}: the NVTX range `{range}` has {instances} instances, counted from 0, but no instance {index}", path.display())]
    NoInstance {
        /// The file.
        path: PathBuf,
        /// The name.
        range: String,
        /// The requested instance.
        index: usize,
        /// How many there are.
        instances: usize,
    },
    /// The time to look at leaves nothing.
    #[error("{}: the filter leaves no time", path.display())]
    Filter {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: InvalidTime,
    },
    /// The export does not say when its recording began, so that its clock cannot be put together
    /// with that of another.
    #[error("{}: does not say when its recording began", path.display())]
    NoStartTime {
        /// The file.
        path: PathBuf,
    },
    /// Two exports have GPU work of processes of one number, by which ranks are distinguished.
    #[error("{} and {} are both of {}", path.display(), other.display(), process(*pid))]
    SameProcess {
        /// The file.
        path: PathBuf,
        /// The other file.
        other: PathBuf,
        /// The process id; absent where neither export says it.
        pid: Option<i64>,
    },
    /// More exports than can be one job.
    #[error("{}: more than {most} exports", path.display())]
    TooMany {
        /// The first that is too many.
        path: PathBuf,
        /// How many may be one job.
        most: usize,
    },
    /// A page of the database is not what its format allows.
    #[error("{}: damaged: page {page} of the table {table} {damage}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The table that was read.
        table: String,
        /// The number of the page, counted from 1.
        page: u32,
        /// What is wrong with it.
        damage: crate::sqlite::Damage,
    },
    /// Reading the pages of the database failed for another reason.
    #[error(transparent)]
    Pages(crate::sqlite::Error),
}

/// How a process is named.
fn process(pid: Option<i64>) -> String {
    pid.map_or("a process without a number".to_owned(), |pid| format!("process {pid}"))
}

impl Error {
    /// The error that reading the pages of a table ended with.
    pub(crate) fn of_pages(error: crate::sqlite::Error, table: &str) -> Error {
        let path = error.path;
        match error.what {
            Fault::Io(source) => Error::Io { path, source },
            Fault::Damaged { page, damage } => Error::Damaged { path, table: table.to_owned(), page, damage },
            what => Error::Pages(crate::sqlite::Error::new(path, what)),
        }
    }

    /// Whether a whole table is absent, so that the trace has no such data.
    pub(crate) fn is_no_table(&self) -> bool {
        matches!(self, Error::NoTable { .. })
    }
}

impl Hint for Error {
    fn hint(&self) -> Option<Text<'_>> {
        let hint = match self {
            Error::NotADatabase { found: Found::ComputeReport, .. }
            | Error::Io { .. }
            | Error::Output { .. }
            | Error::NoRange { .. }
            | Error::NoInstance { .. }
            | Error::Filter { .. }
            | Error::NoStartTime { .. }
            | Error::SameProcess { .. }
            | Error::TooMany { .. } => return None,
            Error::NotExported { .. } => {
                "export it first: `nsys export --type sqlite --output TRACE.sqlite TRACE.nsys-rep`"
            }
            Error::NotADatabase { .. } | Error::NotAnExport { .. } => {
                "give the .sqlite file that `nsys export --type sqlite` or `nsys profile --export sqlite` wrote"
            }
            Error::NotAFile { .. } => "write the trace to a file and give that file",
            Error::Compressed { .. } => "decompress it first: `zstd -d FILE` or `gunzip FILE`",
            Error::Truncated { .. } => "export the trace again, or copy the complete file again",
            Error::Journal { .. } => {
                "wait for the program that writes it, or open it once with `sqlite3` to recover it, then read it \
                 again"
            }
            Error::NotPlain { .. } | Error::Damaged { .. } | Error::Pages(_) => "export the trace again",
            Error::NoTable { .. } => {
                "profile with this kind of tracing on, such as `nsys profile -t cuda,nvtx,osrt`"
            }
            Error::NoColumn { .. } => "export the trace again with a newer nsys",
            Error::Changed { .. } | Error::Locked { .. } => {
                "wait for the program that writes it, then read it again"
            }
        };
        Some(hint.into())
    }

    fn kind(&self) -> ErrorKind {
        match self {
            Error::NoTable { .. }
            | Error::NoColumn { .. }
            | Error::NoRange { .. }
            | Error::NoInstance { .. } => ErrorKind::Absent,
            _ => ErrorKind::Failed,
        }
    }
}

/// The kind of a file that is not an `SQLite` database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Found {
    /// It has no bytes.
    Empty,
    /// It begins with zeros alone: the export was interrupted.
    Zeros,
    /// A report of Nsight Compute.
    ComputeReport,
    /// Something else.
    Other,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Found::Empty => "the file is empty",
            Found::Zeros => "its header is all zeros: the export was interrupted",
            Found::ComputeReport => "a report of Nsight Compute",
            Found::Other => "no SQLite header",
        })
    }
}

/// The rows of a table; `None` when the export does not have the table.
pub(crate) fn if_recorded<T>(read: Result<T, Error>) -> Result<Option<T>, Error> {
    match read {
        Err(error) if error.is_no_table() => Ok(None),
        read => read.map(Some),
    }
}
