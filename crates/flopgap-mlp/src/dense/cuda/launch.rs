//! Launches of our kernels.

use std::ffi::c_void;
use std::ptr;

use flopgap_gpu::cudarc::driver::sys;
use flopgap_gpu::{GpuError, Kernel, Stream};

/// The arguments of a kernel, in order.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    /// Each in eight bytes, the lowest first: a kernel that takes less reads the first of them.
    slots: Vec<u64>,
}

impl Arguments {
    /// Addresses on the device.
    pub(super) fn addresses<const N: usize>(mut self, addresses: [u64; N]) -> Self {
        self.slots.extend(addresses);
        self
    }

    /// A 32-bit number.
    pub(super) fn u32(mut self, value: u32) -> Self {
        self.slots.push(u64::from(value));
        self
    }

    /// A 64-bit number.
    pub(super) fn u64(mut self, value: u64) -> Self {
        self.slots.push(value);
        self
    }
}

/// How a kernel is launched.
#[derive(Debug, Clone, Copy)]
pub(super) struct Launch {
    /// Blocks.
    pub(super) grid: (u32, u32, u32),
    /// Threads of a block.
    pub(super) threads: u32,
    /// Bytes of dynamic shared memory.
    pub(super) shared: usize,
    /// Blocks of a cluster, along x; 1 for none. A kernel that says `__cluster_dims__` itself takes 1 here.
    pub(super) cluster: u32,
    /// Whether the kernel may begin before what was queued just before has ended: it waits for it itself (`griddepcontrol.wait`; compute
    /// capability 9.0 or newer).
    pub(super) overlap: bool,
}

impl Launch {
    /// So many blocks of so many threads.
    pub(super) fn new(blocks: u32, threads: u32) -> Self {
        Launch { grid: (blocks, 1, 1), threads, shared: 0, cluster: 1, overlap: false }
    }

    /// Queues the kernel.
    ///
    /// # Safety
    /// The arguments must be those of the kernel, and every address must hold what the kernel reads or writes there until it has run.
    pub(super) unsafe fn queue(
        &self,
        stream: &Stream,
        kernel: &Kernel,
        mut arguments: Arguments,
    ) -> Result<(), GpuError> {
        let mut pointers: Vec<*mut c_void> =
            arguments.slots.iter_mut().map(|slot| (&raw mut *slot).cast()).collect();
        let mut attributes = Vec::new();
        if self.cluster > 1 {
            attributes.push(sys::CUlaunchAttribute {
                id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                pad: [0; 4],
                value: sys::CUlaunchAttributeValue {
                    clusterDim: sys::CUlaunchAttributeValue_union__bindgen_ty_1 {
                        x: self.cluster,
                        y: 1,
                        z: 1,
                    },
                },
            });
        }
        if self.overlap {
            attributes.push(sys::CUlaunchAttribute {
                id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                pad: [0; 4],
                value: sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
            });
        }
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
