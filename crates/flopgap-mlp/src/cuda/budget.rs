//! How much code a kernel may have, so that NVRTC compiles it in seconds.
//!
//! NVRTC's time goes by the instructions that loops unroll into, and for long kernels faster than
//! that: kernels of whole networks whose every layer is unrolled took minutes. Where an
//! implementation has more than this many, it keeps loops.

use crate::activation::facts;
use crate::{Activation, MlpError};

use super::request::Request;

/// Instructions of a kernel, more or less. NVRTC 13.0 takes 0.2 to 0.5 ms for one, on slow cores
/// twice that (docs/measurements/dense.md). The networks of the benchmark have fewer in all
/// kernels.
pub(super) const KERNEL: usize = 10_000;

/// Layers that kernels for few samples unroll at most: the weights of each have registers and code
/// of their own.
pub(super) const UNROLLED_LAYERS: usize = 8;

/// Registers of a thread.
pub(super) const REGISTERS: usize = 255;

/// Instructions of an activation, more or less.
pub(super) fn activation(of: Activation) -> usize {
    facts(of).cuda.value_instructions
}

/// Instructions of its slope, from what the tape keeps.
pub(super) fn slope(of: Activation) -> usize {
    facts(of).cuda.slope_instructions
}

/// Why there is no kernel where even loops leave too much code.
pub(super) fn exceeded(request: &Request<'_>, instructions: usize) -> MlpError {
    request.unsupported(format!(
        "code for each of its {} layers makes a kernel of about {instructions} instructions, which the compiler would work on for minutes; forloop \
         has one code for all layers",
        request.network.layers()
    ))
}
