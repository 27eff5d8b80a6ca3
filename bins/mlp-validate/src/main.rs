//! `mlp-validate`: FLOPs of an MLP side by side.

use std::process::ExitCode;

use hyper_profile::gpu::Gpu;

fn main() -> ExitCode {
    mlp_validate::main(&Gpu)
}
