//! Why ceilings cannot be measured.

use flopgap_gpu::compile::CompileError;
use flopgap_gpu::{GpuError, KernelError};

/// Why ceilings cannot be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// CUDA.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// A kernel of the probe does not compile.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// A kernel did not do the work that its rate is computed from.
    #[error("the kernel {kernel} summed up {found} where {expected} was due: its rate would be wrong")]
    Wrong {
        /// The kernel.
        kernel: &'static str,
        /// A thread's sum.
        found: f64,
        /// What it must be.
        expected: f64,
    },
    /// Fewer or more threads than can be.
    #[error("{asked} threads: this machine has {have}")]
    Threads {
        /// How many were asked for.
        asked: usize,
        /// How many there are.
        have: usize,
    },
    /// Threads could not be started.
    #[error("threads could not be started: {reason}")]
    Start {
        /// What the system said.
        reason: String,
    },
}

impl ProbeError {
    /// Whether what was asked for is not on this machine.
    pub fn is_absence(&self) -> bool {
        match self {
            ProbeError::Gpu(error) => error.is_absence(),
            ProbeError::Compile(CompileError::Library(_)) => true,
            _ => false,
        }
    }

    /// What the user can do about it, where there is something.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            ProbeError::Gpu(error) => error.hint(),
            ProbeError::Compile(error) => error.hint(),
            ProbeError::Wrong { .. } => {
                Some("run it again; if it stays, check the GPU for memory errors (nvidia-smi -q)")
            }
            ProbeError::Threads { .. } => Some("leave --threads out to use all of them"),
            _ => None,
        }
    }
}

impl From<KernelError> for ProbeError {
    fn from(error: KernelError) -> Self {
        match error {
            KernelError::Compile(error) => error.into(),
            KernelError::Gpu(error) => error.into(),
            // `KernelError` may grow; its text says what it is.
            other => ProbeError::Start { reason: other.to_string() },
        }
    }
}
