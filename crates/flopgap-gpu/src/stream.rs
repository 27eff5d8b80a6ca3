//! Streams, buffers, and copies.

use std::sync::Arc;

use cudarc::driver::result::memset_d8_async;
use cudarc::driver::{
    CudaSlice, CudaStream, DevicePtr, DevicePtrMut, DeviceRepr, DriverError, LaunchArgs, ValidAsZeroBits, sys,
};

use crate::context::{Context, Kernel};
use crate::error::GpuError;
use crate::event::Event;
use crate::graph::Graph;

/// Memory on the device with a length and an element type. It belongs to the stream that made it, and is freed in that stream's order.
pub type Buffer<T> = CudaSlice<T>;

/// A queue of work for a device.
///
/// Calls return once the work is queued, except those that hand data back. **Nothing orders work on different streams** but
/// [`Stream::wait`]: whoever uses a buffer on a second stream makes that stream wait for an event of the first, and the other way round
/// before the buffer is dropped or written again.
#[derive(Debug, Clone)]
pub struct Stream {
    cuda: Arc<CudaStream>,
    context: Context,
}

impl Stream {
    pub(crate) fn wrap(cuda: Arc<CudaStream>, context: Context) -> Self {
        Stream { cuda, context }
    }

    /// The context of this stream.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The stream of `cudarc`, for what this crate does not wrap.
    pub fn cuda(&self) -> &Arc<CudaStream> {
        &self.cuda
    }

    /// A buffer of `len` elements, all zero.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`].
    pub fn zeros<T: DeviceRepr + ValidAsZeroBits>(&self, len: usize) -> Result<Buffer<T>, GpuError> {
        self.cuda.alloc_zeros(len).map_err(|error| self.allocation_error::<T>(len, error))
    }

    /// A buffer of `len` elements that nobody has written, so that `compute-sanitizer --tool initcheck` tells who reads one too early. In builds with
    /// debug assertions all bits are set, which are no number as floats: results then show it, too.
    ///
    /// # Safety
    /// Any bits must be a valid `T`, and no element may be read before it is written.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`].
    pub unsafe fn unwritten<T: DeviceRepr>(&self, len: usize) -> Result<Buffer<T>, GpuError> {
        // SAFETY: what `alloc` asks for is what the caller promises.
        let buffer = unsafe { self.cuda.alloc::<T>(len) };
        #[cfg_attr(not(debug_assertions), expect(unused_mut, reason = "for debug builds"))]
        let mut buffer = buffer.map_err(|error| self.allocation_error::<T>(len, error))?;
        #[cfg(debug_assertions)]
        if len > 0 {
            let bytes = buffer.num_bytes();
            let (pointer, _in_use) = buffer.device_ptr_mut(&self.cuda);
            // SAFETY: the bytes are those of the buffer, on the stream that it was made on.
            unsafe { cudarc::driver::result::memset_d8_async(pointer, 0xff, bytes, self.cuda.cu_stream()) }
                .map_err(|error| GpuError::driver("fill memory", error))?;
        }
        Ok(buffer)
    }

    /// A buffer with a copy of `data`.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`].
    pub fn upload<T: DeviceRepr>(&self, data: &[T]) -> Result<Buffer<T>, GpuError> {
        self.cuda.clone_htod(data).map_err(|error| self.allocation_error::<T>(data.len(), error))
    }

    /// Copies `data` to the start of `buffer` (or of a view of one).
    ///
    /// # Errors
    /// [`GpuError::Length`] when the buffer is shorter than `data`.
    pub fn write<T: DeviceRepr>(
        &self,
        data: &[T],
        buffer: &mut impl DevicePtrMut<T>,
    ) -> Result<(), GpuError> {
        if buffer.len() < data.len() {
            return Err(GpuError::Length {
                what: "copy to the GPU",
                needed: data.len(),
                found: buffer.len(),
            });
        }
        self.cuda.memcpy_htod(data, buffer).map_err(|error| GpuError::driver("copy to the GPU", error))
    }

    /// Copies one buffer (or view) to the start of another.
    ///
    /// # Errors
    /// [`GpuError::Length`] when the target is shorter.
    pub fn copy<T>(&self, from: &impl DevicePtr<T>, to: &mut impl DevicePtrMut<T>) -> Result<(), GpuError> {
        if to.len() < from.len() {
            return Err(GpuError::Length { what: "copy on the GPU", needed: from.len(), found: to.len() });
        }
        self.cuda.memcpy_dtod(from, to).map_err(|error| GpuError::driver("copy on the GPU", error))
    }

    /// Sets every byte of `buffer` (or of a view of one), such as to a pattern that is not a number, so that what nobody wrote shows.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn fill<T: ValidAsZeroBits>(
        &self,
        buffer: &mut impl DevicePtrMut<T>,
        byte: u8,
    ) -> Result<(), GpuError> {
        let bytes = buffer.len() * size_of::<T>();
        self.context.cuda().bind_to_thread().map_err(|error| GpuError::driver("fill GPU memory", error))?;
        let (address, _guard) = buffer.device_ptr_mut(&self.cuda);
        // SAFETY: the buffer has so many bytes, and a number of these types may have any bits.
        unsafe { memset_d8_async(address, byte, bytes, self.cuda.cu_stream()) }
            .map_err(|error| GpuError::driver("fill GPU memory", error))
    }

    /// Waits for the work queued so far and returns a copy of `buffer` (or of a view of one).
    ///
    /// # Errors
    /// The error of a kernel that failed before.
    pub fn download<T: DeviceRepr>(&self, buffer: &impl DevicePtr<T>) -> Result<Vec<T>, GpuError> {
        let data =
            self.cuda.clone_dtoh(buffer).map_err(|error| GpuError::driver("copy from the GPU", error))?;
        // The copy into pageable memory is done when the call returns on the drivers seen; the driver's manual does not promise it.
        self.synchronize()?;
        Ok(data)
    }

    /// Waits until everything queued on this stream is done.
    ///
    /// # Errors
    /// The error of a kernel that failed.
    pub fn synchronize(&self) -> Result<(), GpuError> {
        self.cuda.synchronize().map_err(|error| GpuError::driver("wait for the stream", error))
    }

    /// Marks this place in the queue.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn event(&self) -> Result<Event, GpuError> {
        let event = Event::new(&self.context)?;
        event.record(self)?;
        Ok(event)
    }

    /// What is queued from here on waits for `event`, which may be of another stream.
    ///
    /// # Errors
    /// When the event is of another device.
    pub fn wait(&self, event: &Event) -> Result<(), GpuError> {
        self.cuda.wait(event.cuda()).map_err(|error| GpuError::driver("wait for an event", error))
    }

    /// Starts the launch of a kernel: add the arguments in order with `arg`, then `launch`, which is unsafe because nobody checks that
    /// they are what the kernel takes. See [`cudarc::driver::LaunchArgs`].
    pub fn launch_builder<'a>(&'a self, kernel: &'a Kernel) -> LaunchArgs<'a> {
        self.cuda.launch_builder(kernel)
    }

    /// Records what `work` queues on this stream, instead of running it, as a graph that is launched as one piece. Work on other streams
    /// that wait for an event of this one belongs to it, if this stream waits for them at the end.
    ///
    /// Memory must be allocated before: an allocation inside `work` becomes a node of the graph.
    ///
    /// # Errors
    /// The error of `work`; or the driver's, when `work` did what cannot be captured, like waiting for the stream.
    pub fn capture<E: From<GpuError>>(&self, work: impl FnOnce() -> Result<(), E>) -> Result<Graph, E> {
        Graph::capture(self, work)
    }

    /// An allocation failed: says how much was free where that was the reason.
    fn allocation_error<T>(&self, len: usize, error: DriverError) -> GpuError {
        if error.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY
            && let Ok(memory) = self.context.memory()
        {
            let wanted = (len as u64).saturating_mul(size_of::<T>() as u64);
            return GpuError::OutOfMemory { wanted, free: memory.free, total: memory.total };
        }
        GpuError::driver("allocate GPU memory", error)
    }
}
