//! How a program ends.

use std::process::ExitCode;

/// The exit codes of every flopgap program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// What was asked for is done.
    Done = 0,
    /// It could not be done.
    Failed = 1,
    /// The command line is wrong (clap's own code, too).
    Usage = 2,
    /// What was asked for is not in the input, or not on this machine.
    Absent = 3,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}
