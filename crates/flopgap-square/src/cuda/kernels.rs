//! The sources of the kernels.

use flopgap_gpu::compile::{Architecture, CompileError, Compiler};

use super::compile::OPTIONS;
use super::{chain, fused, pointwise, small};

/// The sources compiled at run time, with file names. The kernels are header-free CUDA C.
pub const SOURCES: [(&str, &str); 4] = [pointwise::SOURCE, fused::SOURCE, small::SOURCE, chain::SOURCE];

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
