//! `mlp-validate`: FLOPs of an MLP side by side.

use std::process::ExitCode;

fn main() -> ExitCode {
    mlp_validate::main(&mlp_validate::live::Absent)
}
