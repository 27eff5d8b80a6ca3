//! `ncu-analyze`: FLOPs, overheads and differences from Nsight Compute reports.

use std::process::ExitCode;

fn main() -> ExitCode {
    ncu_analyze::main()
}
