//! flopgap's own kernels: compiled once for each storage type, and queued by address.

use flopgap_flops::Precision;
use flopgap_gpu::compile::{Architecture, CompileError, Compiler};
use flopgap_gpu::launch::{Arguments, Launch};
use flopgap_gpu::{Context, Kernel, Module, Stream};

use crate::engines::error::EngineError;

use super::kernel::{Filling, Numbers};

/// The name and source of the kernels.
const SOURCE: (&str, &str) = ("kernels.cu", include_str!("kernels.cu"));

/// Threads of a block, where it does not depend on the work.
const THREADS: u32 = 256;

/// The name of a storage type in the source.
fn define(numbers: Numbers) -> Option<&'static str> {
    match numbers {
        Numbers::F32 => Some("-DNUMBERS=0"),
        Numbers::F16 => Some("-DNUMBERS=1"),
        Numbers::Bf16 => Some("-DNUMBERS=2"),
        Numbers::I8 => Some("-DNUMBERS=3"),
        Numbers::I32 => None,
    }
}

/// Compiles the kernels of a precision for an architecture, which needs no GPU, and returns the
/// compiler's log.
///
/// # Errors
/// The compiler's.
pub fn compile_kernels(
    compiler: &Compiler,
    precision: Precision,
    architecture: Architecture,
) -> Result<String, CompileError> {
    let define = define(Numbers::of(precision)).unwrap_or_default();
    compiler
        .compile(SOURCE.0, SOURCE.1, architecture, &[define, "--ptxas-options=-v"])
        .map(|binary| binary.log().to_owned())
}

/// The kernels of one way to store numbers, on a device.
#[derive(Debug)]
pub(crate) struct OwnKernels {
    module: Module,
    /// Blocks that keep the device busy.
    most_blocks: u32,
}

impl OwnKernels {
    /// Compiles them, or takes them from the user's cache.
    ///
    /// # Errors
    /// When NVRTC is missing; the driver's.
    pub(crate) fn new(context: &Context, compiler: &Compiler, numbers: Numbers) -> Result<Self, EngineError> {
        let failed = |error: CompileError| match error {
            CompileError::Library(error) => EngineError::Gpu(error.into()),
            other => {
                EngineError::Failed { action: "compile the kernels".to_owned(), message: other.to_string() }
            }
        };
        let Some(define) = define(numbers) else {
            return Err(EngineError::Failed {
                action: "compile the kernels".to_owned(),
                message: "there are none for 32-bit integers".to_owned(),
            });
        };
        let architecture = context.device().compute_capability.into();
        let binary = compiler.compile(SOURCE.0, SOURCE.1, architecture, &[define]).map_err(failed)?;
        let most_blocks = context.device().multiprocessors.max(1) * 16;
        Ok(OwnKernels { module: context.load(&binary)?, most_blocks })
    }

    /// One of them.
    ///
    /// # Errors
    /// When there is none of this name.
    pub(crate) fn kernel(&self, name: &str) -> Result<Kernel, EngineError> {
        Ok(self.module.kernel(name)?)
    }

    /// A launch with a thread for each of so many pieces of work, as far as the device has room.
    pub(crate) fn by_thread(&self, pieces: usize) -> Launch {
        let blocks = pieces.div_ceil(THREADS as usize).max(1);
        Launch::new(u32::try_from(blocks).map_or(self.most_blocks, |few| few.min(self.most_blocks)), THREADS)
    }

    /// A launch with a block for each of so many rows of so many numbers, as far as the device has
    /// room.
    pub(crate) fn by_block(&self, rows: usize, length: usize) -> Launch {
        let blocks = u32::try_from(rows.max(1)).unwrap_or(u32::MAX).min(self.most_blocks * 8);
        let threads = u32::try_from(length.next_multiple_of(32)).unwrap_or(1024).clamp(32, 1024);
        Launch::new(blocks, threads)
    }

    /// Queues the filling of an array; of 32-bit integers, with whole numbers below
    /// [`Filling::center`].
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// There must be so many numbers at `address`, entered in a submission that is alive.
    #[expect(unsafe_code, reason = "launches a kernel")]
    pub(crate) unsafe fn fill(
        &self,
        stream: &Stream,
        address: u64,
        (elements, numbers): (usize, Numbers),
        filling: Filling,
        seed: u64,
    ) -> Result<(), EngineError> {
        if elements == 0 {
            return Ok(());
        }
        let arguments = Arguments::default().addresses([address]).u64(elements as u64).u64(seed);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a whole number")]
        let (name, arguments) = match numbers {
            Numbers::I32 => ("fill_indexes", arguments.u32(filling.center.max(1.0) as u32)),
            Numbers::F32 => ("fill_floats", arguments.f32(filling.center).f32(filling.width)),
            Numbers::F16 | Numbers::Bf16 | Numbers::I8 => {
                ("fill_numbers", arguments.f32(filling.center).f32(filling.width))
            }
        };
        let kernel = self.kernel(name)?;
        // SAFETY: these are the kernel's arguments; the array is the caller's promise.
        Ok(unsafe { self.by_thread(elements).queue(stream, &kernel, arguments) }?)
    }
}
