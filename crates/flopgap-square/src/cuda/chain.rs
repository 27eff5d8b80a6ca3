//! All layers of a pass in one launch, for wide networks.

use std::sync::{Mutex, PoisonError};

use flopgap_gpu::compile::Compiler;
use flopgap_gpu::launch::{Arguments, Launch};
use flopgap_gpu::{Buffer, Context, GpuError, Kernel, Stream};

use super::compile::compile;
use super::small::Arrays;
use crate::Shape;
use crate::SquareError;

/// The file name and the kernels.
pub(super) const SOURCE: (&str, &str) =
    ("chain.cu", concat!(include_str!("common.cuh"), "#line 1\n", include_str!("chain.cu")));

/// Threads of a block; `Chain::THREADS` in `chain.cu`.
const THREADS: u32 = 256;
/// The width is a multiple of the terms of a stage, `BK` in `chain.cu`, and so of the rows of every
/// tile.
const STEP: usize = 128;
/// Blocks of columns that are waited for apart from each other, at most.
const COLUMN_BLOCKS: usize = 1023;

/// The kernels for one size of tiles.
#[derive(Debug)]
struct Variant {
    sizes: Sizes,
    forward: Kernel,
    backward: Kernel,
}

/// The numbers in `KERNELS` of `chain.cu`, and what was measured on an H200.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    /// Rows and columns of a tile.
    tile: usize,
    /// Shared memory of a block: `Chain::SHARED`.
    shared_bytes: usize,
    /// Picoseconds that a block takes for a term of the inner sum.
    term_ps: usize,
}

const SIZES: [Sizes; 2] = [
    Sizes { tile: 64, shared_bytes: 212_992, term_ps: 24_000 },
    Sizes { tile: 32, shared_bytes: 204_800, term_ps: 7_500 },
];

/// A whole pass in one launch. A block computes a tile of each layer and waits for the other blocks
/// of its columns, so all blocks must be on the device at a time: the launch is cooperative, one
/// block a multiprocessor.
#[derive(Debug)]
pub(super) struct Chain {
    variants: Vec<Variant>,
    multiprocessors: usize,
    /// Tiles that are done, for each block of columns, and blocks that have ended; 0 between
    /// launches. Launches of an engine are on one stream, so one set is enough.
    arrived: Mutex<Buffer<u32>>,
}

impl Chain {
    /// The kernels that the device can run: none where a block cannot have the shared memory.
    pub(super) fn new(compiler: &Compiler, gpu: &Context, stream: &Stream) -> Result<Self, SquareError> {
        let device = gpu.device();
        let mut chain = Chain {
            variants: Vec::new(),
            multiprocessors: device.multiprocessors as usize,
            arrived: Mutex::new(stream.zeros(COLUMN_BLOCKS + 1)?),
        };
        let enough = SIZES.iter().all(|sizes| sizes.shared_bytes as u64 <= device.shared_bytes_per_block);
        if device.compute_capability.major < 9 || !enough {
            return Ok(chain);
        }
        let module = compile(compiler, gpu, SOURCE)?;
        for sizes in SIZES {
            let kernel = |pass: &str| -> Result<Kernel, GpuError> {
                module
                    .kernel_with_shared(&format!("fused_mlp_{pass}_chain_{}", sizes.tile), sizes.shared_bytes)
            };
            chain.variants.push(Variant {
                sizes,
                forward: kernel("forward")?,
                backward: kernel("backward")?,
            });
        }
        Ok(chain)
    }

    /// Whether it computes networks of this shape.
    pub(super) fn takes(&self, shape: Shape) -> bool {
        shape.width().is_multiple_of(STEP)
            && shape.samples().is_multiple_of(4)
            && SIZES.iter().all(|sizes| shape.samples().div_ceil(sizes.tile) <= COLUMN_BLOCKS)
            && !self.variants.is_empty()
    }

    /// The tiles that take the least time: small ones where large ones leave multiprocessors
    /// without work.
    fn pick(&self, shape: Shape) -> Option<&Variant> {
        let time = |variant: &&Variant| {
            let rounds = tiles(variant.sizes, shape).div_ceil(self.multiprocessors);
            rounds.saturating_mul(variant.sizes.term_ps)
        };
        self.variants.iter().filter(|_| self.takes(shape)).min_by_key(time)
    }

    /// The output of every layer.
    pub(super) fn forward(
        &self,
        stream: &Stream,
        shape: Shape,
        arrays: &mut Arrays<'_>,
    ) -> Result<(), GpuError> {
        let variant = self.checked(shape, arrays)?;
        let submission = stream.submission();
        let activations = submission.write(arrays.activations)?;
        let pointers = [submission.read(arrays.weights)?, activations, activations, activations];
        // SAFETY: the arguments are the kernel's, and the arrays have the lengths of the shape, as
        // `checked` saw. `y` is not read.
        unsafe { self.launch(stream, variant, &variant.forward, shape, shape.layers(), pointers) }
    }

    /// The gradients before the activations of all layers but the last, from that of the last.
    pub(super) fn backward(
        &self,
        stream: &Stream,
        shape: Shape,
        arrays: &mut Arrays<'_>,
    ) -> Result<(), GpuError> {
        let layers = shape.layers() - 1;
        if layers == 0 {
            return Ok(());
        }
        let variant = self.checked(shape, arrays)?;
        let submission = stream.submission();
        let weights = submission.read(&arrays.weights.slice(shape.matrix()..))?;
        let deltas = submission.write(arrays.deltas)?;
        let pointers = [weights, deltas, submission.read(&*arrays.activations)?, deltas];
        // SAFETY: as in `forward`.
        unsafe { self.launch(stream, variant, &variant.backward, shape, layers, pointers) }
    }

    fn checked(&self, shape: Shape, arrays: &Arrays<'_>) -> Result<&Variant, GpuError> {
        arrays.check(shape)?;
        self.pick(shape).ok_or(GpuError::TooLarge { what: "the samples", value: shape.samples() })
    }

    /// # Safety
    /// The kernel must take these arrays, which must have the lengths of the shape, and be entered
    /// in a submission that lives until it is queued.
    unsafe fn launch(
        &self,
        stream: &Stream,
        variant: &Variant,
        kernel: &Kernel,
        shape: Shape,
        layers: usize,
        pointers: [u64; 4],
    ) -> Result<(), GpuError> {
        let size = |what, value| i32::try_from(value).map_err(|_| GpuError::TooLarge { what, value });
        let blocks = tiles(variant.sizes, shape).min(self.multiprocessors);
        let mut arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        let arguments = Arguments::default()
            .addresses(pointers)
            .i32(size("the layers", layers)?)
            .i32(size("the width", shape.width())?)
            .i32(size("the samples", shape.samples())?)
            .write(&mut *arrived);
        let launch = Launch {
            shared: variant.sizes.shared_bytes,
            cooperative: true,
            ..Launch::new(u32::try_from(blocks).unwrap_or(u32::MAX), THREADS)
        };
        // SAFETY: the caller's promise.
        unsafe { launch.queue(stream, kernel, arguments) }
    }
}

/// Tiles of a layer.
fn tiles(sizes: Sizes, shape: Shape) -> usize {
    (shape.width() / sizes.tile).saturating_mul(shape.samples().div_ceil(sizes.tile))
}
