//! Why a workload cannot be measured.

/// Why a workload cannot be measured.
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
        /// Why not.
        reason: String,
    },
    /// What the engine needs is not on this machine.
    #[error("{what} is not on this machine: {reason}")]
    Missing {
        /// What is needed.
        what: &'static str,
        /// What was searched or asked.
        reason: String,
        /// What to do.
        hint: &'static str,
    },
    /// A library refused or failed.
    #[error("{action}: {message}")]
    Failed {
        /// What was tried.
        action: String,
        /// What the library said.
        message: String,
    },
    /// The device's memory does not hold it.
    #[error("{what} needs {needed} bytes, of which the device has {free} free")]
    Memory {
        /// The workload.
        what: String,
        /// Bytes needed.
        needed: u64,
        /// Bytes free.
        free: u64,
    },
    /// CUDA.
    #[error(transparent)]
    Gpu(#[from] flopgap_gpu::GpuError),
}
