//! Why a network could not be made or run.

use flopgap_flops::FlopError;
use flopgap_gpu::GpuError;
use flopgap_gpu::compile::CompileError;

/// Why a network could not be made or run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MlpError {
    /// A size is 0, or a count of the network does not fit 64 bits.
    #[error(transparent)]
    Sizes(#[from] FlopError),
    /// A size, or what it takes to store, is more than this machine can address or the libraries take.
    #[error("{what} of a network of {layers} layers, width {width}, {samples} samples: more than {limit}")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// The largest that works.
        limit: u64,
        /// Layers asked for.
        layers: u64,
        /// Width asked for.
        width: u64,
        /// Samples asked for.
        samples: u64,
    },
    /// Weights or input do not have the network's size.
    #[error("{what}: {expected} numbers expected, {found} given")]
    Length {
        /// What was given.
        what: &'static str,
        /// Numbers that the network has.
        expected: usize,
        /// Numbers given.
        found: usize,
    },
    /// A pass or a result was asked for before what it needs.
    #[error("{asked} needs {missing} first")]
    Order {
        /// What was asked for.
        asked: &'static str,
        /// What must come before.
        missing: &'static str,
    },
    /// The GPU, or a library of it.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// A kernel does not compile.
    #[error(transparent)]
    Compile(#[from] CompileError),
}

impl MlpError {
    /// Whether what was asked for is not on this machine (a library, a GPU), as against something that failed on it.
    pub fn is_absence(&self) -> bool {
        match self {
            MlpError::Gpu(error) => error.is_absence(),
            MlpError::Compile(CompileError::Library(_) | CompileError::UnknownArchitecture { .. }) => true,
            _ => false,
        }
    }

    /// What the user can do about it, where there is something.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            MlpError::Gpu(error) => error.hint(),
            MlpError::Compile(error) => error.hint(),
            _ => None,
        }
    }
}
