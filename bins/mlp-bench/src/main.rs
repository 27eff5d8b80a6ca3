//! `mlp-bench`: one small MLP in several GPU implementations.

use std::process::ExitCode;

fn main() -> ExitCode {
    mlp_bench::main()
}
