//! The GPU that kernels are made for, which need not be here.

use flopgap_gpu::compile::Architecture;
use flopgap_gpu::{ComputeCapability, Device};

use crate::MlpError;

/// What kernels are chosen and compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// The compute capability that kernels are chosen and written for. Where it matters, they are
    /// of exactly this architecture (`sm_90a`).
    pub capability: ComputeCapability,
    /// The machine language that they are compiled for: of the same compute capability, but where
    /// kernels of an older one were asked for ([`Target::planned_for`]).
    pub language: ComputeCapability,
    /// Bytes of shared memory that a block can have.
    pub shared_bytes: usize,
    /// Multiprocessors.
    pub multiprocessors: u32,
}

impl Target {
    /// A device that is here.
    pub fn new(device: &Device) -> Self {
        Target {
            capability: device.compute_capability,
            language: device.compute_capability,
            shared_bytes: usize::try_from(device.shared_bytes_per_block).unwrap_or_default(),
            multiprocessors: device.multiprocessors,
        }
    }

    /// A device of this compute capability, with the shared memory of CUDA's table of compute
    /// capabilities and the multiprocessors of a common card of it.
    pub fn nominal(capability: ComputeCapability) -> Self {
        let (kibibytes, multiprocessors) = match (capability.major, capability.minor) {
            (7, _) => (64, 40),
            (8, 0 | 7) => (163, 108),
            (8, _) => (99, 84),
            (9..=11, _) => (227, 132),
            _ => (99, 170),
        };
        Target { capability, language: capability, shared_bytes: kibibytes * 1024, multiprocessors }
    }

    /// The same device with the kernels of an older architecture: chosen and written as for that,
    /// with its shared memory, and compiled for the device. So those of Ampere (8.0) and Ada (8.9)
    /// run on Hopper.
    ///
    /// ```
    /// use flopgap_gpu::ComputeCapability;
    /// use flopgap_mlp::cuda::Target;
    ///
    /// let of = |major, minor| ComputeCapability { major, minor };
    /// let target = Target::nominal(of(9, 0)).planned_for(of(8, 9))?;
    /// assert_eq!(target.capability, of(8, 9));
    /// assert_eq!(target.architecture().to_string(), "sm_90");
    /// assert_eq!(target.shared_bytes, 99 * 1024);
    /// # Ok::<(), flopgap_mlp::MlpError>(())
    /// ```
    ///
    /// # Errors
    /// [`MlpError::Plan`] where `older` is newer than the device, or has kernels that run on
    /// nothing else (9.0).
    pub fn planned_for(self, older: ComputeCapability) -> Result<Self, MlpError> {
        let reason = if older > self.language {
            "it is newer than the GPU"
        } else if older.major < 7 || (older.major == 7 && older.minor < 5) {
            "there are kernels from sm_75 on"
        } else if older.major == 9 && older != self.language {
            "its instructions (wgmma) run on no other architecture"
        } else {
            let nominal = Target::nominal(older);
            let shared_bytes = self.shared_bytes.min(nominal.shared_bytes);
            return Ok(Target { capability: older, shared_bytes, ..self });
        };
        Err(MlpError::Plan {
            plan: Architecture::from(older).to_string(),
            device: Architecture::from(self.language).to_string(),
            reason,
        })
    }

    /// Whether there are kernels with [`Accumulate::F16`](super::Accumulate::F16). Not for Hopper
    /// (9.0): its tensor cores add 32-bit sums as fast, and these have the faster kernels.
    pub fn has_16_bit_sums(&self) -> bool {
        self.capability.major != 9
    }

    /// The older architecture whose kernels are taken, if one is.
    pub(super) fn plan(&self) -> Option<ComputeCapability> {
        Some(self.capability).filter(|&plan| plan != self.language)
    }

    /// The machine language without the instructions of exactly this architecture.
    pub fn architecture(&self) -> Architecture {
        self.language.into()
    }
}
