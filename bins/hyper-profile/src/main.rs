//! `hyper-profile`: MLP profiling runs over (n, d, m) grids.

use std::process::ExitCode;

fn main() -> ExitCode {
    hyper_profile::main()
}
