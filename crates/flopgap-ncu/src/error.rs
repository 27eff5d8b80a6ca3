//! Errors of reading reports.

use std::io;

use flopgap_files::{ErrorKind, Hint, InFile, Text};

use crate::{FormatFault, NumberFormat};

/// Why a report could not be read, or would have given a wrong number: where, and the fault.
pub type Error = InFile<Fault>;

/// What is wrong with a report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The file could not be opened or read.
    #[error("cannot be read")]
    Io {
        /// The underlying I/O or decompression error.
        #[source]
        source: io::Error,
    },
    /// There is no Nsight Compute table in it.
    #[error("no Nsight Compute table found: {found}")]
    NotAReport {
        /// What was found instead.
        found: Found,
    },
    /// ncu lacked the permission to read hardware counters (`ERR_NVGPUCTRPERM`).
    #[error("ncu was not permitted to read the GPU's performance counters (ERR_NVGPUCTRPERM)")]
    CounterPermission,
    /// ncu ran but profiled no kernel.
    #[error("ncu profiled no kernel")]
    NoKernels,
    /// ncu or the program under it failed before anything was printed.
    #[error("ncu reported an error: {message}")]
    ProfilerFailed {
        /// ncu's message.
        message: String,
    },
    /// The file does not show whether `,` or `.` separates decimals, and the two readings differ by
    /// 1000.
    #[error("`{value}` may be a whole number or have decimals, and no other value of the file decides which")]
    UndecidableNumber {
        /// The value as printed.
        value: String,
    },
    /// Two values of one file can only be read with different decimal separators.
    #[error("`{value}` contradicts line {decided_at}, according to which {format} separates decimals")]
    ContradictoryNumber {
        /// The value as printed.
        value: String,
        /// The line that fixed the format.
        decided_at: u64,
        /// The format that was fixed there.
        format: NumberFormat,
    },
    /// The bytes of a `.ncu-rep` do not follow its format.
    #[error("damaged .ncu-rep at byte {offset}: {fault}")]
    DamagedReport {
        /// Where.
        offset: u64,
        /// What is wrong there.
        fault: FormatFault,
    },
}

/// The content of a file without a table of Nsight Compute.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Found {
    /// Nothing.
    #[error("file is empty")]
    Empty,
    /// An `SQLite` database, such as an export of Nsight Systems.
    #[error("file is an SQLite database")]
    Sqlite,
    /// JSON.
    #[error("file is JSON")]
    Json,
    /// ncu's source page, which has instructions and no launches.
    #[error("file is ncu's source page, which has instructions and no launches")]
    SourcePage,
    /// ncu's human-readable output.
    #[error("file is ncu's text output")]
    TextOutput,
    /// ncu's message that the results are in an `.ncu-rep`.
    #[error("ncu wrote the results to an .ncu-rep instead")]
    WrittenElsewhere,
    /// A table whose fields are not separated by commas.
    #[error("fields are not separated by commas")]
    OtherSeparator,
    /// A table of ncu that lacks a column.
    #[error("its table has no column `{column}`")]
    NoColumn {
        /// The column.
        column: &'static str,
    },
    /// Something compressed more often than once or twice.
    #[error("file is compressed more than twice")]
    Nested,
    /// Text that is none of these.
    #[error("first line is {text:?}")]
    Line {
        /// Its first line, shortened.
        text: String,
    },
}

impl Hint for Fault {
    fn hint(&self) -> Option<Text<'_>> {
        let hint = match self {
            Fault::CounterPermission => {
                "run ncu as root (or with CAP_SYS_ADMIN), or load the nvidia module with \
                 NVreg_RestrictProfilingToAdminUsers=0, then profile again"
            }
            Fault::NoKernels => {
                "check that the program launches kernels in this process (`ncu --target-processes all` \
                 follows children) and that no -k or --nvtx-include filter excludes them"
            }
            Fault::ProfilerFailed { .. } => {
                "run the program without ncu first, then profile again and keep ncu's output with \
                 `ncu --log-file`"
            }
            Fault::NotAReport { found } => match found {
                Found::SourcePage => "print the report with `ncu --page raw`",
                Found::TextOutput => "print the report with `ncu --csv`",
                Found::WrittenElsewhere => "read that .ncu-rep",
                _ => {
                    "export with `LC_ALL=C ncu --csv --log-file FILE ...` or \
                     `LC_ALL=C ncu -i REPORT.ncu-rep --csv --page raw`"
                }
            },
            Fault::UndecidableNumber { .. } | Fault::ContradictoryNumber { .. } => {
                "print the report again with `LC_ALL=C ncu -i REPORT.ncu-rep --csv`"
            }
            Fault::DamagedReport { .. } => "copy the complete report again, or profile again",
            Fault::Io { source } if source.kind() == io::ErrorKind::FileTooLarge => {
                flopgap_files::unpack::HINT
            }
            Fault::Io { .. } => return None,
        };
        Some(hint.into())
    }

    fn kind(&self) -> ErrorKind {
        match self {
            Fault::NoKernels | Fault::NotAReport { .. } | Fault::CounterPermission => ErrorKind::Absent,
            Fault::Io { .. }
            | Fault::ProfilerFailed { .. }
            | Fault::UndecidableNumber { .. }
            | Fault::ContradictoryNumber { .. }
            | Fault::DamagedReport { .. } => ErrorKind::Failed,
        }
    }
}
