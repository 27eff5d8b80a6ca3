//! `mlp-validate`: compares FLOPs of an MLP from several sources.

use std::process::ExitCode;

fn main() -> ExitCode {
    hyper_profile::validate::main()
}
