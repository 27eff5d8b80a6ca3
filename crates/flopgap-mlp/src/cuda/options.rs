//! What is computed how.

use std::fmt;
use std::str::FromStr;

use flopgap_gpu::ComputeCapability;

use crate::MlpError;

use super::target::Target;

/// How a network is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Implementation {
    /// The fastest of the others that supports the network, the precision and the GPU, in the order
    /// that measurements on an H200 gave (`docs/measurements/dense.md`). [`Model::options`] has
    /// what was chosen.
    ///
    /// [`Model::options`]: super::Model::options
    Auto,
    /// A thread computes a sample with plain loops, as a first attempt would: arrays in local
    /// memory, weights read one by one. For teaching and for comparison.
    Naive,
    /// Scalar multiply-adds, a sample a thread.
    Forloop,
    /// Cooperative vectors: every thread has a vector of its own, in registers from layer to layer;
    /// the 32 threads of a warp multiply their vectors by the same matrix together.
    Coopvec,
    /// Cooperative matrices: tiles of the whole batch, all layers in one kernel, weights in shared
    /// memory.
    Coopmat,
}

impl Implementation {
    /// All that have kernels: every one but [`Implementation::Auto`].
    pub const ALL: [Self; 4] =
        [Implementation::Naive, Implementation::Forloop, Implementation::Coopvec, Implementation::Coopmat];

    /// `auto`, `naive`, `forloop`, `coopvec` or `coopmat`.
    pub const fn name(self) -> &'static str {
        match self {
            Implementation::Auto => "auto",
            Implementation::Naive => "naive",
            Implementation::Forloop => "forloop",
            Implementation::Coopvec => "coopvec",
            Implementation::Coopmat => "coopmat",
        }
    }
}

impl fmt::Display for Implementation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Implementation {
    type Err = MlpError;

    fn from_str(text: &str) -> Result<Self, MlpError> {
        let all = [Implementation::Auto].into_iter().chain(Self::ALL);
        let mut named = all.filter(|implementation| implementation.name() == text);
        named.next().ok_or_else(|| MlpError::Name {
            what: "implementation",
            found: text.to_owned(),
            known: "auto, naive, forloop, coopvec, coopmat",
        })
    }
}

/// The type that sums on tensor cores have at least. Scalar code always sums in 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Accumulate {
    /// 32 bits.
    #[default]
    F32,
    /// 16 bits: half precision for sums, too. Less accurate, and faster on GPUs whose tensor cores
    /// add such sums at twice the rate (`GeForce`). On compute capability 9.0, where they are not
    /// faster, sums have 32 bits also with this. Only with
    /// [`Precision::F16`](crate::Precision::F16).
    F16,
}

/// How the gradients of the parameters are summed over the blocks of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Reduction {
    /// In a fixed order: the same bits in every run.
    #[default]
    Deterministic,
    /// By atomic additions, in whatever order they come.
    Atomic,
}

/// What a backward pass does with the gradients by the parameters that the caller's array holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Gradients {
    /// It overwrites them.
    #[default]
    Overwrite,
    /// It adds to them, as `PyTorch` does: zero them before the first of several passes
    /// ([`Stream::fill`](flopgap_gpu::Stream::fill)). Each is the sum of what was there and of what
    /// [`Gradients::Overwrite`] gives, bit for bit, rounded once. It costs a kernel after the pass
    /// that moves 12 bytes a parameter, and 4 bytes a parameter in every tape.
    Add,
}

/// What is computed how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Options {
    /// The kernels.
    pub implementation: Implementation,
    /// The type of sums.
    pub accumulate: Accumulate,
    /// How gradients are summed. [`Implementation::Naive`] has atomic additions only.
    pub reduction: Reduction,
    /// Whether a backward pass adds to the gradients by the parameters.
    pub gradients: Gradients,
    /// The architecture whose kernels are taken, where they are not to be those of the GPU at hand:
    /// an older one (7.5, 8.x), whose kernels are then compiled for the GPU. For tests and
    /// comparisons; see [`Target::planned_for`].
    pub plan: Option<ComputeCapability>,
}

impl Options {
    /// This implementation, sums in 32 bits and in a fixed order.
    pub fn new(implementation: Implementation) -> Self {
        Options {
            implementation,
            accumulate: Accumulate::default(),
            reduction: Reduction::default(),
            gradients: Gradients::default(),
            plan: None,
        }
    }

    /// What kernels are chosen and compiled for on this device.
    pub(super) fn target(&self, device: Target) -> Result<Target, MlpError> {
        self.plan.map_or(Ok(device), |older| device.planned_for(older))
    }

    /// Whether gradients of the parameters have the same bits in every run.
    /// [`Implementation::Auto`] chooses only implementations of which that is so, unless atomic
    /// additions are requested.
    pub fn is_deterministic(&self) -> bool {
        match (self.implementation, self.reduction) {
            (Implementation::Naive, _) | (_, Reduction::Atomic) => false,
            (
                Implementation::Auto
                | Implementation::Forloop
                | Implementation::Coopvec
                | Implementation::Coopmat,
                Reduction::Deterministic,
            ) => true,
        }
    }
}
