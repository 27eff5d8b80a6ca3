//! The commands that make pages, in a program without them.

use flopgap_cli::Failure;

use crate::opening::Opener;

pub(crate) use flopgap_cli::Absent as Arguments;

/// Says what is missing.
pub(crate) fn run(_: &Arguments, _: &Opener) -> Result<(), Failure> {
    Err(flopgap_cli::built_without("pages", "pages"))
}
