//! Streams, and copies between host and device.

use std::mem::MaybeUninit;
use std::sync::Arc;

use cudarc::driver::result::{
    memcpy_dtod_async, memcpy_dtoh_async, memcpy_htod_async, memcpy_peer_async, memset_d8_async,
};
use cudarc::driver::{CudaStream, DeviceRepr, DriverError, ValidAsZeroBits, sys};

use crate::captured::{self, Kept};
use crate::context::Context;
use crate::error::{During as _, GpuError};
use crate::memory::{Access, Allocation, AnyBits, Buffer, DeviceSlice, DeviceSliceMut, Queue};

/// A queue of work for a device.
///
/// Calls return once the work is queued, except those that hand data back. Work on one stream runs
/// in order. Work on several may overlap; where it uses the same [`Buffer`] and one of the uses
/// writes, the later one waits for the earlier. [`Stream::wait`] orders everything else.
#[derive(Debug, Clone)]
pub struct Stream {
    queue: Queue,
    context: Context,
}

/// Work that is about to be queued on a stream by unsafe calls: gives the addresses of memory, in
/// front of which the stream waits for the uses of the same memory that the work must not overtake.
///
/// The addresses may be used by what is queued while the `Submission` lives and the memory is
/// borrowed, and by a graph that it is captured for. Waiting for events, beginning and ending
/// captures have to wait until it is dropped.
#[derive(Debug)]
#[must_use = "the addresses are for work that is queued before this is dropped"]
pub struct Submission<'s> {
    stream: &'s Stream,
    _entered: crate::memory::Passing<'s>,
}

impl Submission<'_> {
    /// The address of memory that the work reads.
    ///
    /// # Errors
    /// [`GpuError::OtherDevice`]; [`GpuError::Capturing`].
    pub fn read<T>(&self, memory: &impl DeviceSlice<T>) -> Result<u64, GpuError> {
        self.enter(memory.allocation(), Access::Read)?;
        Ok(memory.address())
    }

    /// The address of memory that the work writes.
    ///
    /// # Errors
    /// As [`Submission::read`].
    pub fn write<T>(&self, memory: &mut impl DeviceSliceMut<T>) -> Result<u64, GpuError> {
        self.enter(memory.allocation(), Access::Write)?;
        Ok(memory.address())
    }

    pub(crate) fn enter(&self, allocation: &Arc<Allocation>, access: Access) -> Result<(), GpuError> {
        if allocation.context() != self.stream.context.cuda().cu_ctx() {
            return Err(GpuError::OtherDevice);
        }
        self.enter_any(allocation, access)
    }

    /// The same, also for memory of another device.
    fn enter_any(&self, allocation: &Arc<Allocation>, access: Access) -> Result<(), GpuError> {
        let queue = &self.stream.queue;
        match queue.capture()? {
            None => allocation.enter(queue, access),
            Some(capture) => captured::record(capture, allocation, queue, access),
        }
    }

    /// If the work is captured, the graph owns this.
    pub(crate) fn keep(&self, kept: impl FnOnce() -> Kept) -> Result<(), GpuError> {
        match self.stream.queue.capture()? {
            None => Ok(()),
            Some(capture) => captured::keep(capture, kept()),
        }
    }

    /// Refuses what cannot be part of a graph.
    fn refuse_capture(&self, action: &'static str) -> Result<(), GpuError> {
        match self.stream.queue.capture()? {
            None => Ok(()),
            Some(_) => Err(GpuError::Capturing { action }),
        }
    }
}

impl Context {
    /// A new stream. Work on one stream runs in order, work on different streams may overlap.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn stream(&self) -> Result<Stream, GpuError> {
        let cuda = self.cuda().new_stream().during("create a stream")?;
        Ok(Stream::on(Queue::new(cuda), self.clone()))
    }
}

impl Stream {
    pub(crate) fn on(queue: Queue, context: Context) -> Self {
        Stream { queue, context }
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }

    /// The context of this stream.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The driver's handle, for its own functions.
    pub fn handle(&self) -> sys::CUstream {
        self.queue.handle()
    }

    /// The stream of `cudarc`, for what this crate does not wrap.
    ///
    /// ```compile_fail,E0133
    /// # fn f(stream: flopgap_gpu::Stream) {
    /// use flopgap_gpu::cudarc::driver::sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    ///
    /// stream.cuda().begin_capture(CU_STREAM_CAPTURE_MODE_RELAXED); // what is captured so owns no memory
    /// # }
    /// ```
    ///
    /// # Safety
    /// Nobody may capture the stream with it: what is captured must go through [`Stream::capture`],
    /// so that graphs own the memory that they use.
    pub unsafe fn cuda(&self) -> &Arc<CudaStream> {
        self.queue.cuda()
    }

    /// Begins to queue work that uses memory by its address.
    pub fn submission(&self) -> Submission<'_> {
        Submission { stream: self, _entered: self.queue.enter() }
    }

    /// Memory for `len` elements that nobody has written.
    fn allocate<T>(&self, len: usize) -> Result<Buffer<T>, GpuError> {
        self.submission().refuse_capture("allocate memory")?;
        let too_large = GpuError::TooLarge { what: "elements of a buffer", value: len };
        let bytes = len.checked_mul(size_of::<T>()).ok_or(too_large)?;
        let allocation = Allocation::new(&self.queue, bytes);
        Ok(Buffer::new(allocation.map_err(|error| self.allocation_error::<T>(len, error))?, len))
    }

    /// A buffer of `len` elements, all zero.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`]; [`GpuError::Capturing`] in a capture.
    pub fn zeros<T: DeviceRepr + ValidAsZeroBits>(&self, len: usize) -> Result<Buffer<T>, GpuError> {
        let mut buffer = self.allocate(len)?;
        self.set_bytes(&mut buffer, 0)?;
        Ok(buffer)
    }

    /// A buffer of `len` elements that nobody has written, so that `compute-sanitizer --tool
    /// initcheck` reports who reads one too early. In builds with debug assertions all bits are
    /// set, which are no number as floats: results then show it, too.
    ///
    /// # Safety
    /// Any bits must be a valid `T`, and no element may be read before it is written.
    ///
    /// # Errors
    /// As [`Stream::zeros`].
    pub unsafe fn unwritten<T: DeviceRepr>(&self, len: usize) -> Result<Buffer<T>, GpuError> {
        let mut buffer = self.allocate(len)?;
        if cfg!(debug_assertions) {
            self.set_bytes(&mut buffer, 0xff)?;
        }
        Ok(buffer)
    }

    /// A buffer with a copy of `data`.
    ///
    /// # Errors
    /// As [`Stream::zeros`].
    pub fn upload<T: DeviceRepr>(&self, data: &[T]) -> Result<Buffer<T>, GpuError> {
        let mut buffer = self.allocate(data.len())?;
        self.write(data, &mut buffer)?;
        Ok(buffer)
    }

    /// Copies `data` to the start of `buffer` (or of a view of one). In a capture, the graph keeps
    /// a copy of `data`.
    ///
    /// # Errors
    /// [`GpuError::Length`] when the buffer is shorter than `data`.
    pub fn write<T: DeviceRepr>(
        &self,
        data: &[T],
        buffer: &mut impl DeviceSliceMut<T>,
    ) -> Result<(), GpuError> {
        if buffer.len() < data.len() {
            return Err(GpuError::Length {
                what: "copy to the GPU",
                needed: data.len(),
                found: buffer.len(),
            });
        }
        if size_of_val(data) == 0 {
            return Ok(());
        }
        let action = "copy to the GPU";
        let submission = self.submission();
        self.context.cuda().bind_to_thread().during(action)?;
        let target = submission.write(buffer)?;
        // SAFETY: as many bytes as `data` has, whose values are irrelevant.
        let bytes: &[MaybeUninit<u8>] =
            unsafe { std::slice::from_raw_parts(data.as_ptr().cast(), size_of_val(data)) };
        let mut source = bytes.as_ptr();
        submission.keep(|| {
            let copy: Box<[MaybeUninit<u8>]> = bytes.into();
            source = copy.as_ptr();
            Kept::Host(copy)
        })?;
        // SAFETY: the buffer has room for so many bytes, checked above. They are `data`, or in a
        // capture the copy of it that the graph keeps.
        unsafe { memcpy_htod_async(target, std::slice::from_raw_parts(source, bytes.len()), self.handle()) }
            .during(action)?;
        if source == bytes.as_ptr() && self.context.reads_host_memory(source.cast()) {
            // The driver has no copy: it reads `data` when the stream comes to it.
            self.synchronize()?;
        }
        Ok(())
    }

    /// Copies one buffer (or view) to the start of another, also from another device.
    ///
    /// # Errors
    /// [`GpuError::Length`] when the target is shorter.
    pub fn copy<T>(
        &self,
        from: &impl DeviceSlice<T>,
        to: &mut impl DeviceSliceMut<T>,
    ) -> Result<(), GpuError> {
        if to.len() < from.len() {
            return Err(GpuError::Length { what: "copy on the GPU", needed: from.len(), found: to.len() });
        }
        let bytes = from.len() * size_of::<T>();
        if bytes == 0 {
            return Ok(());
        }
        let action = "copy on the GPU";
        let submission = self.submission();
        self.context.cuda().bind_to_thread().during(action)?;
        submission.enter_any(from.allocation(), Access::Read)?;
        submission.enter_any(to.allocation(), Access::Write)?;
        let (source, target) = (from.address(), to.address());
        let (from, to) = (from.allocation().context(), to.allocation().context());
        // SAFETY: both have so many bytes, checked above, and the stream waits for what else uses
        // them.
        unsafe {
            if from == to && from == self.context.cuda().cu_ctx() {
                memcpy_dtod_async(target, source, bytes, self.handle())
            } else {
                memcpy_peer_async(to, target, from, source, bytes, self.handle())
            }
        }
        .during(action)
    }

    /// Sets every byte of `buffer` (or of a view of one), such as to a pattern that is not a
    /// number, so that what nobody wrote shows. Of the elements, any bits must be a value, which is
    /// not so of `bool`:
    ///
    /// ```compile_fail,E0277
    /// # fn f(stream: flopgap_gpu::Stream, flags: &mut flopgap_gpu::Buffer<bool>) {
    /// stream.fill(flags, 0xff);
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn fill<T: AnyBits>(&self, buffer: &mut impl DeviceSliceMut<T>, byte: u8) -> Result<(), GpuError> {
        self.set_bytes(buffer, byte)
    }

    /// The same for any type: whether the elements are valid then is up to the caller.
    fn set_bytes<T>(&self, buffer: &mut impl DeviceSliceMut<T>, byte: u8) -> Result<(), GpuError> {
        let bytes = buffer.len() * size_of::<T>();
        if bytes == 0 {
            return Ok(());
        }
        let action = "fill GPU memory";
        let submission = self.submission();
        self.context.cuda().bind_to_thread().during(action)?;
        let address = submission.write(buffer)?;
        // SAFETY: the buffer has so many bytes.
        unsafe { memset_d8_async(address, byte, bytes, self.handle()) }.during(action)
    }

    /// Waits for the work queued so far and returns a copy of `buffer` (or of a view of one).
    ///
    /// # Errors
    /// The error of a kernel that failed before; [`GpuError::Capturing`] in a capture.
    pub fn download<T: DeviceRepr>(&self, buffer: &impl DeviceSlice<T>) -> Result<Vec<T>, GpuError> {
        let action = "copy from the GPU";
        let mut data: Vec<T> = Vec::with_capacity(buffer.len());
        let submission = self.submission();
        submission.refuse_capture("copy from the GPU")?;
        self.context.cuda().bind_to_thread().during(action)?;
        let source = submission.read(buffer)?;
        let room = &mut data.spare_capacity_mut()[..buffer.len()];
        let copied = if size_of_val(room) == 0 {
            Ok(())
        } else {
            // SAFETY: the buffer has so many elements.
            unsafe { memcpy_dtoh_async(room, source, self.handle()) }
        };
        // Also after an error: nothing may write to `data` once it is dropped. The driver's manual
        // does not promise that the copy is done when the call returns.
        self.synchronize()?;
        copied.during(action)?;
        // SAFETY: the copy, which is done, wrote them.
        unsafe { data.set_len(buffer.len()) };
        Ok(data)
    }

    /// Waits until everything queued on this stream is done.
    ///
    /// # Errors
    /// The error of a kernel that failed.
    pub fn synchronize(&self) -> Result<(), GpuError> {
        self.queue.cuda().synchronize().during("wait for the stream")
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
