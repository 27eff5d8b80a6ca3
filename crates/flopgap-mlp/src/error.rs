//! Errors of networks.

use flopgap_gpu::GpuError;
use flopgap_gpu::compile::CompileError;

use crate::Precision;
use flopgap_files::{ErrorKind, Hint, Text};

/// Why a network could not be created or run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MlpError {
    /// An array does not have the size that the network and the batch give.
    #[error("{what}: expected {expected} numbers, found {found}")]
    Length {
        /// What was given.
        what: &'static str,
        /// Numbers that the network has.
        expected: usize,
        /// Numbers given.
        found: usize,
    },
    /// Parameters of a network of other widths or biases, which happens to have as many.
    #[error("parameters of another network: expected {expected}, found {found}")]
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
    /// A pass or a result was requested before the step it depends on.
    #[error("{asked} needs {missing} first")]
    Order {
        /// What was requested.
        asked: &'static str,
        /// What must come before.
        missing: &'static str,
    },
    /// Widths that no network can have.
    #[error("invalid widths {}: {problem}", list(widths))]
    Widths {
        /// The widths.
        widths: Vec<usize>,
        /// What is wrong with them.
        problem: String,
    },
    /// An unknown name.
    #[error("invalid {what} `{found}`; expected one of {known}")]
    Name {
        /// What was named.
        what: &'static str,
        /// The name.
        found: String,
        /// The known names.
        known: &'static str,
    },
    /// A view of device memory begins where kernels cannot read 16 bytes at once.
    #[error("{what}: the view is not aligned to 16 bytes")]
    Unaligned {
        /// What it is a view of.
        what: &'static str,
    },
    /// A batch of no samples, or of more than fit.
    #[error("invalid batch of {found} samples; supported: 1 to {most}")]
    Batch {
        /// The samples given.
        found: usize,
        /// The most that can be computed here.
        most: usize,
    },
    /// Kernels of an architecture that this GPU cannot run.
    #[error("kernels planned for {plan} cannot run on {device}: {reason}")]
    Plan {
        /// The architecture whose kernels were requested.
        plan: String,
        /// That of the GPU.
        device: String,
        /// Why not.
        reason: &'static str,
    },
    /// A tape of another model: its memory would not have room.
    #[error("tape of another model: expected {model}, found {made_for}")]
    Tape {
        /// The implementation and network that it was made for.
        made_for: String,
        /// Those that it was given to.
        model: String,
    },
    /// An invalid setting of an optimizer.
    #[error("invalid {what} {value} of the optimizer; expected {allowed}")]
    Setting {
        /// Which, as it is called in [`AdamWSettings`](crate::AdamWSettings).
        what: &'static str,
        /// What it is.
        value: String,
        /// What it can be.
        allowed: &'static str,
    },
    /// An invalid setting of an encoding.
    #[error("invalid {what} {value} of the encoding; expected {allowed}")]
    Encoding {
        /// Which, as it is called in [`Frequency`](crate::encoding::Frequency) or
        /// [`HashGridSettings`](crate::encoding::HashGridSettings).
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
        /// The reason, and the alternative.
        reason: String,
    },
    /// The GPU, or a library of it.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// A Vulkan device, or its driver.
    #[cfg(feature = "vulkan")]
    #[error(transparent)]
    Vulkan(#[from] crate::vulkan::VulkanError),
    /// A kernel does not compile.
    #[error(transparent)]
    Compile(#[from] CompileError),
}

/// Refuses an array of another length than it must have.
pub(crate) fn check(what: &'static str, expected: usize, found: usize) -> Result<(), MlpError> {
    if found == expected { Ok(()) } else { Err(MlpError::Length { what, expected, found }) }
}

fn list(widths: &[usize]) -> String {
    widths.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

impl Hint for MlpError {
    fn hint(&self) -> Option<Text<'_>> {
        match self {
            MlpError::Gpu(error) => error.hint(),
            MlpError::Compile(error) => error.hint(),
            #[cfg(feature = "vulkan")]
            MlpError::Vulkan(error) => error.hint(),
            MlpError::Tape { .. } => Some("create a tape with the model that uses it (Model::tape)".into()),
            MlpError::Unaligned { .. } => Some("begin views at a multiple of 16 bytes of a buffer".into()),
            _ => None,
        }
    }

    fn kind(&self) -> ErrorKind {
        match self {
            MlpError::Gpu(error) => error.kind(),
            MlpError::Compile(error) => error.kind(),
            #[cfg(feature = "vulkan")]
            MlpError::Vulkan(error) => error.kind(),
            MlpError::Unsupported { .. } => ErrorKind::Absent,
            MlpError::Widths { .. }
            | MlpError::Name { .. }
            | MlpError::Plan { .. }
            | MlpError::Encoding { .. } => ErrorKind::Usage,
            _ => ErrorKind::Failed,
        }
    }
}
