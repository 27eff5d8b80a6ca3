//! Errors of engines.

use flopgap_files::{ErrorKind, Hint, Text};

/// An error of an engine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The engine cannot run this workload.
    #[error("{engine} cannot run {what}: {reason}")]
    Unsupported {
        /// The engine.
        engine: &'static str,
        /// The workload.
        what: String,
        /// The reason.
        reason: String,
    },
    /// A library or program that the engine needs is missing.
    #[error("{what} is not available: {reason}")]
    Missing {
        /// The library or program.
        what: &'static str,
        /// The searched places, or the answer.
        reason: String,
        /// What to do.
        hint: &'static str,
    },
    /// A library failed.
    #[error("{action}: {message}")]
    Failed {
        /// The call.
        action: String,
        /// The message of the library.
        message: String,
    },
    /// The workload does not fit in the device's memory.
    #[error("{what} needs {needed} bytes, but the device has {free} free")]
    Memory {
        /// The workload.
        what: String,
        /// Bytes needed.
        needed: u64,
        /// Bytes free.
        free: u64,
    },
    /// CUDA failed or is missing.
    #[error(transparent)]
    Gpu(#[from] flopgap_gpu::GpuError),
}

impl Hint for EngineError {
    fn hint(&self) -> Option<Text<'_>> {
        match self {
            Self::Missing { hint, .. } => Some((*hint).into()),
            Self::Gpu(error) => error.hint(),
            _ => None,
        }
    }

    fn kind(&self) -> ErrorKind {
        match self {
            Self::Missing { .. } => ErrorKind::Absent,
            Self::Gpu(error) if error.is_absence() => ErrorKind::Absent,
            _ => ErrorKind::Failed,
        }
    }
}
