//! Our kernels: their sources, and launches with checked sizes.

use flopgap_gpu::compile::{Architecture, CompileError, Compiler};
use flopgap_gpu::cudarc::driver::{CudaView, CudaViewMut, DevicePtr as _, DevicePtrMut as _};
use flopgap_gpu::launch::{Arguments, Launch};
use flopgap_gpu::{Buffer, Context, Device, GpuError, Kernel, LaunchConfig, PushKernelArg as _, Stream};

use crate::MlpError;

/// What is compiled at run time: file names and sources. The kernels are header-free CUDA C.
pub const SOURCES: [(&str, &str); 4] = [
    ("pointwise.cu", concat!(include_str!("common.cuh"), "#line 1\n", include_str!("pointwise.cu"))),
    ("fused.cu", concat!(include_str!("common.cuh"), "#line 1\n", include_str!("fused.cu"))),
    ("small.cu", concat!(include_str!("common.cuh"), "#line 1\n", include_str!("small.cu"))),
    ("chain.cu", concat!(include_str!("common.cuh"), "#line 1\n", include_str!("chain.cu"))),
];

/// How the sources are compiled. Nothing trades accuracy for speed: no fast mathematics, division is exact to the last bit.
pub const OPTIONS: [&str; 1] = ["--ptxas-options=-v"];

/// Threads of a block, in every kernel of ours.
const THREADS: u32 = 256;

/// Blocks of a sum of the loss, at most.
pub(super) const PARTIALS: u32 = 1024;

/// The kernels that work on every number by itself.
#[derive(Debug)]
pub(super) struct Pointwise {
    random: Kernel,
    forward: Kernel,
    backward: Kernel,
    backward_of_sum: Kernel,
    loss: Kernel,
    blocks: u32,
}

/// Compiles one of [`SOURCES`] and loads it.
pub(super) fn compile(
    compiler: &Compiler,
    gpu: &Context,
    index: usize,
) -> Result<flopgap_gpu::Module, MlpError> {
    let (name, source) = SOURCES[index];
    let architecture: Architecture = gpu.device().compute_capability.into();
    let binary = compiler.compile(name, source, architecture, &OPTIONS)?;
    Ok(gpu.load(&binary)?)
}

/// Blocks that fill the device as often as it holds them.
fn resident_blocks(device: &Device) -> u32 {
    (device.multiprocessors * (device.threads_per_multiprocessor / THREADS)).max(1)
}

/// One thread for four numbers, in at most this many blocks.
fn in_fours(length: usize, most: u32) -> LaunchConfig {
    let needed = length.div_ceil(4 * THREADS as usize).max(1);
    let blocks = u32::try_from(needed).unwrap_or(u32::MAX).min(most);
    LaunchConfig { grid_dim: (blocks, 1, 1), block_dim: (THREADS, 1, 1), shared_mem_bytes: 0 }
}

impl Pointwise {
    pub(super) fn new(compiler: &Compiler, gpu: &Context) -> Result<Self, MlpError> {
        let module = compile(compiler, gpu, 0)?;
        Ok(Pointwise {
            random: module.kernel("random_uniform_init")?,
            forward: module.kernel("sigmoid_forward")?,
            backward: module.kernel("sigmoid_backward")?,
            backward_of_sum: module.kernel("sigmoid_backward_of_sum")?,
            loss: module.kernel("loss_sum_reduce")?,
            blocks: resident_blocks(gpu.device()),
        })
    }

    /// Elements `first`, `first + 1`, ... of the sequence of `seed`, times `bound`.
    pub(super) fn random(
        &self,
        stream: &Stream,
        x: &mut CudaViewMut<'_, f32>,
        seed: u64,
        first: u64,
        bound: f32,
    ) -> Result<(), GpuError> {
        let length = x.len() as u64;
        let shape = in_fours(x.len(), self.blocks);
        let mut launch = stream.launch_builder(&self.random);
        launch.arg(x).arg(&length).arg(&seed).arg(&first).arg(&bound);
        // SAFETY: the arguments are the kernel's, and it writes `length` numbers.
        unsafe { launch.launch(shape) }?;
        Ok(())
    }

    /// `x = sigmoid(x)`.
    pub(super) fn forward(&self, stream: &Stream, x: &mut CudaViewMut<'_, f32>) -> Result<(), GpuError> {
        let length = x.len() as u64;
        let shape = in_fours(x.len(), self.blocks);
        let mut launch = stream.launch_builder(&self.forward);
        launch.arg(x).arg(&length);
        // SAFETY: the arguments are the kernel's, and it reads and writes `length` numbers.
        unsafe { launch.launch(shape) }?;
        Ok(())
    }

    /// `x = x * (1 - y) * y`.
    pub(super) fn backward(
        &self,
        stream: &Stream,
        x: &mut CudaViewMut<'_, f32>,
        y: &CudaView<'_, f32>,
    ) -> Result<(), GpuError> {
        self.gradient(&self.backward, stream, x, y)
    }

    /// `x = (1 - y) * y`: the gradient by the output is 1.
    pub(super) fn backward_of_sum(
        &self,
        stream: &Stream,
        x: &mut CudaViewMut<'_, f32>,
        y: &CudaView<'_, f32>,
    ) -> Result<(), GpuError> {
        self.gradient(&self.backward_of_sum, stream, x, y)
    }

    fn gradient(
        &self,
        kernel: &Kernel,
        stream: &Stream,
        x: &mut CudaViewMut<'_, f32>,
        y: &CudaView<'_, f32>,
    ) -> Result<(), GpuError> {
        let length = x.len().min(y.len());
        let shape = in_fours(length, self.blocks);
        let length = length as u64;
        let mut launch = stream.launch_builder(kernel);
        launch.arg(x).arg(y).arg(&length);
        // SAFETY: the arguments are those of both kernels, and both arrays have `length` numbers.
        unsafe { launch.launch(shape) }?;
        Ok(())
    }

    /// The sum of `y`, the same bits in every run. `partial` has [`PARTIALS`] elements, `arrived` and `loss` one each.
    pub(super) fn loss(&self, stream: &Stream, y: &CudaView<'_, f32>, sum: &mut Sum) -> Result<(), GpuError> {
        let length = y.len() as u64;
        let shape = in_fours(y.len(), self.blocks.min(PARTIALS));
        let mut launch = stream.launch_builder(&self.loss);
        launch.arg(y).arg(&length).arg(&mut sum.partial).arg(&mut sum.arrived).arg(&mut sum.loss);
        // SAFETY: the arguments are the kernel's; there are at most `PARTIALS` blocks, and `Sum::new` made as many partial sums.
        unsafe { launch.launch(shape) }?;
        Ok(())
    }
}

/// What a sum over all blocks needs.
#[derive(Debug)]
pub(super) struct Sum {
    /// [`PARTIALS`] of them.
    pub(super) partial: Buffer<f32>,
    /// 0 before and after.
    pub(super) arrived: Buffer<u32>,
    pub(super) loss: Buffer<f32>,
}

impl Sum {
    pub(super) fn new(stream: &Stream) -> Result<Self, GpuError> {
        // SAFETY: any bits are a float; a sum writes what it reads, and the loss.
        let unwritten = |numbers| unsafe { stream.unwritten(numbers) };
        Ok(Sum { partial: unwritten(PARTIALS as usize)?, arrived: stream.zeros(1)?, loss: unwritten(1)? })
    }
}

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
    pub(super) fn new(compiler: &Compiler, gpu: &Context) -> Result<Self, MlpError> {
        let module = compile(compiler, gpu, 1)?;
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

    /// Splits the inner sum as long as there are multiprocessors without work and stages to share out.
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
        weights: &CudaView<'_, f32>,
        panel: &CudaView<'_, f32>,
        out: &mut CudaViewMut<'_, f32>,
    ) -> Result<(), GpuError> {
        let stream = place.stream.cuda();
        let (variant, alignment, launch) = self.checked(place.sizes, weights, &[panel.len(), out.len()])?;
        let pointers =
            [weights.device_ptr(stream).0, panel.device_ptr(stream).0, out.device_ptr_mut(stream).0];
        // SAFETY: the arguments are the kernel's, and the arrays have the lengths that width and samples say, checked above. The
        // aligned kernel is taken where both are multiples of 4: every matrix and panel of a network then begins at 16 bytes.
        unsafe { place.queue(launch, &variant.forward[alignment], pointers) }
    }

    /// `out = (weights^T * panel) * (1 - y) * y`.
    pub(super) fn backward(
        &self,
        place: &Place<'_>,
        weights: &CudaView<'_, f32>,
        panel: &CudaView<'_, f32>,
        y: &CudaView<'_, f32>,
        out: &mut CudaViewMut<'_, f32>,
    ) -> Result<(), GpuError> {
        let stream = place.stream.cuda();
        let (variant, alignment, launch) =
            self.checked(place.sizes, weights, &[panel.len(), y.len(), out.len()])?;
        let pointers = [
            weights.device_ptr(stream).0,
            panel.device_ptr(stream).0,
            y.device_ptr(stream).0,
            out.device_ptr_mut(stream).0,
        ];
        // SAFETY: as in `forward`.
        unsafe { place.queue(launch, &variant.backward[alignment], pointers) }
    }

    fn checked(
        &self,
        sizes: [i32; 2],
        weights: &CudaView<'_, f32>,
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
    /// Whether what was queued on the stream just before is a layer, too: then this one may begin before that one has ended, and waits for it
    /// where it needs its result (programmatic dependent launch, which came with Hopper).
    pub(super) follows_layer: bool,
}

impl Place<'_> {
    /// Queues a fused kernel, whose arguments are arrays, then width and samples.
    ///
    /// # Safety
    /// The kernel must take these arguments, and the arrays must be what it expects.
    unsafe fn queue<const N: usize>(
        &self,
        launch: Launch,
        kernel: &Kernel,
        arrays: [u64; N],
    ) -> Result<(), GpuError> {
        let [width, samples] = self.sizes;
        let arguments = Arguments::default().addresses(arrays).i32(width).i32(samples);
        let hopper = self.stream.context().device().compute_capability.major >= 9;
        // SAFETY: the caller's promise.
        unsafe {
            Launch { overlap: hopper && self.follows_layer, ..launch }.queue(self.stream, kernel, arguments)
        }
    }
}

/// Compiles every kernel of the network that an architecture can run, without a GPU.
///
/// # Errors
/// When the compiler refuses one.
pub fn compile_all(compiler: &Compiler, architecture: Architecture) -> Result<Vec<String>, CompileError> {
    // Those of small.cu need clusters, and those of chain.cu more shared memory than others have.
    let exists = |&(name, _): &(&str, &str)| {
        !["small.cu", "chain.cu"].contains(&name) || architecture.capability.major >= 9
    };
    let log = |(name, source)| Ok(compiler.compile(name, source, architecture, &OPTIONS)?.log().to_owned());
    SOURCES.into_iter().filter(exists).map(log).collect()
}
