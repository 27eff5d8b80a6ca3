//! Errors of opening traces and of questions.

use std::path::PathBuf;

use flopgap_files::{ErrorKind, Hint, Text};

/// Why a trace was not opened, or holds no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or directory could not be read or unpacked.
    #[error(transparent)]
    Table(flopgap_table::Error),
    /// An export of Nsight Systems could not be read, or the file is something else.
    #[error(transparent)]
    Nsys(#[from] flopgap_nsys::Error),
    /// A trace of `torch.profiler` could not be read.
    #[error(transparent)]
    Kineto(#[from] flopgap_kineto::Error),
    /// An open trace could not be read on.
    #[error(transparent)]
    Trace(#[from] flopgap_trace::ReadError),
    /// A question has no answer in the trace.
    #[error(transparent)]
    Timings(#[from] flopgap_timings::Error),
    /// A trace could not be taken apart.
    #[error(transparent)]
    Gap(#[from] flopgap_gap::Error),
    /// A table or chart could not be made.
    #[error(transparent)]
    Report(#[from] flopgap_report::ReportError),
    /// A directory holds neither traces of `torch.profiler` nor exports of Nsight Systems.
    #[error("{}: no trace of torch.profiler and no export of Nsight Systems is in this directory", path.display())]
    NoTraces {
        /// The directory.
        path: PathBuf,
    },
    /// The traces of a directory are not the ranks of one job.
    #[error("{}: {traces} traces, and not those of one job: {reason}", path.display())]
    NotOneJob {
        /// The directory.
        path: PathBuf,
        /// How many traces it holds.
        traces: usize,
        /// How they differ.
        reason: String,
    },
    /// Traces hold nothing of what a page shows.
    #[error("{}: none of what a summary answers is in the trace", listed(paths))]
    NoAnswers {
        /// The traces.
        paths: Vec<PathBuf>,
    },
    /// No trace has the requested ranges.
    #[error("{}", reasons.join("; "))]
    NoRanges {
        /// Why they were not measured, for each trace.
        reasons: Vec<String>,
    },
}

fn listed(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

impl From<flopgap_table::Error> for Error {
    fn from(error: flopgap_table::Error) -> Error {
        match error {
            flopgap_table::Error::Nsys(error) => Error::Nsys(error),
            flopgap_table::Error::Kineto(error) => Error::Kineto(error),
            error => Error::Table(error),
        }
    }
}

impl Error {
    /// The error of the reader or of the question.
    fn inner(&self) -> Option<&dyn Hint> {
        Some(match self {
            Error::Table(error) => error,
            Error::Nsys(error) => error,
            Error::Kineto(error) => error,
            Error::Trace(error) => error,
            Error::Timings(error) => error,
            Error::Gap(error) => error,
            Error::Report(error) => error,
            _ => return None,
        })
    }
}

impl Hint for Error {
    fn hint(&self) -> Option<Text<'_>> {
        match self {
            Error::NoTraces { .. } | Error::NotOneJob { .. } => {
                Some("`flopgap nsys batch` takes a directory of traces, each for itself".into())
            }
            Error::NoAnswers { .. } => Some(
                "record with `nsys profile -t cuda,nvtx`, or torch.profiler with ProfilerActivity.CUDA; \
                 `flopgap nsys stats TRACE` shows other reports of nsys"
                    .into(),
            ),
            _ => self.inner()?.hint(),
        }
    }

    fn kind(&self) -> ErrorKind {
        match self {
            Error::NotOneJob { .. } => ErrorKind::Usage,
            _ => self.inner().map_or(ErrorKind::Absent, Hint::kind),
        }
    }
}
