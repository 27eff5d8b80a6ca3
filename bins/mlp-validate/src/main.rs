//! `mlp-validate`: compares FLOPs of an MLP from several sources.

use std::process::ExitCode;

use hyper_profile::gpu::Gpu;

fn main() -> ExitCode {
    mlp_validate::main(&Gpu)
}
