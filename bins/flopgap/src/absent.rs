//! `flopgap completions` and `man`, in a program without them.

use flopgap_cli::Failure;

pub(crate) use flopgap_cli::Absent as Arguments;

/// Says what is missing.
pub(crate) fn run(_: &Arguments) -> Result<(), Failure> {
    Err(flopgap_cli::built_without("completions and man pages", "completions"))
}
