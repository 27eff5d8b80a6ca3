//! An empty cache.

use cudarc::driver::{LaunchConfig, PushKernelArg as _};

use crate::compile::{CompileError, Compiler};
use crate::context::{Context, Kernel};
use crate::error::GpuError;
use crate::stream::{Buffer, Stream};

/// The kernel's name and source.
const SOURCE: (&str, &str) = ("evict.cu", include_str!("evict.cu"));
const THREADS: u32 = 512;

/// Empties the second-level cache: reads a buffer of three times its size.
#[derive(Debug)]
pub struct Evictor {
    kernel: Kernel,
    buffer: Buffer<u8>,
    never: Buffer<u32>,
    blocks: u32,
}

/// Why there is no [`Evictor`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EvictorError {
    /// The kernel does not compile.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// There is not enough memory.
    #[error(transparent)]
    Gpu(#[from] GpuError),
}

impl Evictor {
    /// Allocates the buffer and compiles the kernel.
    ///
    /// # Errors
    /// When NVRTC is missing, or there is not enough memory.
    pub fn new(context: &Context, stream: &Stream) -> Result<Self, EvictorError> {
        let architecture = context.device().compute_capability.into();
        let binary = Compiler::new()?.compile(SOURCE.0, SOURCE.1, architecture, &[])?;
        let kernel = context.load(&binary)?.kernel("evict_cache")?;
        let bytes = usize::try_from(context.device().l2_bytes).unwrap_or_default().max(1 << 20) * 3;
        Ok(Evictor {
            kernel,
            buffer: stream.zeros(bytes.next_multiple_of(16))?,
            never: stream.zeros(1)?,
            blocks: context.device().multiprocessors * 4,
        })
    }

    /// Queues the reading.
    ///
    /// # Errors
    /// The driver's.
    pub fn evict(&mut self, stream: &Stream) -> Result<(), GpuError> {
        let length = (self.buffer.len() / 16) as u64;
        let shape =
            LaunchConfig { grid_dim: (self.blocks, 1, 1), block_dim: (THREADS, 1, 1), shared_mem_bytes: 0 };
        let mut launch = stream.launch_builder(&self.kernel);
        launch.arg(&self.buffer).arg(&length).arg(&mut self.never);
        // SAFETY: these are the kernel's arguments, and it reads `length` times 16 bytes, which the buffer has.
        unsafe { launch.launch(shape) }?;
        Ok(())
    }
}
