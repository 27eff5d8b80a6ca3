//! `nsys-analyze`: NVIDIA's reports and rules from Nsight Systems exports, and answers about where
//! the time went.

use std::process::ExitCode;

fn main() -> ExitCode {
    nsys_analyze::main()
}
