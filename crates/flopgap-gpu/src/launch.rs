//! Launches with what a plain one cannot say: clusters, a start before the kernel before has ended, blocks that wait for each other.
//!
//! For a kernel whose arguments are buffers and numbers, [`Stream::launch_builder`] is simpler. A [`Launch`] takes addresses, which the caller
//! has checked.
//!
//! ```no_run
//! use flopgap_gpu::cudarc::driver::{DevicePtr as _, DevicePtrMut as _};
//! use flopgap_gpu::launch::{Arguments, Launch};
//! use flopgap_gpu::{Context, compile::Compiler};
//!
//! let gpu = Context::new(0)?;
//! let source = r#"extern "C" __global__ void twice(const float *x, float *y, unsigned length) {
//!     const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
//!     asm volatile("griddepcontrol.wait;" ::: "memory");
//!     if (i < length) y[i] = 2 * x[i];
//! }"#;
//! let binary = Compiler::new()?.compile("twice.cu", source, gpu.device().compute_capability.into(), &[])?;
//! let twice = gpu.load(&binary)?.kernel("twice")?;
//! let stream = gpu.stream()?;
//! let (x, mut y) = (stream.upload(&[1.0_f32; 1000])?, stream.zeros::<f32>(1000)?);
//!
//! let launch = Launch { overlap: true, ..Launch::new(8, 128) };
//! let addresses = [x.device_ptr(stream.cuda()).0, y.device_ptr_mut(stream.cuda()).0];
//! let arguments = Arguments::default().addresses(addresses).u32(1000);
//! // SAFETY: these are the kernel's arguments, and both arrays have 1000 numbers.
//! unsafe { launch.queue(&stream, &twice, arguments) }?;
//! assert_eq!(stream.download(&y)?, [2.0; 1000]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::ffi::c_void;
use std::ptr;

use cudarc::driver::sys;

use crate::context::Kernel;
use crate::error::GpuError;
use crate::stream::Stream;

/// The arguments of a kernel, in order.
#[derive(Debug, Default)]
pub struct Arguments {
    /// A number in eight bytes, the lowest first: a kernel that takes less reads the first of them.
    slots: Vec<Slot>,
}

#[derive(Debug)]
enum Slot {
    Number(u64),
    /// Of 128 bytes each, one after the other.
    Maps(Vec<sys::CUtensorMap>),
}

impl Arguments {
    /// Addresses on the device.
    #[must_use]
    pub fn addresses<const N: usize>(mut self, addresses: [u64; N]) -> Self {
        self.slots.extend(addresses.map(Slot::Number));
        self
    }

    /// A 32-bit number.
    #[must_use]
    pub fn u32(mut self, value: u32) -> Self {
        self.slots.push(Slot::Number(u64::from(value)));
        self
    }

    /// A 32-bit number with a sign.
    #[must_use]
    pub fn i32(self, value: i32) -> Self {
        self.u32(value.cast_unsigned())
    }

    /// A 32-bit floating-point number.
    #[must_use]
    pub fn f32(self, value: f32) -> Self {
        self.u32(value.to_bits())
    }

    /// A 64-bit number.
    #[must_use]
    pub fn u64(mut self, value: u64) -> Self {
        self.slots.push(Slot::Number(value));
        self
    }

    /// Maps of matrices for the tensor memory accelerator, which the kernel takes as one `const __grid_constant__` structure.
    #[must_use]
    pub fn maps(mut self, maps: Vec<sys::CUtensorMap>) -> Self {
        self.slots.push(Slot::Maps(maps));
        self
    }
}

/// How a kernel is launched.
#[derive(Debug, Clone, Copy)]
pub struct Launch {
    /// Blocks.
    pub grid: (u32, u32, u32),
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of dynamic shared memory.
    pub shared: usize,
    /// Blocks of a cluster, along x; 1 for none. A kernel that says `__cluster_dims__` itself takes 1 here.
    pub cluster: u32,
    /// Whether the kernel may begin before what was queued just before has ended: it waits for it itself (`griddepcontrol.wait`; compute
    /// capability 9.0 or newer).
    pub overlap: bool,
    /// Whether all blocks must be on the device at a time, so that they can wait for each other: the launch fails where they do not fit.
    pub cooperative: bool,
}

impl Launch {
    /// So many blocks of so many threads.
    #[must_use]
    pub fn new(blocks: u32, threads: u32) -> Self {
        Launch { grid: (blocks, 1, 1), threads, shared: 0, cluster: 1, overlap: false, cooperative: false }
    }

    /// What the driver is told beyond the sizes.
    fn attributes(&self) -> Vec<sys::CUlaunchAttribute> {
        use sys::CUlaunchAttributeID as Id;
        use sys::CUlaunchAttributeValue as Value;
        let cluster = sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x: self.cluster, y: 1, z: 1 };
        [
            (self.cluster > 1, Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, Value { clusterDim: cluster }),
            (
                self.overlap,
                Id::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                Value { programmaticStreamSerializationAllowed: 1 },
            ),
            (self.cooperative, Id::CU_LAUNCH_ATTRIBUTE_COOPERATIVE, Value { cooperative: 1 }),
        ]
        .into_iter()
        .filter(|(wanted, ..)| *wanted)
        .map(|(_, id, value)| sys::CUlaunchAttribute { id, pad: [0; 4], value })
        .collect()
    }

    /// Queues the kernel.
    ///
    /// # Errors
    /// When the driver refuses the launch: too many threads, too much shared memory, a cluster or a cooperative launch that does not fit.
    ///
    /// # Safety
    /// The arguments must be those of the kernel, and every address must hold what the kernel reads or writes there until it has run.
    pub unsafe fn queue(
        &self,
        stream: &Stream,
        kernel: &Kernel,
        mut arguments: Arguments,
    ) -> Result<(), GpuError> {
        let pointer = |slot: &mut Slot| match slot {
            Slot::Number(number) => (&raw mut *number).cast(),
            Slot::Maps(maps) => maps.as_mut_ptr().cast(),
        };
        let mut pointers: Vec<*mut c_void> = arguments.slots.iter_mut().map(pointer).collect();
        let mut attributes = self.attributes();
        let config = sys::CUlaunchConfig {
            gridDimX: self.grid.0,
            gridDimY: self.grid.1,
            gridDimZ: self.grid.2,
            blockDimX: self.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: u32::try_from(self.shared)
                .map_err(|_| GpuError::TooLarge { what: "shared memory of a kernel", value: self.shared })?,
            hStream: stream.cuda().cu_stream(),
            attrs: attributes.as_mut_ptr(),
            numAttrs: u32::try_from(attributes.len()).unwrap_or_default(),
        };
        stream.context().cuda().bind_to_thread()?;
        // SAFETY: the pointers are valid for the call, which copies what they point to; the rest is the caller's promise.
        unsafe {
            sys::cuLaunchKernelEx(
                &raw const config,
                kernel.cu_function(),
                pointers.as_mut_ptr(),
                ptr::null_mut(),
            )
        }
        .result()?;
        Ok(())
    }
}
