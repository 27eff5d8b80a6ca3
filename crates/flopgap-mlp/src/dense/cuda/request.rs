//! What kernels are asked for: a network, a precision and options, on a GPU that need not be here.

use flopgap_gpu::compile::Architecture;
use flopgap_gpu::{ComputeCapability, Device};

use crate::MlpError;
use crate::dense::{Network, Precision};

use super::options::Options;
use super::source::Source;

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
}
