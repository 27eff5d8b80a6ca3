//! Resources that networks of all sizes share on a GPU: streams, cuBLAS, compiled kernels.

use flopgap_gpu::blas::{Blas, Fp32};
use flopgap_gpu::compile::Compiler;
use flopgap_gpu::{Context, Event, Stream};

use super::pointwise::{PARTIALS, Pointwise};
use crate::square::Shape;
use crate::square::SquareError;

/// Options of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// The arithmetic of cuBLAS. All choices are 32-bit multiply-add without TF32.
    pub math: Fp32,
    /// Bytes of workspace for each of the two handles of cuBLAS; `None` is what NVIDIA recommends
    /// for the device. cuBLAS chooses its kernels by it, too.
    pub workspace: Option<usize>,
}

/// A GPU made ready for networks: two streams, each with a handle of cuBLAS, and compiled kernels.
/// Making one takes longer than running most networks, so make it once.
///
/// ```no_run
/// use hyper_profile::square::{Backend as _, Shape, cuda::{Engine, Options}};
///
/// let engine = Engine::new(&flopgap_gpu::Context::new(0)?, Options::default())?;
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
    /// The chain from layer to layer, and everything where nothing runs concurrently.
    pub(super) chain: Lane,
    /// Gradients of the weights, where they run concurrently with the chain.
    pub(super) beside: Lane,
    context: Context,
}

/// A stream with cuBLAS on it.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) blas: Blas,
    pub(super) event: Event,
    pub(super) stream: Stream,
}

impl Lane {
    fn new(stream: Stream, options: Options) -> Result<Self, SquareError> {
        let workspace = options.workspace.unwrap_or_else(|| Blas::recommended_workspace(&stream));
        let event = Event::new(stream.context())?;
        Ok(Lane { blas: Blas::new(&stream, options.math, workspace)?, event, stream })
    }

    /// Makes this lane wait for what is queued on the other.
    pub(super) fn wait_for(&self, other: &Lane) -> Result<(), SquareError> {
        other.event.record(&other.stream)?;
        Ok(self.stream.wait(&other.event)?)
    }
}

impl Engine {
    /// Compiles the kernels (or takes them from the user's cache) and opens cuBLAS.
    ///
    /// # Errors
    /// When cuBLAS or NVRTC is missing, or there is not enough memory for the workspace.
    pub fn new(context: &Context, options: Options) -> Result<Self, SquareError> {
        let chain = Lane::new(context.stream()?, options)?;
        // SAFETY: a pass begins its work on this lane by waiting for the chain, and ends by making
        // the chain wait for it, also after an error. Concurrently, they write different
        // arrays, and read what neither writes.
        let beside = unsafe { chain.stream.branch() }?;
        let engine = Engine {
            pointwise: Pointwise::new(&Compiler::new()?, context)?,
            chain,
            beside: Lane::new(beside, options)?,
            context: context.clone(),
        };
        // The workspaces were zeroed on streams of their own; nothing may be captured before.
        context.synchronize()?;
        Ok(engine)
    }

    /// The GPU.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The stream on which networks run.
    pub fn stream(&self) -> &Stream {
        &self.chain.stream
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
