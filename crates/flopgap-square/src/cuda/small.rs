//! A whole pass of a narrow network in one launch.

use flopgap_gpu::compile::Compiler;
use flopgap_gpu::launch::{Arguments, Launch};
use flopgap_gpu::{Buffer, Context, GpuError, Kernel, Stream};

use super::compile::compile;
use super::pointwise::{PARTIALS, Sum};
use crate::Shape;
use crate::SquareError;

/// The file name and the kernels.
pub(super) const SOURCE: (&str, &str) =
    ("small.cu", concat!(include_str!("common.cuh"), "#line 1\n", include_str!("small.cu")));

/// Columns of the panel that a cluster takes; `COLUMNS` in `small.cu`.
const COLUMNS: usize = 16;

/// The kernels of `small.cu` for widths up to a limit.
#[derive(Debug)]
struct Variant {
    sizes: Sizes,
    /// `[aligned, any]`.
    forward: [Kernel; 2],
    backward: [Kernel; 2],
}

/// How a variant divides a layer: the numbers in `KERNELS` of `small.cu`. A layer of the largest
/// width takes 8 blocks, and clusters of 8 are possible on every device that has clusters.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    /// The largest width.
    width: usize,
    /// Rows that a block computes.
    rows: usize,
    /// Threads of a block: 16 for each row.
    threads: u32,
    /// Blocks of the forward pass that a multiprocessor holds.
    resident: usize,
    /// Shared memory of a block of the backward pass: at least that of `Shared`.
    shared_bytes: usize,
}

const SIZES: [Sizes; 2] = [
    Sizes { width: 128, rows: 16, threads: 256, resident: 2, shared_bytes: 60_560 },
    Sizes { width: 256, rows: 32, threads: 512, resident: 1, shared_bytes: 153_264 },
];

impl Variant {
    /// Blocks of a cluster. At least 2, without which memory of the cluster is none to
    /// `compute-sanitizer`.
    fn cluster(&self, shape: Shape) -> usize {
        shape.width().div_ceil(self.sizes.rows).next_power_of_two().max(2)
    }
}

/// A whole pass in one launch.
#[derive(Debug)]
pub(super) struct Small {
    variants: Vec<Variant>,
    multiprocessors: usize,
}

/// The arrays of a network.
#[derive(Debug)]
pub(super) struct Arrays<'a> {
    pub(super) weights: &'a Buffer<f32>,
    pub(super) activations: &'a mut Buffer<f32>,
    pub(super) deltas: &'a mut Buffer<f32>,
    pub(super) gradients: &'a mut Buffer<f32>,
    pub(super) sum: &'a mut Sum,
}

impl Arrays<'_> {
    /// Whether they are as long as the shape says.
    pub(super) fn check(&self, shape: Shape) -> Result<(), GpuError> {
        for (what, needed, found) in [
            ("weights", shape.weights(), self.weights.len()),
            ("activations", shape.activations(), self.activations.len()),
            ("gradients before activations", shape.deltas(), self.deltas.len()),
            ("gradients of weights", shape.weights(), self.gradients.len()),
        ] {
            if found < needed {
                return Err(GpuError::Length { what, needed, found });
            }
        }
        Ok(())
    }
}

impl Small {
    /// The kernels that the device can run: none without clusters, which came with Hopper.
    pub(super) fn new(compiler: &Compiler, gpu: &Context) -> Result<Self, SquareError> {
        if gpu.device().compute_capability.major < 9 {
            return Ok(Small { variants: Vec::new(), multiprocessors: 0 });
        }
        let module = compile(compiler, gpu, SOURCE)?;
        // Some devices with clusters have less shared memory than the wider kernel takes.
        let available = gpu.device().shared_bytes_per_block;
        let possible = SIZES.into_iter().filter(|sizes| sizes.shared_bytes as u64 <= available);
        let variants = possible.map(|sizes| {
            let pair = |pass: &str, shared_bytes| -> Result<[Kernel; 2], GpuError> {
                let kernel = |alignment| {
                    let name = format!("fused_mlp_{pass}_small_{alignment}_{}", sizes.width);
                    module.kernel_with_shared(&name, shared_bytes)
                };
                Ok([kernel("aligned")?, kernel("any")?])
            };
            Ok(Variant {
                sizes,
                forward: pair("forward", 0)?,
                backward: pair("backward", sizes.shared_bytes)?,
            })
        });
        let multiprocessors = gpu.device().multiprocessors as usize;
        Ok(Small { variants: variants.collect::<Result<_, GpuError>>()?, multiprocessors })
    }

    /// Whether it computes networks of this shape.
    pub(super) fn takes(&self, shape: Shape) -> bool {
        self.variant(shape).is_some() && shape.samples() <= COLUMNS * PARTIALS as usize
    }

    /// Whether it is the fastest way forward, too: as long as the device holds all clusters at a
    /// time. Every cluster reads all weights, so with more of them large tiles are faster.
    pub(super) fn suits_forward(&self, shape: Shape) -> bool {
        self.variant(shape).is_some_and(|variant| self.fits(variant, shape, variant.sizes.resident))
    }

    /// The same for the backward pass, which has more to do for each block: one a multiprocessor.
    pub(super) fn suits_backward(&self, shape: Shape) -> bool {
        self.variant(shape).is_some_and(|variant| self.fits(variant, shape, 1))
    }

    fn fits(&self, variant: &Variant, shape: Shape, blocks: usize) -> bool {
        let clusters = shape.samples().div_ceil(COLUMNS);
        self.takes(shape) && clusters.saturating_mul(variant.cluster(shape)) <= self.multiprocessors * blocks
    }

    /// Whether the backward pass computes the gradients of the weights, too; it leaves the
    /// gradients before the activations otherwise.
    pub(super) fn gives_gradients(shape: Shape) -> bool {
        shape.samples() <= COLUMNS
    }

    fn variant(&self, shape: Shape) -> Option<&Variant> {
        self.variants.iter().find(|variant| shape.width() <= variant.sizes.width)
    }

    /// The output of every layer. `follows`: whether what was queued on the stream just before
    /// leaves the weights alone; this pass then fetches its first ones while that ends.
    pub(super) fn forward(
        &self,
        stream: &Stream,
        shape: Shape,
        arrays: &mut Arrays<'_>,
        follows: bool,
    ) -> Result<(), GpuError> {
        let ready = self.ready(shape, arrays, follows)?;
        let arguments = ready.sizes(Arguments::default().read(arrays.weights).write(arrays.activations));
        // SAFETY: the arguments are the kernel's, and the arrays have the lengths of the shape, as
        // `ready` checked.
        unsafe { ready.launch.queue(stream, &ready.variant.forward[ready.alignment], arguments) }
    }

    /// The loss, and the gradients of the weights or those before the activations: see
    /// [`Small::gives_gradients`]. It begins to fetch weights before what was queued just before
    /// has ended: nothing may write them between a forward pass and this.
    pub(super) fn backward(
        &self,
        stream: &Stream,
        shape: Shape,
        arrays: &mut Arrays<'_>,
    ) -> Result<(), GpuError> {
        let ready = self.ready(shape, arrays, true)?;
        let arguments = Arguments::default()
            .read(arrays.weights)
            .write(arrays.activations)
            .write(arrays.deltas)
            .write(arrays.gradients)
            .write(&mut arrays.sum.partial)
            .write(&mut arrays.sum.arrived)
            .write(&mut arrays.sum.loss);
        let arguments = ready.sizes(arguments);
        let launch = Launch { shared: ready.variant.sizes.shared_bytes, ..ready.launch };
        // SAFETY: as in `forward`; there are at most `PARTIALS` clusters, and `Sum::new` made as
        // many partial sums.
        unsafe { launch.queue(stream, &ready.variant.backward[ready.alignment], arguments) }
    }

    fn ready(&self, shape: Shape, arrays: &Arrays<'_>, follows: bool) -> Result<Ready<'_>, GpuError> {
        arrays.check(shape)?;
        let too_large = |what, value| GpuError::TooLarge { what, value };
        let (layers, width, samples) = (shape.layers(), shape.width(), shape.samples());
        if !self.takes(shape) {
            return Err(too_large("the samples", samples));
        }
        let variant = self.variant(shape).ok_or_else(|| too_large("the width", width))?;
        let size = |what, value| i32::try_from(value).map_err(|_| too_large(what, value));
        let count = |what, value| u32::try_from(value).map_err(|_| too_large(what, value));
        let cluster = count("the width", variant.cluster(shape))?;
        let clusters = count("the samples", samples.div_ceil(COLUMNS))?;
        Ok(Ready {
            variant,
            alignment: usize::from(!(width.is_multiple_of(4) && samples.is_multiple_of(4))),
            sizes: [size("the layers", layers)?, size("the width", width)?, size("the samples", samples)?],
            launch: Launch {
                grid: (cluster, clusters, 1),
                cluster,
                overlap: follows,
                ..Launch::new(cluster, variant.sizes.threads)
            },
        })
    }
}

/// A pass whose sizes are checked.
#[derive(Debug)]
struct Ready<'a> {
    variant: &'a Variant,
    /// Which of `[aligned, any]`.
    alignment: usize,
    /// Layers, width and samples, as the kernels take them.
    sizes: [i32; 3],
    launch: Launch,
}

impl Ready<'_> {
    /// The sizes after the arrays.
    fn sizes<'a>(&self, arrays: Arguments<'a>) -> Arguments<'a> {
        self.sizes.into_iter().fold(arrays, Arguments::i32)
    }
}
