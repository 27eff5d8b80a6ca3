//! Launches of kernels.
//!
//! ```no_run
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
//! let arguments = Arguments::default().read(&x).write(&mut y).u32(1000);
//! // SAFETY: these are the kernel's arguments, and both arrays have 1000 numbers.
//! unsafe { launch.queue(&stream, &twice, arguments) }?;
//! assert_eq!(stream.download(&y)?, [2.0; 1000]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys;

use crate::captured::Kept;
use crate::context::Kernel;
use crate::error::GpuError;
use crate::memory::{Access, Allocation, DeviceSlice, DeviceSliceMut};
use crate::stream::Stream;

/// The arguments of a kernel, in order. Memory is borrowed until the launch.
#[derive(Debug, Default)]
pub struct Arguments<'a> {
    /// A number in eight bytes, the lowest first: a kernel that takes less reads the first of them.
    slots: Vec<Slot>,
    /// The memory among them.
    memory: Vec<(&'a Arc<Allocation>, Access)>,
}

#[derive(Debug)]
enum Slot {
    Number(u64),
    /// Of 128 bytes each, one after the other.
    Maps(Vec<sys::CUtensorMap>),
}

impl<'a> Arguments<'a> {
    /// Memory that the kernel reads.
    #[must_use]
    pub fn read<T>(mut self, memory: &'a impl DeviceSlice<T>) -> Self {
        self.memory.push((memory.allocation(), Access::Read));
        self.u64(memory.address())
    }

    /// Memory that the kernel writes, or reads and writes.
    #[must_use]
    pub fn write<T>(mut self, memory: &'a mut impl DeviceSliceMut<T>) -> Self {
        let address = memory.address();
        self.memory.push((memory.allocation(), Access::Write));
        self.u64(address)
    }

    /// Addresses on the device: those of a [`Submission`](crate::Submission), or of memory that the
    /// caller takes care of.
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

    /// Maps of matrices for the tensor memory accelerator, which the kernel takes as one `const
    /// __grid_constant__` structure.
    #[must_use]
    pub fn maps(mut self, maps: Vec<sys::CUtensorMap>) -> Self {
        self.slots.push(Slot::Maps(maps));
        self
    }
}

/// How a kernel is launched.
#[derive(Debug, Clone, Copy)]
pub struct Launch {
    /// Blocks in x, y and z.
    pub grid: (u32, u32, u32),
    /// Threads of a block, along x.
    pub threads: u32,
    /// Bytes of dynamic shared memory.
    pub shared: usize,
    /// Blocks of a cluster, along x; 1 for none. A kernel that says `__cluster_dims__` itself takes
    /// 1 here.
    pub cluster: u32,
    /// Whether the kernel may begin before what was queued just before has ended: it waits for it
    /// itself (`griddepcontrol.wait`; compute capability 9.0 or newer).
    pub overlap: bool,
}

impl Launch {
    /// So many blocks of so many threads.
    #[must_use]
    pub fn new(blocks: u32, threads: u32) -> Self {
        Launch { grid: (blocks, 1, 1), threads, shared: 0, cluster: 1, overlap: false }
    }

    /// What the launch asks of the driver beyond the sizes.
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
        ]
        .into_iter()
        .filter(|(wanted, ..)| *wanted)
        .map(|(_, id, value)| sys::CUlaunchAttribute { id, pad: [0; 4], value })
        .collect()
    }

    /// Queues the kernel, behind what else uses its memory.
    ///
    /// # Errors
    /// When the driver refuses the launch: too many threads, too much shared memory, a cluster
    /// that does not fit; [`GpuError::OtherDevice`]; [`GpuError::Capturing`].
    ///
    /// # Safety
    /// The arguments must be those of the kernel, and the memory must be as large as what it reads
    /// and writes there. What it writes must have been given as memory to write. Addresses without
    /// memory must hold what the kernel reads or writes until it has run, and every time that a
    /// graph with it has run.
    pub unsafe fn queue(
        &self,
        stream: &Stream,
        kernel: &Kernel,
        mut arguments: Arguments<'_>,
    ) -> Result<(), GpuError> {
        let submission = stream.submission();
        for (allocation, access) in &arguments.memory {
            submission.enter(allocation, *access)?;
        }
        submission.keep(|| Kept::owner(kernel.clone()))?;
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
            hStream: stream.handle(),
            attrs: attributes.as_mut_ptr(),
            numAttrs: u32::try_from(attributes.len()).unwrap_or_default(),
        };
        stream.context().cuda().bind_to_thread()?;
        // SAFETY: the pointers are valid for the call, which copies what they point to; the rest is
        // the caller's promise.
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
