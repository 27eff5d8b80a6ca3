//! A whole pass of a narrow network in one launch.

use std::ffi::c_void;
use std::ptr;

use flopgap_gpu::compile::Compiler;
use flopgap_gpu::cudarc::driver::{DevicePtr as _, DevicePtrMut as _, sys};
use flopgap_gpu::{Buffer, Context, GpuError, Kernel, Stream};

use super::kernels::{self, MAX_SHARED, PARTIALS, Sum};
use crate::MlpError;
use crate::square::Shape;

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

/// How a variant divides a layer: the numbers in `KERNELS` of `small.cu`. A layer of the largest width takes 8 blocks, and clusters of 8 are
/// possible on every device that has clusters.
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
    shared_bytes: u32,
}

const SIZES: [Sizes; 2] = [
    Sizes { width: 128, rows: 16, threads: 256, resident: 2, shared_bytes: 60_560 },
    Sizes { width: 256, rows: 32, threads: 512, resident: 1, shared_bytes: 153_264 },
];

impl Variant {
    /// Blocks of a cluster. At least 2, without which memory of the cluster is none to `compute-sanitizer`.
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
    pub(super) fn new(compiler: &Compiler, gpu: &Context) -> Result<Self, MlpError> {
        if gpu.device().compute_capability.major < 9 {
            return Ok(Small { variants: Vec::new(), multiprocessors: 0 });
        }
        let module = kernels::compile(compiler, gpu, 2)?;
        // Some devices with clusters have less shared memory than the wider kernel takes.
        let available = gpu.device().shared_bytes_per_block;
        let possible = SIZES.into_iter().filter(|sizes| u64::from(sizes.shared_bytes) <= available);
        let variants = possible.map(|sizes| {
            let pair = |pass: &str| -> Result<[Kernel; 2], GpuError> {
                let kernel =
                    |alignment| module.kernel(&format!("fused_mlp_{pass}_small_{alignment}_{}", sizes.width));
                Ok([kernel("aligned")?, kernel("any")?])
            };
            let variant = Variant { sizes, forward: pair("forward")?, backward: pair("backward")? };
            for kernel in &variant.backward {
                let bytes = i32::try_from(sizes.shared_bytes).unwrap_or(i32::MAX);
                kernel.set_attribute(MAX_SHARED, bytes)?;
            }
            Ok(variant)
        });
        let multiprocessors = gpu.device().multiprocessors as usize;
        Ok(Small { variants: variants.collect::<Result<_, GpuError>>()?, multiprocessors })
    }

    /// Whether it computes networks of this shape.
    pub(super) fn takes(&self, shape: Shape) -> bool {
        self.variant(shape).is_some() && shape.samples() <= COLUMNS * PARTIALS as usize
    }

    /// Whether it is the fastest way forward, too: as long as the device holds all clusters at a time. Every cluster reads all weights, so with more of
    /// them large tiles are faster.
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

    /// Whether the backward pass computes the gradients of the weights, too; it leaves the gradients before the activations otherwise.
    pub(super) fn gives_gradients(shape: Shape) -> bool {
        shape.samples() <= COLUMNS
    }

    fn variant(&self, shape: Shape) -> Option<&Variant> {
        self.variants.iter().find(|variant| shape.width() <= variant.sizes.width)
    }

    /// The output of every layer. `follows`: whether what was queued on the stream just before leaves the weights alone; this pass then fetches
    /// its first ones while that ends.
    pub(super) fn forward(
        &self,
        stream: &Stream,
        shape: Shape,
        arrays: &mut Arrays<'_>,
        follows: bool,
    ) -> Result<(), GpuError> {
        let launch = self.launch(stream, shape, arrays, follows)?;
        let cuda = stream.cuda();
        let (mut weights, _weights) = arrays.weights.device_ptr(cuda);
        let (mut activations, _activations) = arrays.activations.device_ptr_mut(cuda);
        let [mut layers, mut width, mut samples] = launch.sizes;
        let mut arguments = [
            pointer(&mut weights),
            pointer(&mut activations),
            pointer(&mut layers),
            pointer(&mut width),
            pointer(&mut samples),
        ];
        // SAFETY: the arguments are the kernel's, and the arrays have the lengths of the shape, as `launch` checked.
        unsafe { launch.run(&launch.variant.forward[launch.alignment], 0, &mut arguments) }
    }

    /// The loss, and the gradients of the weights or those before the activations: see [`Small::gives_gradients`]. It begins to fetch weights before
    /// what was queued just before has ended: nothing may write them between a forward pass and this.
    pub(super) fn backward(
        &self,
        stream: &Stream,
        shape: Shape,
        arrays: &mut Arrays<'_>,
    ) -> Result<(), GpuError> {
        let launch = self.launch(stream, shape, arrays, true)?;
        let cuda = stream.cuda();
        let (mut weights, _weights) = arrays.weights.device_ptr(cuda);
        let (mut activations, _activations) = arrays.activations.device_ptr_mut(cuda);
        let (mut deltas, _deltas) = arrays.deltas.device_ptr_mut(cuda);
        let (mut gradients, _gradients) = arrays.gradients.device_ptr_mut(cuda);
        let (mut partial, _partial) = arrays.sum.partial.device_ptr_mut(cuda);
        let (mut arrived, _arrived) = arrays.sum.arrived.device_ptr_mut(cuda);
        let (mut loss, _loss) = arrays.sum.loss.device_ptr_mut(cuda);
        let [mut layers, mut width, mut samples] = launch.sizes;
        let mut arguments = [
            pointer(&mut weights),
            pointer(&mut activations),
            pointer(&mut deltas),
            pointer(&mut gradients),
            pointer(&mut partial),
            pointer(&mut arrived),
            pointer(&mut loss),
            pointer(&mut layers),
            pointer(&mut width),
            pointer(&mut samples),
        ];
        let shared_bytes = launch.variant.sizes.shared_bytes;
        // SAFETY: as in `forward`; there are at most `PARTIALS` clusters, and `Sum::new` made as many partial sums.
        unsafe { launch.run(&launch.variant.backward[launch.alignment], shared_bytes, &mut arguments) }
    }

    fn launch<'a>(
        &'a self,
        stream: &'a Stream,
        shape: Shape,
        arrays: &Arrays<'_>,
        follows: bool,
    ) -> Result<Launch<'a>, GpuError> {
        arrays.check(shape)?;
        let too_large = |what, value| GpuError::TooLarge { what, value };
        let (layers, width, samples) = (shape.layers(), shape.width(), shape.samples());
        if !self.takes(shape) {
            return Err(too_large("the samples", samples));
        }
        let variant = self.variant(shape).ok_or_else(|| too_large("the width", width))?;
        let size = |what, value| i32::try_from(value).map_err(|_| too_large(what, value));
        let count = |what, value| u32::try_from(value).map_err(|_| too_large(what, value));
        let cluster = variant.cluster(shape);
        Ok(Launch {
            stream,
            variant,
            alignment: usize::from(!(width.is_multiple_of(4) && samples.is_multiple_of(4))),
            cluster: count("the width", cluster)?,
            clusters: count("the samples", samples.div_ceil(COLUMNS))?,
            sizes: [size("the layers", layers)?, size("the width", width)?, size("the samples", samples)?],
            follows,
        })
    }
}

fn pointer<T>(value: &mut T) -> *mut c_void {
    ptr::from_mut(value).cast()
}

/// A launch with checked sizes.
#[derive(Debug)]
struct Launch<'a> {
    stream: &'a Stream,
    variant: &'a Variant,
    /// Which of `[aligned, any]`.
    alignment: usize,
    /// Blocks of a cluster.
    cluster: u32,
    clusters: u32,
    /// Layers, width and samples, as the kernels take them.
    sizes: [i32; 3],
    follows: bool,
}

impl Launch<'_> {
    /// Queues a kernel.
    ///
    /// # Safety
    /// The kernel must take these arguments.
    unsafe fn run(
        &self,
        kernel: &Kernel,
        shared_bytes: u32,
        arguments: &mut [*mut c_void],
    ) -> Result<(), GpuError> {
        let mut attributes = [
            sys::CUlaunchAttribute {
                id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                pad: [0; 4],
                value: sys::CUlaunchAttributeValue {
                    clusterDim: sys::CUlaunchAttributeValue_union__bindgen_ty_1 {
                        x: self.cluster,
                        y: 1,
                        z: 1,
                    },
                },
            },
            sys::CUlaunchAttribute {
                id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                pad: [0; 4],
                value: sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
            },
        ];
        let config = sys::CUlaunchConfig {
            gridDimX: self.cluster,
            gridDimY: self.clusters,
            gridDimZ: 1,
            blockDimX: self.variant.sizes.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: shared_bytes,
            hStream: self.stream.cuda().cu_stream(),
            attrs: attributes.as_mut_ptr(),
            numAttrs: 1 + u32::from(self.follows),
        };
        self.stream.context().cuda().bind_to_thread()?;
        // SAFETY: the pointers are valid for the call, which copies what they point to; the rest is the caller's promise.
        unsafe {
            sys::cuLaunchKernelEx(
                &raw const config,
                kernel.cu_function(),
                arguments.as_mut_ptr(),
                ptr::null_mut(),
            )
        }
        .result()?;
        Ok(())
    }
}
