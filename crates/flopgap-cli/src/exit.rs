//! Exit codes.

use std::process::ExitCode;

use flopgap_files::ErrorKind;

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
    /// What was to be judged could not be: the inputs are there and hold too little to tell.
    Undecided = 4,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Scripts depend on the numbers; the documents name them.
    #[test]
    fn every_code_has_its_number() {
        let all = [Exit::Done, Exit::Failed, Exit::Usage, Exit::Absent, Exit::Undecided];
        assert_eq!(all.map(|exit| exit as u8), [0, 1, 2, 3, 4]);
        let readme = include_str!("../README.md");
        assert!(readme.contains("4 what was to be judged could not be"), "{readme}");
    }
}
