//! Why a network could not be made or run.

use flopgap_gpu::GpuError;
use flopgap_gpu::compile::CompileError;

use crate::dense::Precision;
use flopgap_hint::{ErrorKind, Hint, Text};

/// Why a network could not be made or run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MlpError {
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
    /// Parameters of a network of other widths, which happens to have as many.
    #[error("parameters of {found}, where those of {expected} are needed")]
    OtherNetwork {
        /// The network that they are of.
        found: String,
        /// The network that they were given to.
        expected: String,
    },
    /// Numbers of another type than what they are for.
    #[error("numbers of type {found}, expected {expected}")]
    Precision {
        /// The type that is needed.
        expected: Precision,
        /// The type that was given.
        found: Precision,
    },
    /// A pass or a result was asked for before what it needs.
    #[error("{asked} needs {missing} first")]
    Order {
        /// What was asked for.
        asked: &'static str,
        /// What must come before.
        missing: &'static str,
    },
    /// Widths that no network has.
    #[error("a network of widths {}: {problem}", list(widths))]
    Widths {
        /// The widths.
        widths: Vec<usize>,
        /// What is wrong with them.
        problem: String,
    },
    /// A name that stands for nothing.
    #[error("no {what} is called {found:?}: there are {known}")]
    Name {
        /// What was named.
        what: &'static str,
        /// The name.
        found: String,
        /// The names that there are.
        known: &'static str,
    },
    /// A view of device memory begins where kernels cannot read 16 bytes at a time.
    #[error("{what}: the view does not begin at a multiple of 16 bytes")]
    Unaligned {
        /// What it is a view of.
        what: &'static str,
    },
    /// A batch of no samples, or of more than fit.
    #[error("a batch of {found} samples: from 1 to {most} can be computed")]
    Batch {
        /// The samples given.
        found: usize,
        /// The most that can be computed here.
        most: usize,
    },
    /// Kernels of an architecture that this GPU cannot run.
    #[error("kernels planned for {plan} cannot run on {device}: {reason}")]
    Plan {
        /// The architecture whose kernels were asked for.
        plan: String,
        /// That of the GPU.
        device: String,
        /// Why not.
        reason: &'static str,
    },
    /// A tape of another model: its memory would not have room.
    #[error("the tape was made for {made_for}, this model is {model}: every model makes its own")]
    Tape {
        /// The implementation and network that it was made for.
        made_for: String,
        /// Those that it was given to.
        model: String,
    },
    /// A setting that no optimiser can work with.
    #[error("the optimiser's {what} is {value}: {allowed} is needed")]
    Setting {
        /// Which, as it is called in [`AdamWSettings`](crate::dense::AdamWSettings).
        what: &'static str,
        /// What it is.
        value: String,
        /// What it can be.
        allowed: &'static str,
    },
    /// A parameter is NaN or infinite.
    #[error("layer {layer}: {what} {index} is {value}")]
    NotFinite {
        /// `weight` or `bias`.
        what: &'static str,
        /// The layer, from 0.
        layer: usize,
        /// Its place in the array of the layer, from 0.
        index: usize,
        /// What it is.
        value: String,
    },
    /// An implementation that does not exist for this network or this GPU.
    #[error("{implementation} in {precision} on {architecture}: {reason}")]
    Unsupported {
        /// Which implementation.
        implementation: String,
        /// In which precision.
        precision: String,
        /// For which architecture.
        architecture: String,
        /// Why not, and what there is instead.
        reason: String,
    },
    /// The GPU, or a library of it.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// A kernel does not compile.
    #[error(transparent)]
    Compile(#[from] CompileError),
}

fn list(widths: &[usize]) -> String {
    widths.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

impl Hint for MlpError {
    fn hint(&self) -> Option<Text<'_>> {
        match self {
            MlpError::Gpu(error) => error.hint(),
            MlpError::Compile(error) => error.hint(),
            _ => None,
        }
    }

    fn kind(&self) -> ErrorKind {
        match self {
            MlpError::Gpu(error) => error.kind(),
            MlpError::Compile(error) => error.kind(),
            MlpError::Unsupported { .. } => ErrorKind::Absent,
            MlpError::Widths { .. } | MlpError::Name { .. } | MlpError::Plan { .. } => ErrorKind::Usage,
            _ => ErrorKind::Failed,
        }
    }
}
