//! Errors of reading traces.

use std::io;
use std::path::PathBuf;

use flopgap_files::{ErrorKind, Hint, Text};

/// Why a trace could not be read or has no FLOPs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read, or its compression is damaged.
    #[error("{}: cannot be read", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error from the system or the decompressor.
        #[source]
        source: io::Error,
    },
    /// The file ends within the trace, so that every sum would be too small.
    #[error("{}:{line}:{column}: the trace is cut off here", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// The line, from 1, after decompression.
        line: usize,
        /// The column, from 1.
        column: usize,
    },
    /// The file is not JSON, or does not have the shape of a trace.
    #[error("{}:{line}:{column}: {message}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// The line, from 1, after decompression.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// What is wrong.
        message: String,
    },
    /// JSON without a list of events.
    #[error("{}: not a Chrome trace: it has no traceEvents", path.display())]
    NotATrace {
        /// The file.
        path: PathBuf,
    },
    /// A trace without operators: of another tool, or recorded without CPU activity.
    #[error("{}: it has {events} events, but no operator of the framework", path.display())]
    NoOperators {
        /// The file.
        path: PathBuf,
        /// Events in the trace.
        events: u64,
    },
    /// No operator has the shapes of its inputs, from which FLOPs are computed.
    #[error("{}: it has {operators} operators, but the input shapes of none", path.display())]
    NoShapes {
        /// The file.
        path: PathBuf,
        /// Operators in the trace.
        operators: usize,
    },
    /// Nothing ran on a GPU, or nothing was recorded of it.
    #[error("{}: no kernel, copy or memset of a GPU{}", path.display(), unread.as_ref().map(|category| format!(
        "; events of the category `{category}`, of another accelerator or tool, are not read"
    )).unwrap_or_default())]
    NoGpuWork {
        /// The file.
        path: PathBuf,
        /// A category of events that are not read.
        unread: Option<String>,
    },
    /// There are neither annotations nor operators.
    #[error("{}: neither annotations nor operators", path.display())]
    NoRanges {
        /// The file.
        path: PathBuf,
    },
    /// Calls of the runtime and driver were not recorded.
    #[error("{}: no calls of the GPU's runtime or driver", path.display())]
    NoCalls {
        /// The file.
        path: PathBuf,
    },
    /// Two traces are of the same process of a job.
    #[error("{}: of rank {rank}, as {}", other.display(), path.display())]
    SameRank {
        /// The first file.
        path: PathBuf,
        /// The second.
        other: PathBuf,
        /// Their rank.
        rank: u64,
    },
    /// Traces are not those of the ranks of one job.
    #[error("{}: {why}{}", path.display(), other.as_ref().map(|other| format!(
        " {}", other.display()
    )).unwrap_or_default())]
    NotOneJob {
        /// The trace.
        path: PathBuf,
        /// How it differs.
        why: &'static str,
        /// From which other, if it does from one.
        other: Option<PathBuf>,
    },
    /// A sum exceeds the range of exact integers.
    #[error("the FLOPs of `{operator}` exceed 64 bits")]
    Overflow {
        /// The operator.
        operator: String,
    },
}

impl Hint for Error {
    fn hint(&self) -> Option<Text<'_>> {
        let hint = match self {
            Error::Truncated { .. } => "record again: the program ended while the trace was being written",
            Error::Json { .. } | Error::NotATrace { .. } => {
                "pass the file that torch.profiler's export_chrome_trace wrote (.json, also .gz or .zst)"
            }
            Error::NoGpuWork { unread: None, .. } | Error::NoCalls { .. } => {
                "record with ProfilerActivity.CUDA among the activities"
            }
            Error::NoGpuWork { .. } => "record on a GPU with CUDA or ROCm",
            Error::NoRanges { .. } => {
                "record with ProfilerActivity.CPU among the activities, and mark ranges with record_function"
            }
            Error::SameRank { .. } => "give one trace for each rank",
            Error::NotOneJob { .. } => {
                "traces together are the ranks of one job: give each of these for itself"
            }
            Error::NoOperators { .. } => "record with ProfilerActivity.CPU among the activities",
            Error::NoShapes { .. } => "record with profile(..., record_shapes=True, with_flops=True)",
            Error::Io { source, .. } => match source.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied | io::ErrorKind::IsADirectory => {
                    return None;
                }
                io::ErrorKind::FileTooLarge => flopgap_files::unpack::HINT,
                _ => "if the file is cut off or damaged, copy the complete file again, or record again",
            },
            Error::Overflow { .. } => return None,
        };
        Some(hint.into())
    }

    fn kind(&self) -> ErrorKind {
        match self {
            Error::NotATrace { .. }
            | Error::NoOperators { .. }
            | Error::NoShapes { .. }
            | Error::NoGpuWork { .. }
            | Error::NoRanges { .. }
            | Error::NoCalls { .. } => ErrorKind::Absent,
            Error::SameRank { .. } | Error::NotOneJob { .. } => ErrorKind::Usage,
            Error::Io { .. } | Error::Truncated { .. } | Error::Json { .. } | Error::Overflow { .. } => {
                ErrorKind::Failed
            }
        }
    }
}
