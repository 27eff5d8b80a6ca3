//! A GPU opened for work.

use std::sync::Arc;

use cudarc::driver::sys::CUfunction_attribute_enum as Attribute;
use cudarc::driver::{CudaContext, CudaFunction, CudaModule, sys};
use cudarc::nvrtc::Ptx;

use crate::capture::is_any_open;
use crate::compile::Binary;
use crate::device::{Device, start_driver};
use crate::error::{During as _, GpuError};

/// A GPU opened for work: a context of the driver. Cloning shares it; the last clone closes it.
///
/// [`Context::new`] takes the primary context of a device, [`Context::from_cudarc`] a context that
/// the program has already, [`Context::from_raw`] a handle of the driver.
///
/// ```no_run
/// let gpu = flopgap_gpu::Context::new(0)?;
/// let stream = gpu.stream()?;
/// let numbers = stream.upload(&[1.0_f32, 2.0, 3.0])?;
/// assert_eq!(stream.download(&numbers)?, [1.0, 2.0, 3.0]);
/// # Ok::<(), flopgap_gpu::GpuError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Context {
    cuda: Arc<CudaContext>,
    device: Arc<Device>,
    /// Whether copies read pageable memory of the host in place, without a copy of the driver's own
    /// (as on Grace Hopper).
    host_page_tables: bool,
}

/// Free and total memory of a GPU, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Bytes that can be allocated now.
    pub free: u64,
    /// Bytes that the device has.
    pub total: u64,
}

impl Context {
    /// Opens the GPU with this number.
    ///
    /// # Errors
    /// As [`Device::get`], and when the driver cannot open it, for example because its memory is
    /// taken.
    pub fn new(device: usize) -> Result<Self, GpuError> {
        start_driver()?;
        let device = Device::get(device)?;
        let cuda = CudaContext::new(device.index).during("open the GPU")?;
        Self::of(device, cuda)
    }

    /// This context of a device.
    pub(crate) fn of(device: Device, cuda: Arc<CudaContext>) -> Result<Self, GpuError> {
        let attribute =
            sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES;
        let host_page_tables = cuda.attribute(attribute).during("query the GPU")? != 0;
        Ok(Context { cuda, device: Arc::new(device), host_page_tables })
    }

    /// Whether copies to the device may read this memory of the host after the call that queues
    /// them.
    pub(crate) fn reads_host_memory(&self, address: *const u8) -> bool {
        let mut kind = 0_u32;
        let attribute = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
        // SAFETY: the attribute is an unsigned int; the address is only looked up.
        let found = unsafe { sys::cuPointerGetAttribute((&raw mut kind).cast(), attribute, address as u64) };
        // The driver knows only memory that was allocated or registered with it.
        self.host_page_tables || found == sys::CUresult::CUDA_SUCCESS
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Loads compiled code.
    ///
    /// # Errors
    /// When the code is for another architecture or needs a newer driver.
    pub fn load(&self, binary: &Binary) -> Result<Module, GpuError> {
        let image = Ptx::from_binary(binary.image().to_vec());
        let cuda = self.cuda.load_module(image).during("load a kernel")?;
        Ok(Module { code: Arc::new(Code { cuda, context: self.clone() }) })
    }

    /// Loads code that the driver compiles.
    pub(crate) fn load_ptx(&self, source: &str) -> Result<Module, GpuError> {
        let cuda = self.cuda.load_module(Ptx::from_src(source)).during("load a kernel")?;
        Ok(Module { code: Arc::new(Code { cuda, context: self.clone() }) })
    }

    /// Waits until all work on this device that this process started is done.
    ///
    /// # Errors
    /// The error of a kernel that failed.
    pub fn synchronize(&self) -> Result<(), GpuError> {
        self.cuda.synchronize().during("wait for the GPU")
    }

    /// Memory that is free now.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn memory(&self) -> Result<Memory, GpuError> {
        let (free, total) = self.cuda.mem_get_info().during("ask for free memory")?;
        Ok(Memory { free: free as u64, total: total as u64 })
    }

    /// The context of `cudarc`, for what this crate does not wrap.
    pub fn cuda(&self) -> &Arc<CudaContext> {
        &self.cuda
    }
}

/// Code that is loaded on a device.
#[derive(Debug, Clone)]
pub struct Module {
    code: Arc<Code>,
}

/// Unloads code, which the driver does not keep for kernels that still run.
#[derive(Debug)]
struct Code {
    cuda: Arc<CudaModule>,
    context: Context,
}

impl Drop for Code {
    fn drop(&mut self) {
        // During a capture nothing may be waited for, and after an error nothing is known of what
        // runs: the code stays loaded then.
        if is_any_open() || self.context.synchronize().is_err() {
            std::mem::forget(self.cuda.clone());
        }
    }
}

impl Module {
    /// A kernel, by the name under which it was compiled (`extern "C"`, so that the name is not
    /// mangled).
    ///
    /// # Errors
    /// When the module has no such kernel.
    pub fn kernel(&self, name: &str) -> Result<Kernel, GpuError> {
        // A name with a zero byte would panic below; no kernel has one.
        let name = name.split('\0').next().unwrap_or_default();
        let function = self.code.cuda.load_function(name).during("find a kernel")?;
        Ok(Kernel { function, _code: self.code.clone() })
    }

    /// The same, for launches with up to this many bytes of dynamic shared memory: more than 48 KiB
    /// must be allowed before.
    ///
    /// # Errors
    /// As [`Module::kernel`], and when a block of the device cannot have so much.
    pub fn kernel_with_shared(&self, name: &str, bytes: usize) -> Result<Kernel, GpuError> {
        let kernel = self.kernel(name)?;
        let most = i32::try_from(bytes)
            .map_err(|_| GpuError::TooLarge { what: "shared memory of a kernel", value: bytes })?;
        kernel
            .set_attribute(Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most)
            .during("allow a kernel shared memory")?;
        Ok(kernel)
    }
}

/// A kernel, to be launched with a [`Launch`](crate::launch::Launch). It may be dropped while it
/// runs: dropping the last kernel of a [`Module`] waits for the device.
#[derive(Debug, Clone)]
pub struct Kernel {
    // In this order: the code is unloaded when the last of both is gone, after the wait of `Code`.
    function: CudaFunction,
    _code: Arc<Code>,
}

/// Properties of a kernel from `cudarc`: registers, shared memory, occupancy.
impl std::ops::Deref for Kernel {
    type Target = CudaFunction;

    fn deref(&self) -> &CudaFunction {
        &self.function
    }
}
