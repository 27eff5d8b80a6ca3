//! An empty cache.

use crate::compile::Compiler;
use crate::context::{Context, Kernel};
use crate::error::{GpuError, KernelError};
use crate::launch::{Arguments, Launch};
use crate::memory::Buffer;
use crate::stream::Stream;

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

impl Evictor {
    /// Allocates the buffer and compiles the kernel.
    ///
    /// # Errors
    /// When NVRTC is missing, or there is not enough memory.
    pub fn new(context: &Context, stream: &Stream) -> Result<Self, KernelError> {
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
        let arguments = Arguments::default().read(&self.buffer).u64(length).write(&mut self.never);
        // SAFETY: these are the kernel's arguments, and it reads `length` times 16 bytes, which the
        // buffer has.
        unsafe { Launch::new(self.blocks, THREADS).queue(stream, &self.kernel, arguments) }
    }
}
