//! Knowledge about a kernel beyond its counters.

use super::OperationType;

/// What a kernel computes, as known from sources other than its counters, mostly its name.
///
/// Counters alone leave questions open. A report without the counters of the tensor cores does not
/// say whether there was anything to count; HFMA counts half-precision arithmetic as well as
/// constants that the compiler loads. This crate does not read names: a caller that does
/// (`flopgap-phases`) passes what it knows to
/// [`FlopCounter::count_as`](super::FlopCounter::count_as). The default knows nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Arithmetic {
    /// Whether the kernel multiplies on the tensor cores.
    pub tensor_cores: Option<bool>,
    /// Whether its work is products: then it is known only where something excludes the tensor
    /// cores, or counts their operations.
    pub is_product: bool,
    /// Whether it is not one kernel but all of a range or of a graph that ncu profiled as one: it
    /// may do anything.
    pub is_composite: bool,
    /// The precision of its arithmetic on the shader cores; [`OperationType::Fp16`] stands for both
    /// 16-bit types. `None` also for kernels that only move data.
    pub precision: Option<OperationType>,
    /// The precision of its arithmetic on the tensor cores, if it has such.
    pub tensor_precision: Option<OperationType>,
    /// Rows, columns and depth (m, n, k) of the tensor-core instruction of a warp: 2 m n k
    /// operations.
    pub instruction: Option<[u32; 3]>,
    /// Whether HADD, HMUL and HFMA are arithmetic of the kernel, and not constants and conversions.
    pub half_arithmetic: Option<bool>,
}
