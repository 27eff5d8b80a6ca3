//! Why a trace could not be read.

use std::io;
use std::path::PathBuf;

/// Why a file is no trace that FLOPs can be taken from.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read, or its compression is damaged.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system or the decompressor said.
        source: io::Error,
    },
    /// The file ends within the trace, so that every sum would be too small.
    #[error("{}:{line}:{column}: the trace breaks off here", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// The line, from 1, after decompression.
        line: usize,
        /// The column, from 1.
        column: usize,
    },
    /// The file is not JSON, or not of a trace's shape.
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
    #[error("{}: none of its {events} events is an operator of the framework", path.display())]
    NoOperators {
        /// The file.
        path: PathBuf,
        /// Events in the trace.
        events: u64,
    },
    /// No operator has the shapes of its inputs, from which FLOPs are computed.
    #[error("{}: none of its {operators} operators has the shapes of its inputs", path.display())]
    NoShapes {
        /// The file.
        path: PathBuf,
        /// Operators in the trace.
        operators: usize,
    },
    /// A sum left the range of exact integers.
    #[error("the FLOPs of `{operator}` are more than 2^64")]
    Overflow {
        /// The operator.
        operator: String,
    },
}

impl Error {
    /// What the user can do about it, where there is something.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Error::Truncated { .. } => Some("the program ended while it was written: record it again"),
            Error::Json { .. } | Error::NotATrace { .. } => Some(
                "give the file that torch.profiler's export_chrome_trace wrote (.json, also .gz or .zst)",
            ),
            Error::NoOperators { .. } => Some("record with ProfilerActivity.CPU among the activities"),
            Error::NoShapes { .. } => Some("record with profile(..., record_shapes=True, with_flops=True)"),
            Error::Io { source, .. } => match source.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied | io::ErrorKind::IsADirectory => {
                    None
                }
                _ => Some(
                    "if it breaks off or is damaged, copy it again from where it is whole, or record it again",
                ),
            },
            Error::Overflow { .. } => None,
        }
    }
}
