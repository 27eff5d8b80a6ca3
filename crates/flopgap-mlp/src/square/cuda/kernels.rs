//! The sources of our kernels.

use flopgap_gpu::Context;
use flopgap_gpu::compile::{Architecture, CompileError, Compiler};

use super::{chain, fused, pointwise, small};
use crate::MlpError;

/// What is compiled at run time: file names and sources. The kernels are header-free CUDA C.
pub const SOURCES: [(&str, &str); 4] = [pointwise::SOURCE, fused::SOURCE, small::SOURCE, chain::SOURCE];

/// How the sources are compiled. Nothing trades accuracy for speed: no fast mathematics, division is exact to the last bit.
pub const OPTIONS: [&str; 1] = ["--ptxas-options=-v"];

/// Compiles one of [`SOURCES`] and loads it.
pub(super) fn compile(
    compiler: &Compiler,
    gpu: &Context,
    (name, source): (&str, &str),
) -> Result<flopgap_gpu::Module, MlpError> {
    let architecture: Architecture = gpu.device().compute_capability.into();
    let binary = compiler.compile(name, source, architecture, &OPTIONS)?;
    Ok(gpu.load(&binary)?)
}

/// Compiles every kernel of the network that an architecture can run, without a GPU.
///
/// # Errors
/// When the compiler refuses one.
pub fn compile_all(compiler: &Compiler, architecture: Architecture) -> Result<Vec<String>, CompileError> {
    // Those of small.cu need clusters, and those of chain.cu more shared memory than others have.
    let exists = |&(name, _): &(&str, &str)| {
        !["small.cu", "chain.cu"].contains(&name) || architecture.capability.major >= 9
    };
    let log = |(name, source)| Ok(compiler.compile(name, source, architecture, &OPTIONS)?.log().to_owned());
    SOURCES.into_iter().filter(exists).map(log).collect()
}
