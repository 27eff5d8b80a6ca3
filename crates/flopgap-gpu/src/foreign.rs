//! Contexts, streams and memory that the calling program already has.
//!
//! Types of `cudarc` are shared safely; handles of the driver need the caller's promises. The
//! versions must agree: the types are those of [`cudarc`](crate::cudarc) as this crate re-exports
//! it.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DeviceRepr, result, sys};

use crate::context::Context;
use crate::device::{Device, start_driver};
use crate::error::{During as _, GpuError};
use crate::memory::{Allocation, Buffer, Queue};
use crate::stream::Stream;

/// `CU_STREAM_PER_THREAD`: another stream on every thread, but a [`Stream`] moves between them.
const PER_THREAD: usize = 2;

fn check_stream(cuda: &CudaStream) -> Result<(), GpuError> {
    if cuda.cu_stream() as usize == PER_THREAD { Err(GpuError::PerThreadStream) } else { Ok(()) }
}

impl Context {
    /// A context of `cudarc`, shared with the caller: [`cudarc`](crate::cudarc) is the version that
    /// this crate is built on.
    ///
    /// ```no_run
    /// use flopgap_gpu::cudarc::driver::CudaContext;
    ///
    /// let theirs = CudaContext::new(0)?;
    /// let gpu = flopgap_gpu::Context::from_cudarc(theirs.clone())?;
    /// assert_eq!(gpu.cuda(), &theirs);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Device::get`]: the driver is too old for this crate, for example.
    pub fn from_cudarc(cuda: Arc<CudaContext>) -> Result<Self, GpuError> {
        start_driver()?;
        Self::of(Device::get(cuda.ordinal())?, cuda)
    }

    /// A context of the driver's API that someone else created and will destroy, such as a C++
    /// program that embeds this one. The primary context of a device, which CUDA's runtime and
    /// PyTorch use, needs no handle: [`Context::new`] retains it.
    ///
    /// The context becomes the current one of the calling thread, as with every call of this crate.
    /// About 100 bytes of the host are never freed, since `cudarc` would destroy the context with
    /// them.
    ///
    /// # Safety
    /// `context` must be a context of this process, and must not be destroyed while this value, a
    /// clone of it, or anything created from it (streams, buffers, kernels, graphs) is alive.
    ///
    /// # Errors
    /// As [`Context::from_cudarc`]; when the driver does not know the context.
    pub unsafe fn from_raw(context: sys::CUcontext) -> Result<Self, GpuError> {
        start_driver()?;
        let action = "use the context";
        // SAFETY: the caller's promise.
        unsafe { result::ctx::set_current(context) }.during(action)?;
        let mut number = 0;
        // SAFETY: a context is current, and there is room for the number of its device.
        unsafe { sys::cuCtxGetDevice(&raw mut number) }.result().during(action)?;
        let ordinal = usize::try_from(number).unwrap_or_default();
        // SAFETY: the caller's promise. It is never destroyed here: one reference is never dropped.
        let cuda = unsafe { CudaContext::from_raw_context(ordinal, number, context) }.during(action)?;
        std::mem::forget(cuda.clone());
        Self::of(Device::get(ordinal)?, cuda)
    }
}

impl Stream {
    /// A stream of `cudarc`, shared with the caller. The caller's work on it and the work queued
    /// here are ordered like any work on one stream. Also the default stream, which `cudarc` gives
    /// as `CudaContext::default_stream`.
    ///
    /// ```no_run
    /// use flopgap_gpu::cudarc::driver::CudaContext;
    ///
    /// let theirs = CudaContext::new(0)?.new_stream()?;
    /// let stream = flopgap_gpu::Stream::from_cudarc(theirs)?;
    /// let numbers = stream.upload(&[1.0_f32, 2.0, 3.0])?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// While the stream is captured by other means than [`Stream::capture`], work on it is refused
    /// with
    /// [`GpuError::Capturing`]: nothing would keep the memory of that graph.
    ///
    /// # Errors
    /// As [`Context::from_cudarc`]; [`GpuError::PerThreadStream`].
    pub fn from_cudarc(cuda: Arc<CudaStream>) -> Result<Self, GpuError> {
        check_stream(&cuda)?;
        let context = Context::from_cudarc(cuda.context().clone())?;
        Ok(Self::on(Queue::foreign(cuda), context))
    }

    /// A stream of the driver's API (or of CUDA's runtime, which has the same handles) that someone
    /// else created and will destroy. A null handle is the default stream.
    ///
    /// # Safety
    /// `stream` must be a stream of `context`, and must not be destroyed while this value, a clone
    /// of it, or a buffer, event or graph that was created or used on it is alive.
    ///
    /// # Errors
    /// [`GpuError::PerThreadStream`].
    pub unsafe fn from_raw(context: &Context, stream: sys::CUstream) -> Result<Self, GpuError> {
        // SAFETY: the caller's promise.
        let cuda = unsafe { context.cuda().wrap_borrowed_stream(stream) };
        check_stream(&cuda)?;
        Ok(Self::on(Queue::foreign(cuda), context.clone()))
    }
}

impl<T: DeviceRepr> Buffer<T> {
    /// Memory of `cudarc`, which this buffer owns from now on. It is freed on the stream of the
    /// slice.
    ///
    /// ```no_run
    /// use flopgap_gpu::cudarc::driver::CudaContext;
    /// use flopgap_gpu::{Buffer, Stream};
    ///
    /// let theirs = CudaContext::new(0)?.new_stream()?;
    /// let numbers = Buffer::from_cudarc(theirs.clone_htod(&[1.0_f32, 2.0, 3.0])?)?;
    /// let stream = Stream::from_cudarc(theirs)?;
    /// assert_eq!(stream.download(&numbers)?, [1.0, 2.0, 3.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`GpuError::PerThreadStream`].
    pub fn from_cudarc(slice: CudaSlice<T>) -> Result<Self, GpuError> {
        check_stream(slice.stream())?;
        let (len, home) = (slice.len(), Queue::foreign(slice.stream().clone()));
        // The stream of the slice waits for work on it that was queued on others.
        let address = slice.leak();
        Ok(Buffer::new(Allocation::foreign(&home, address, len * size_of::<T>(), true), len))
    }

    /// Memory that someone else allocated and will free: `len` elements from `address` on, which
    /// the caller uses on `stream`, or orders with it. Work on other streams of this crate waits
    /// for this one, as with every buffer.
    ///
    /// # Safety
    /// - The memory must be of the context of `stream`, have room for `len` elements, be aligned
    ///   for them, and hold valid ones before they are read.
    /// - It must not be freed while this buffer is alive, nor before the work and the graphs that
    ///   use it are done.
    /// - Other work on it, also through another buffer of the same memory, must be ordered with
    ///   events or by the stream: this crate knows only what is done with this buffer.
    ///
    /// ```no_run
    /// # fn f(context: &flopgap_gpu::Context, handle: flopgap_gpu::cudarc::driver::sys::CUstream, address: u64)
    /// # -> Result<(), flopgap_gpu::GpuError> {
    /// // From a C++ program or from PyTorch: a stream and `float[1024]` on it.
    /// // SAFETY: both outlive this function, and nothing else uses the memory meanwhile.
    /// let stream = unsafe { flopgap_gpu::Stream::from_raw(context, handle) }?;
    /// let numbers = unsafe { flopgap_gpu::Buffer::<f32>::from_raw(&stream, address, 1024) };
    /// # Ok(())
    /// # }
    /// ```
    pub unsafe fn from_raw(stream: &Stream, address: u64, len: usize) -> Self {
        let bytes = len * size_of::<T>();
        Buffer::new(Allocation::foreign(stream.queue(), address, bytes, false), len)
    }
}
