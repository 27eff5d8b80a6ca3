//! Why a report could not be read.

use std::io;
use std::path::PathBuf;

/// Why a report could not be read, or would have given a wrong number.
///
/// Every variant names the file; [`Error::hint`] says what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be opened or read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is no Nsight Compute table in it.
    #[error("{}: no Nsight Compute table found ({what})", path.display())]
    NotAReport {
        /// The file.
        path: PathBuf,
        /// What was found instead.
        what: String,
    },
    /// ncu lacked the permission to read hardware counters (`ERR_NVGPUCTRPERM`).
    #[error("{}:{line}: ncu was not permitted to read the GPU's performance counters (ERR_NVGPUCTRPERM)", path.display())]
    CounterPermission {
        /// The file.
        path: PathBuf,
        /// The line that says so.
        line: u64,
    },
    /// ncu ran but profiled no kernel.
    #[error("{}:{line}: ncu profiled no kernel", path.display())]
    NoKernels {
        /// The file.
        path: PathBuf,
        /// The line that says so.
        line: u64,
    },
    /// ncu or the program under it failed before anything was printed.
    #[error("{}:{line}: ncu ended with an error: {message}", path.display())]
    ProfilerFailed {
        /// The file.
        path: PathBuf,
        /// The line that says so.
        line: u64,
        /// ncu's own words.
        message: String,
    },
    /// Whether `,` or `.` separates decimals cannot be told from the file, and the two readings differ by 1000.
    #[error("{}:{line}: cannot tell whether {value:?} is a whole number or has decimals: {reason}", path.display())]
    UndecidableNumber {
        /// The file.
        path: PathBuf,
        /// The line of the value.
        line: u64,
        /// The value as printed.
        value: String,
        /// Why neither reading can be excluded.
        reason: String,
    },
    /// Two values of one file can only be read with different decimal separators.
    #[error("{}:{line}: {value:?} contradicts the number format that line {decided_at} fixed ({format})", path.display())]
    ContradictoryNumber {
        /// The file.
        path: PathBuf,
        /// The line of the value.
        line: u64,
        /// The value as printed.
        value: String,
        /// The line that fixed the format.
        decided_at: u64,
        /// The format that was fixed there.
        format: String,
    },
    /// The bytes of a `.ncu-rep` do not follow its format.
    #[error("{}: damaged .ncu-rep at byte {offset}: {what}", path.display())]
    DamagedReport {
        /// The file.
        path: PathBuf,
        /// Where.
        offset: u64,
        /// What was expected there.
        what: String,
    },
}

impl Error {
    /// What the user can do about it, in one sentence, where there is something.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Error::CounterPermission { .. } => Some(
                "run ncu as root (or with CAP_SYS_ADMIN), or load the nvidia module with \
                 NVreg_RestrictProfilingToAdminUsers=0, then profile again",
            ),
            Error::NoKernels { .. } => Some(
                "check that the program launches kernels in this process (--target-processes all follows \
                 children) and that no -k/--nvtx-include filter excludes them",
            ),
            Error::ProfilerFailed { .. } => Some(
                "run the program without ncu first, then profile again and keep ncu's output with --log-file",
            ),
            Error::NotAReport { .. } => Some(
                "export with `LC_ALL=C ncu --csv --log-file FILE ...` or `LC_ALL=C ncu -i REPORT.ncu-rep --csv --page raw`",
            ),
            Error::UndecidableNumber { .. } | Error::ContradictoryNumber { .. } => Some(
                "print the report again with `LC_ALL=C ncu -i REPORT.ncu-rep --csv`, or name the decimal \
                 separator yourself (--decimal point|comma)",
            ),
            Error::DamagedReport { .. } => {
                Some("profile or copy the report again; the file is incomplete or altered")
            }
            Error::Io { .. } => None,
        }
    }
}
