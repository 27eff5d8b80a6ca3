//! Errors of networks.

use flopgap_files::{ErrorKind, Hint, Text};
use flopgap_flops::FlopError;
use flopgap_gpu::GpuError;
use flopgap_gpu::compile::CompileError;

/// An error of creating or running a square network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SquareError {
    /// A size is 0, or a count of the network does not fit 64 bits.
    #[error(transparent)]
    Sizes(#[from] FlopError),
    /// A size or an array exceeds what this machine can address or the libraries accept.
    #[error("{what} of a network of {layers} layers, width {width}, {samples} samples: more than {limit}")]
    TooLarge {
        /// The value that is too large.
        what: &'static str,
        /// The largest value that works.
        limit: u64,
        /// Layers requested.
        layers: u64,
        /// Width requested.
        width: u64,
        /// Samples requested.
        samples: u64,
    },
    /// Weights or input do not have the network's size.
    #[error("{what}: expected {expected} numbers, found {found}")]
    Length {
        /// The argument.
        what: &'static str,
        /// Numbers that the network has.
        expected: usize,
        /// Numbers given.
        found: usize,
    },
    /// A pass or a result was requested before the step it depends on.
    #[error("{asked} needs {missing} first")]
    Order {
        /// The request.
        asked: &'static str,
        /// The missing step.
        missing: &'static str,
    },
    /// The GPU, or one of its libraries.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// A kernel does not compile.
    #[error(transparent)]
    Compile(#[from] CompileError),
}

impl Hint for SquareError {
    fn hint(&self) -> Option<Text<'_>> {
        match self {
            SquareError::Gpu(error) => error.hint(),
            SquareError::Compile(error) => error.hint(),
            _ => None,
        }
    }

    fn kind(&self) -> ErrorKind {
        match self {
            SquareError::Gpu(error) => error.kind(),
            SquareError::Compile(error) => error.kind(),
            SquareError::Sizes(_) | SquareError::TooLarge { .. } => ErrorKind::Usage,
            _ => ErrorKind::Failed,
        }
    }
}
