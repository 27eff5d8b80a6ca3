//! `run-table`: many reports, traces and runs as one Parquet data set, and questions to it.

use std::process::ExitCode;

fn main() -> ExitCode {
    run_table::main()
}
