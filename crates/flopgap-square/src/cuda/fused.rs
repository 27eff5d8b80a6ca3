//! A layer in one kernel, activation included.

use flopgap_gpu::compile::Compiler;
use flopgap_gpu::launch::{Arguments, Launch};
use flopgap_gpu::{Context, DeviceSlice as _, GpuError, Kernel, Stream, View, ViewMut};

use super::compile::compile;
use crate::SquareError;

/// The file name and the kernels.
pub(super) const SOURCE: (&str, &str) =
    ("fused.cu", concat!(include_str!("common.cuh"), "#line 1\n", include_str!("fused.cu")));

/// Threads of a block; `THREADS` in `fused.cu`.
const THREADS: u32 = 256;
/// Rows and columns that a block of a fused kernel computes; `TILE` in `fused.cu`.
const TILE: usize = 64;
/// Terms of the inner sum that it takes at a time; `STAGE` in `fused.cu`.
const STAGE: usize = 32;

/// A layer in one kernel.
#[derive(Debug)]
pub(super) struct Fused {
    variants: Vec<Variant>,
    multiprocessors: usize,
}

/// The kernels for one way to split the inner sum: `[aligned, any]`.
#[derive(Debug)]
struct Variant {
    split: u32,
    forward: [Kernel; 2],
    backward: [Kernel; 2],
}

impl Fused {
    pub(super) fn new(compiler: &Compiler, gpu: &Context) -> Result<Self, SquareError> {
        let module = compile(compiler, gpu, SOURCE)?;
        let pair = |pass: &str, split: u32| -> Result<[Kernel; 2], GpuError> {
            let kernel = |alignment: &str| module.kernel(&format!("fused_mlp_{pass}_{alignment}_{split}"));
            Ok([kernel("aligned")?, kernel("any")?])
        };
        // Clusters came with Hopper.
        let splits: &[u32] = if gpu.device().compute_capability.major >= 9 { &[1, 2, 4, 8] } else { &[1] };
        let variants = splits.iter().map(|&split| {
            Ok(Variant { split, forward: pair("forward", split)?, backward: pair("backward", split)? })
        });
        Ok(Fused {
            variants: variants.collect::<Result<_, GpuError>>()?,
            multiprocessors: gpu.device().multiprocessors as usize,
        })
    }

    /// Splits the inner sum as long as there are multiprocessors without work and stages to share
    /// out.
    fn pick(&self, width: usize, samples: usize) -> Result<(&Variant, usize, Launch), GpuError> {
        let (columns, rows) = (samples.div_ceil(TILE), width.div_ceil(TILE));
        let fits = |variant: &&Variant| {
            let split = variant.split as usize;
            columns.saturating_mul(rows).saturating_mul(split) <= self.multiprocessors
                && split <= width.div_ceil(STAGE)
        };
        let variant = self.variants.iter().rev().find(fits).unwrap_or(&self.variants[0]);
        let size = |what, value: usize| u32::try_from(value).map_err(|_| GpuError::TooLarge { what, value });
        let grid = (size("the samples", columns)?, size("the width", rows)?, variant.split);
        if grid.1 > 65_535 {
            return Err(GpuError::TooLarge { what: "the width", value: width });
        }
        let alignment = usize::from(!(width.is_multiple_of(4) && samples.is_multiple_of(4)));
        Ok((variant, alignment, Launch { grid, ..Launch::new(grid.0, THREADS) }))
    }

    /// `out = sigmoid(weights * panel)`.
    pub(super) fn forward(
        &self,
        place: &Place<'_>,
        weights: &View<'_, f32>,
        panel: &View<'_, f32>,
        out: &mut ViewMut<'_, f32>,
    ) -> Result<(), GpuError> {
        let (variant, alignment, launch) = self.checked(place.sizes, weights, &[panel.len(), out.len()])?;
        let arrays = Arguments::default().read(weights).read(panel).write(out);
        // SAFETY: the arguments are the kernel's, and the arrays have the lengths that width and
        // samples say, checked above. The aligned kernel is taken where both are multiples of 4:
        // every matrix and panel of a network then begins at 16 bytes.
        unsafe { place.queue(launch, &variant.forward[alignment], arrays) }
    }

    /// `out = (weights^T * panel) * (1 - y) * y`.
    pub(super) fn backward(
        &self,
        place: &Place<'_>,
        weights: &View<'_, f32>,
        panel: &View<'_, f32>,
        y: &View<'_, f32>,
        out: &mut ViewMut<'_, f32>,
    ) -> Result<(), GpuError> {
        let (variant, alignment, launch) =
            self.checked(place.sizes, weights, &[panel.len(), y.len(), out.len()])?;
        let arrays = Arguments::default().read(weights).read(panel).read(y).write(out);
        // SAFETY: as in `forward`.
        unsafe { place.queue(launch, &variant.backward[alignment], arrays) }
    }

    fn checked(
        &self,
        sizes: [i32; 2],
        weights: &View<'_, f32>,
        panels: &[usize],
    ) -> Result<(&Variant, usize, Launch), GpuError> {
        let [width, samples] = sizes.map(|size| usize::try_from(size).unwrap_or(0));
        let enough = |what, needed: usize, found: usize| {
            if found < needed { Err(GpuError::Length { what, needed, found }) } else { Ok(()) }
        };
        enough("weights of a layer", width * width, weights.len())?;
        for &panel in panels {
            enough("numbers between layers", width * samples, panel)?;
        }
        self.pick(width, samples)
    }
}

/// Where and on what a layer runs.
#[derive(Debug)]
pub(super) struct Place<'a> {
    pub(super) stream: &'a Stream,
    /// Width and samples.
    pub(super) sizes: [i32; 2],
    /// Whether what was queued on the stream just before is a layer, too: then this one may begin
    /// before that one has ended, and waits for it where it needs its result (programmatic
    /// dependent launch, which came with Hopper).
    pub(super) follows_layer: bool,
}

impl Place<'_> {
    /// Queues a fused kernel, whose arguments are arrays, then width and samples.
    ///
    /// # Safety
    /// The kernel must take these arguments, and the arrays must be what it expects.
    unsafe fn queue(&self, launch: Launch, kernel: &Kernel, arrays: Arguments<'_>) -> Result<(), GpuError> {
        let [width, samples] = self.sizes;
        let arguments = arrays.i32(width).i32(samples);
        let hopper = self.stream.context().device().compute_capability.major >= 9;
        // SAFETY: the caller's promise.
        unsafe {
            Launch { overlap: hopper && self.follows_layer, ..launch }.queue(self.stream, kernel, arguments)
        }
    }
}
