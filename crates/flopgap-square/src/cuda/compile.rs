//! Compiles the kernels.

use flopgap_gpu::Context;
use flopgap_gpu::compile::{Architecture, Compiler};

use crate::SquareError;

/// How the sources are compiled. Nothing trades accuracy for speed: no fast mathematics, division
/// is exact to the last bit.
pub const OPTIONS: [&str; 1] = ["--ptxas-options=-v"];

/// Compiles a source, of this name, and loads it.
pub(super) fn compile(
    compiler: &Compiler,
    gpu: &Context,
    (name, source): (&str, &str),
) -> Result<flopgap_gpu::Module, SquareError> {
    let architecture: Architecture = gpu.device().compute_capability.into();
    let binary = compiler.compile(name, source, architecture, &OPTIONS)?;
    Ok(gpu.load(&binary)?)
}
