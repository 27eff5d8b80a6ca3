//! Which kernels there are, and which are chosen for a network on a GPU.

use std::fmt;
use std::str::FromStr;

use flopgap_gpu::compile::{Architecture, Compiler};
use flopgap_gpu::{ComputeCapability, Context, Device};

use crate::MlpError;
use crate::dense::{Network, Precision};

use super::coopmat;
use super::coopvec;
use super::forloop;
use super::kernels::Kernels;
use super::naive;
use super::source::Source;

/// How a network is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Implementation {
    /// A thread computes a sample with plain loops, as a first attempt would: arrays in local memory, weights read one by one. For teaching and
    /// for comparison.
    Naive,
    /// Scalar multiply-adds, a sample a thread.
    Forloop,
    /// Cooperative vectors: every thread has a vector of its own, in registers from layer to layer; the 32 threads of a warp multiply their
    /// vectors by the same matrix together.
    Coopvec,
    /// Cooperative matrices: tiles of the whole batch, all layers in one kernel, weights in shared memory.
    Coopmat,
}

impl Implementation {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Implementation::Naive, Implementation::Forloop, Implementation::Coopvec, Implementation::Coopmat];

    /// `naive`, `forloop`, `coopvec` or `coopmat`.
    pub const fn name(self) -> &'static str {
        match self {
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
        Self::ALL.into_iter().find(|implementation| implementation.name() == text).ok_or_else(|| {
            MlpError::Name {
                what: "implementation",
                found: text.to_owned(),
                known: "naive, forloop, coopvec, coopmat",
            }
        })
    }
}

/// The type of sums on tensor cores. Scalar code always sums in 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Accumulate {
    /// 32 bits.
    #[default]
    F32,
    /// 16 bits: half precision for sums, too. Less accurate; for comparison with libraries that do so. Only with [`Precision::F16`].
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

/// What is computed how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Options {
    /// The kernels.
    pub implementation: Implementation,
    /// The type of sums.
    pub accumulate: Accumulate,
    /// How gradients are summed. [`Implementation::Naive`] has atomic additions only.
    pub reduction: Reduction,
}

impl Options {
    /// This implementation, sums in 32 bits and in a fixed order.
    pub fn new(implementation: Implementation) -> Self {
        Options { implementation, accumulate: Accumulate::default(), reduction: Reduction::default() }
    }
}

/// What kernels are chosen and compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// The machine language. Where it matters, kernels of exactly this architecture (`sm_90a`) are compiled for it.
    pub capability: ComputeCapability,
    /// Bytes of shared memory that a block can have.
    pub shared_bytes: usize,
    /// Multiprocessors.
    pub multiprocessors: u32,
}

impl Target {
    /// A device that is here.
    pub fn of(device: &Device) -> Self {
        Target {
            capability: device.compute_capability,
            shared_bytes: usize::try_from(device.shared_bytes_per_block).unwrap_or_default(),
            multiprocessors: device.multiprocessors,
        }
    }

    /// A device of this compute capability, with the shared memory of CUDA's table of compute capabilities and the multiprocessors of a
    /// common card of it.
    pub fn nominal(capability: ComputeCapability) -> Self {
        let (kibibytes, multiprocessors) = match (capability.major, capability.minor) {
            (7, _) => (64, 40),
            (8, 0 | 7) => (163, 108),
            (8, _) => (99, 84),
            (9..=11, _) => (227, 132),
            _ => (99, 170),
        };
        Target { capability, shared_bytes: kibibytes * 1024, multiprocessors }
    }

    /// The machine language without the instructions of exactly this architecture.
    pub fn architecture(&self) -> Architecture {
        self.capability.into()
    }
}

/// Everything that decides which kernels are made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) network: &'a Network,
    pub(super) precision: Precision,
    pub(super) options: Options,
    pub(super) target: Target,
}

impl Request<'_> {
    /// A source for the network, see [`Source::new`].
    pub(super) fn source(&self, name: &str, body: &str, constants: &[(&str, usize)]) -> Source {
        self.source_for(self.target.architecture(), name, body, constants)
    }

    /// The same for another machine language of the same device, such as `sm_90a`.
    pub(super) fn source_for(
        &self,
        architecture: Architecture,
        name: &str,
        body: &str,
        constants: &[(&str, usize)],
    ) -> Source {
        let Request { network, precision, options, .. } = *self;
        Source::new(name, body, network, precision, options.accumulate, architecture, constants)
    }

    /// Why there are no kernels for this request, and what there is instead.
    pub(super) fn unsupported(&self, reason: impl Into<String>) -> MlpError {
        MlpError::Unsupported {
            implementation: self.options.implementation.to_string(),
            precision: self.precision.to_string(),
            architecture: self.target.architecture().to_string(),
            reason: reason.into(),
        }
    }

    /// Refuses what no implementation has.
    fn check(&self) -> Result<(), MlpError> {
        if self.options.accumulate == Accumulate::F16 && self.precision != Precision::F16 {
            return Err(self.unsupported("sums in 16 bits are there for fp16 alone"));
        }
        Ok(())
    }

    /// The sources of the kernels, without a device.
    fn sources(&self) -> Result<Vec<Source>, MlpError> {
        self.check()?;
        match self.options.implementation {
            Implementation::Naive => naive::sources(self),
            Implementation::Forloop => forloop::sources(self),
            Implementation::Coopvec => coopvec::sources(self),
            Implementation::Coopmat => coopmat::sources(self),
        }
    }

    /// The kernels, on a device.
    pub(super) fn load(&self, compiler: &Compiler, context: &Context) -> Result<Kernels, MlpError> {
        self.check()?;
        match self.options.implementation {
            Implementation::Naive => naive::load(self, compiler, context),
            Implementation::Forloop => forloop::load(self, compiler, context),
            Implementation::Coopvec => coopvec::load(self, compiler, context),
            Implementation::Coopmat => coopmat::load(self, compiler, context),
        }
    }
}

/// Compiles the kernels of a network for a device that need not be here, and returns the name and the compiler's log (registers, spills) of
/// every source.
///
/// # Errors
/// [`MlpError::Unsupported`]; when NVRTC is missing or refuses.
pub fn compile_all(
    compiler: &Compiler,
    network: &Network,
    precision: Precision,
    options: Options,
    target: Target,
) -> Result<Vec<(String, String)>, MlpError> {
    let sources = Request { network, precision, options, target }.sources()?;
    let log = |source: &Source| Ok((source.name().to_owned(), source.compile(compiler)?.log().to_owned()));
    sources.iter().map(log).collect()
}
