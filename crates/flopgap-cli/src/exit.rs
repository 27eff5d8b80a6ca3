//! Exit codes.

use std::process::ExitCode;

use flopgap_hint::ErrorKind;

/// The exit codes of every flopgap program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Success.
    Done = 0,
    /// Failure.
    Failed = 1,
    /// The command line is wrong (clap's own code, too).
    Usage = 2,
    /// The requested data is not in the input, or not available on this machine.
    Absent = 3,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

impl From<ErrorKind> for Exit {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Failed => Exit::Failed,
            ErrorKind::Usage => Exit::Usage,
            ErrorKind::Absent => Exit::Absent,
        }
    }
}
