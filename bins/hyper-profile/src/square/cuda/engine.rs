//! Resources that networks of all sizes share on a GPU: a stream, cuBLAS, compiled kernels.

use flopgap_gpu::blas::Blas;
use flopgap_gpu::compile::Compiler;
use flopgap_gpu::{Context, Stream};

use super::pointwise::{PARTIALS, Pointwise};
use crate::square::{Shape, SquareError};

/// A GPU made ready for networks: a stream with a handle of cuBLAS, and compiled kernels.
/// Making one takes longer than running most networks, so make it once.
///
/// ```no_run
/// use hyper_profile::square::{Shape, cuda::Engine};
///
/// let engine = Engine::new(&flopgap_gpu::Context::new(0)?)?;
/// let mut network = engine.network(Shape::new(10, 1024, 128)?)?;
/// network.initialize(0)?;
/// network.forward()?;
/// network.backward()?;
/// println!("{} {}", network.loss()?, network.gradients()?.len());
/// # Ok::<(), hyper_profile::square::SquareError>(())
/// ```
#[derive(Debug)]
pub struct Engine {
    pub(super) pointwise: Pointwise,
    pub(super) blas: Blas,
    pub(super) stream: Stream,
    context: Context,
}

impl Engine {
    /// Compiles the kernels (or takes them from the user's cache) and opens cuBLAS.
    ///
    /// # Errors
    /// When cuBLAS or NVRTC is missing, or there is not enough memory for the workspace.
    pub fn new(context: &Context) -> Result<Self, SquareError> {
        let stream = context.stream()?;
        let blas = Blas::new(&stream)?;
        let pointwise = Pointwise::new(&Compiler::new()?, context)?;
        Ok(Engine { pointwise, blas, stream, context: context.clone() })
    }

    /// The GPU.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The stream on which networks run.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }
}

/// Bytes that a network takes on a GPU, apart from those of its [`Engine`]. Every array is rounded
/// up to the 512 bytes in which the driver allocates.
///
/// Compare it with [`Context::memory`] to leave out what does not fit. The driver needs a little
/// more (it allocates from blocks of 2 MiB), so leave some hundredths.
///
/// ```
/// use hyper_profile::square::{Shape, cuda::bytes_needed};
///
/// assert_eq!(bytes_needed(Shape::new(10, 1024, 128)?), 94_901_248);
/// # Ok::<(), hyper_profile::square::SquareError>(())
/// ```
pub fn bytes_needed(shape: Shape) -> u64 {
    let memory = shape.memory();
    let sum = [u64::from(PARTIALS) * 4, 4, 4];
    [memory.weights, memory.gradients, memory.activations, memory.deltas]
        .into_iter()
        .chain(sum)
        .map(|bytes| bytes.div_ceil(512).saturating_mul(512))
        .fold(0, u64::saturating_add)
}
