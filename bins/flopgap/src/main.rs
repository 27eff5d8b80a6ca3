//! `flopgap`: one command for any file, and all programs of flopgap.

use std::process::ExitCode;

fn main() -> ExitCode {
    flopgap_command::main()
}
