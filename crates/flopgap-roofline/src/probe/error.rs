//! Errors of measuring ceilings.

use flopgap_files::{ErrorKind, Hint, Text};
use flopgap_gpu::compile::CompileError;
use flopgap_gpu::{GpuError, KernelError};

/// An error while measuring ceilings.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// CUDA failed or is missing.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// A kernel of the probe does not compile.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// A kernel did not do the work from which its rate is computed.
    #[error("kernel {kernel} computed {found} instead of {expected}; its rate would be wrong")]
    Wrong {
        /// The kernel.
        kernel: &'static str,
        /// A thread's sum.
        found: f64,
        /// The correct sum.
        expected: f64,
    },
    /// No threads were requested, or more than the machine has.
    #[error("{asked} threads were requested, but this machine has {have}")]
    Threads {
        /// Threads requested.
        asked: usize,
        /// Threads of the machine.
        have: usize,
    },
    /// The threads could not be started.
    #[error("threads could not be started: {reason}")]
    Start {
        /// The system's message.
        reason: String,
    },
}

impl Hint for ProbeError {
    fn hint(&self) -> Option<Text<'_>> {
        match self {
            ProbeError::Gpu(error) => error.hint(),
            ProbeError::Compile(error) => error.hint(),
            ProbeError::Wrong { .. } => Some(
                "run again; if the error persists, check the GPU for memory errors with `nvidia-smi -q`"
                    .into(),
            ),
            ProbeError::Threads { .. } | ProbeError::Start { .. } => None,
        }
    }

    fn kind(&self) -> ErrorKind {
        match self {
            ProbeError::Gpu(error) if error.is_absence() => ErrorKind::Absent,
            ProbeError::Compile(CompileError::Library(_)) => ErrorKind::Absent,
            ProbeError::Threads { .. } => ErrorKind::Usage,
            _ => ErrorKind::Failed,
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
