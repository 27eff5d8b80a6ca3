//! What every implementation offers, and what it is handed.

use std::fmt;

use flopgap_gpu::cudarc::driver::result::memset_d8_async;
use flopgap_gpu::launch::{Arguments, Launch};
use flopgap_gpu::{GpuError, Kernel, Stream};

/// A forward pass to queue. Addresses are of the device, entered in a
/// [`Submission`](flopgap_gpu::Submission) that lives until all is queued; lengths were checked.
#[derive(Debug)]
pub(super) struct ForwardCall<'a> {
    pub(super) stream: &'a Stream,
    /// Samples, at least 1, less than 2^31.
    pub(super) batch: u32,
    /// The parameters, as they are stored.
    pub(super) parameters: u64,
    /// `batch x inputs`.
    pub(super) x: u64,
    /// `batch x outputs`, to be written.
    pub(super) y: u64,
    /// Where to keep what the backward pass needs, if it needs it: the output of every hidden
    /// layer, layer after layer, each `batch x width`, row-major. Where the slope of an activation
    /// does not follow from its output, the sums before it instead, also those of the output layer,
    /// after the others ([`Network::kept_of_sample`](crate::Network::kept_of_sample)).
    pub(super) tape: Option<u64>,
}

/// A backward pass to queue. Addresses and lengths as in a [`ForwardCall`].
#[derive(Debug)]
pub(super) struct BackwardCall<'a> {
    pub(super) stream: &'a Stream,
    /// Samples, at least 1, less than 2^31.
    pub(super) batch: u32,
    /// The parameters, as they are stored.
    pub(super) parameters: u64,
    /// `batch x inputs`.
    pub(super) x: u64,
    /// `batch x outputs`, of the forward pass.
    pub(super) y: u64,
    /// `batch x outputs`: the gradient by the outputs.
    pub(super) dy: u64,
    /// What the forward pass kept, where [`Backward::keeps`] is true.
    pub(super) tape: u64,
    /// `batch x inputs`, to be written: the gradient by the inputs, if it is wanted.
    pub(super) dx: Option<u64>,
    /// The gradient by the parameters in 32 bits, to be overwritten.
    pub(super) gradients: u64,
    /// [`Backward::workspace`] bytes, aligned to 256. All zero before the first call; what must be
    /// zero again for the next is up to the kernels.
    pub(super) workspace: u64,
}

/// The kernels of a forward pass.
pub(super) trait Forward: fmt::Debug + Send + Sync {
    /// Queues the pass.
    fn queue(&self, call: &ForwardCall<'_>) -> Result<(), GpuError>;

    /// The kernels that it launches.
    fn facts(&self) -> Result<Vec<KernelFacts>, GpuError>;
}

/// A forward pass in one kernel, which takes parameters, inputs, outputs, the tape (0 for none) and
/// the number of samples.
pub(super) struct OneKernel {
    pub(super) name: &'static str,
    pub(super) kernel: Kernel,
    /// For so many samples.
    pub(super) launch: Box<dyn Fn(u32) -> Launch + Send + Sync>,
}

impl fmt::Debug for OneKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneKernel").field("kernel", &self.kernel).finish_non_exhaustive()
    }
}

impl Forward for OneKernel {
    fn queue(&self, call: &ForwardCall<'_>) -> Result<(), GpuError> {
        let arguments = Arguments::default()
            .addresses([call.parameters, call.x, call.y, call.tape.unwrap_or(0)])
            .u32(call.batch);
        // SAFETY: these are the kernel's arguments, and the arrays have the lengths that it
        // expects: `Model` checked them. It leaves out a tape at address 0.
        unsafe { (self.launch)(call.batch).queue(call.stream, &self.kernel, arguments) }
    }

    fn facts(&self) -> Result<Vec<KernelFacts>, GpuError> {
        Ok(vec![KernelFacts::new(self.name, &self.kernel, (self.launch)(1).shared)?])
    }
}

/// The kernels of a backward pass.
pub(super) trait Backward: fmt::Debug + Send + Sync {
    /// Whether the forward pass must keep the tape for a batch of this many samples. Otherwise what
    /// is needed is computed again.
    fn keeps(&self, batch: u32) -> bool;

    /// Whether that is so for some batch of up to this many samples.
    fn keeps_up_to(&self, batch: u32) -> bool {
        self.keeps(batch)
    }

    /// Bytes of workspace for a batch of up to this many samples.
    fn workspace(&self, batch: u32) -> usize;

    /// Queues the pass.
    fn queue(&self, call: &BackwardCall<'_>) -> Result<(), GpuError>;

    /// The kernels that it launches.
    fn facts(&self) -> Result<Vec<KernelFacts>, GpuError>;
}

/// An implementation, loaded on a device.
#[derive(Debug)]
pub(super) struct Kernels {
    pub(super) forward: Box<dyn Forward>,
    pub(super) backward: Box<dyn Backward>,
}

/// What a kernel takes of a multiprocessor, as the driver reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelFacts {
    /// Its name.
    pub name: String,
    /// 32-bit registers of a thread.
    pub registers: u32,
    /// Bytes of local memory of a thread: spilled registers, and arrays that are indexed at run
    /// time.
    pub local_bytes: u32,
    /// Bytes of static shared memory of a block.
    pub static_shared_bytes: u32,
    /// Bytes of dynamic shared memory of a block.
    pub dynamic_shared_bytes: u32,
}

impl KernelFacts {
    /// Asks the driver.
    pub(super) fn new(name: &str, kernel: &Kernel, dynamic_shared: usize) -> Result<Self, GpuError> {
        let number = |value: i32| u32::try_from(value).unwrap_or_default();
        Ok(KernelFacts {
            name: name.to_owned(),
            registers: number(kernel.num_regs()?),
            local_bytes: number(kernel.local_size_bytes()?),
            static_shared_bytes: number(kernel.shared_size_bytes()?),
            dynamic_shared_bytes: u32::try_from(dynamic_shared).unwrap_or_default(),
        })
    }
}

/// Queues zeros.
///
/// # Safety
/// `bytes` bytes at `address` must be memory of the stream's device.
pub(super) unsafe fn zero(stream: &Stream, address: u64, bytes: usize) -> Result<(), GpuError> {
    stream.context().cuda().bind_to_thread()?;
    // SAFETY: the caller's promise.
    unsafe { memset_d8_async(address, 0, bytes, stream.handle()) }?;
    Ok(())
}
