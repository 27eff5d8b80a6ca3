//! Work that is recorded once and launched as a unit.

use std::marker::PhantomData;
use std::sync::Arc;

use cudarc::driver::{CudaGraph, sys};

use crate::capture::{Open, is_any_open};
use crate::captured::{self, Captured, Kept};
use crate::error::{During as _, GpuError};
use crate::memory::free_later;
use crate::stream::Stream;

/// Work that was recorded with [`Stream::capture`]. It is launched on the stream that recorded it.
///
/// The graph owns what it uses: the memory of buffers, kernels, and numbers that are copied from
/// the host. So a buffer may be dropped before the graph is launched, and its memory is freed with
/// the graph. Only memory that was handed to unsafe launches as a bare address must be kept by the
/// caller. Like every other use of a buffer, a launch waits for uses of the same memory on other
/// streams.
///
/// ```no_run
/// let gpu = flopgap_gpu::Context::new(0)?;
/// let stream = gpu.stream()?;
/// let mut target = stream.zeros::<f32>(3)?;
/// let graph = {
///     let source = stream.upload(&[1.0_f32, 2.0, 3.0])?;
///     stream.capture(|| stream.copy(&source, &mut target))?
/// };
/// graph.launch()?; // reads the memory of `source`, which the graph owns now
/// assert_eq!(stream.download(&target)?, [1.0, 2.0, 3.0]);
/// # Ok::<(), flopgap_gpu::GpuError>(())
/// ```
pub struct Graph {
    // Dropped in this order: nothing may be freed before the graph has ended.
    cuda: CudaGraph,
    captured: Arc<Captured>,
    stream: Stream,
    nodes: usize,
}

impl std::fmt::Debug for Graph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Graph").field("nodes", &self.nodes).finish_non_exhaustive()
    }
}

/// A capture that is open. Ends it also when the work panics.
struct Capture<'s> {
    stream: &'s Stream,
    id: Option<u64>,
    /// Taken when the capture ends.
    open: Option<Open>,
    // The stream is captured by the thread that began it.
    this_thread: PhantomData<*const ()>,
}

impl<'s> Capture<'s> {
    fn begin(stream: &'s Stream) -> Result<Self, GpuError> {
        // Thread-local: calls of other threads that cannot be captured (an allocation, say) do not
        // break this capture.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        let queue = stream.queue();
        // Before the stream is captured, so that no thread takes it for one that is not.
        let open = Open::new();
        let id = {
            let _closed = queue.close();
            queue.cuda().begin_capture(mode).during("capture a graph")?;
            let id = queue.capture();
            if let Ok(Some(id)) = id {
                captured::begin(id);
            }
            id
        };
        let mut capture = Capture { stream, id: None, open: Some(open), this_thread: PhantomData };
        capture.id = id?;
        Ok(capture)
    }

    /// The graph, if the capture was not broken off, and what it uses.
    fn end(&mut self) -> Result<(Option<CudaGraph>, Captured), GpuError> {
        let open = self.open.take();
        let queue = self.stream.queue();
        let ended = {
            let _closed = queue.close();
            queue.cuda().end_capture(sys::CUgraphInstantiate_flags(0))
        };
        let captured = captured::end(self.id);
        drop(open);
        free_later();
        Ok((ended.during("capture a graph")?, captured))
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        if self.open.is_some() {
            // The stream is of no use until its capture has ended. Nothing can be done about an
            // error here.
            let _ = self.end();
        }
    }
}

impl Stream {
    /// Records what `work` queues on this stream, instead of running it, as a graph that is
    /// launched as one piece. Work on other streams that wait for an event of this one belongs to
    /// it, if this stream waits for them at the end.
    ///
    /// Allocate buffers before: `work` can neither allocate memory nor copy to the host. The graph
    /// owns the memory that it uses.
    ///
    /// # Errors
    /// The error of `work`; or the driver's, when `work` did what cannot be captured, such as
    /// waiting for the stream.
    pub fn capture<E: From<GpuError>>(&self, work: impl FnOnce() -> Result<(), E>) -> Result<Graph, E> {
        let mut capture = Capture::begin(self)?;
        let worked = work();
        // Also after an error: the stream is of no use until its capture has ended.
        let ended = capture.end();
        worked?;
        let (cuda, captured) = ended?;
        let cuda = cuda.ok_or_else(|| GpuError::Driver {
            action: "capture a graph",
            code: sys::CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED as u32,
            message: "the capture was broken off".to_owned(),
        })?;
        let mut nodes = 0_usize;
        // SAFETY: the graph is alive; a null array asks for the number of nodes alone.
        unsafe { sys::cuGraphGetNodes(cuda.cu_graph(), std::ptr::null_mut(), &raw mut nodes) }
            .result()
            .during("capture a graph")?;
        Ok(Graph { cuda, captured: Arc::new(captured), stream: self.clone(), nodes })
    }
}

impl Graph {
    /// Queues the whole graph on its stream.
    ///
    /// # Errors
    /// When the driver refuses; [`GpuError::Capturing`] when memory of the graph was last used on a
    /// stream that is being captured.
    pub fn launch(&self) -> Result<(), GpuError> {
        let submission = self.stream.submission();
        for (allocation, access) in self.captured.memory() {
            submission.enter(allocation, access)?;
        }
        // Launched into another capture, it becomes a part of that graph.
        submission.keep(|| Kept::owner(self.captured.clone()))?;
        self.cuda.launch().during("launch a graph")
    }

    /// Moves the graph to the device now, so that the first launch is not slower than the others.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn upload(&self) -> Result<(), GpuError> {
        self.cuda.upload().during("upload a graph")
    }

    /// The graph of `cudarc`.
    pub(crate) fn cuda(&self) -> &CudaGraph {
        &self.cuda
    }

    /// Kernels, copies and fills in the graph.
    pub fn nodes(&self) -> usize {
        self.nodes
    }
}

impl Drop for Graph {
    /// The fields go after this, the graph first. A launch that still runs keeps what it needs: the
    /// graph itself ends with it, memory is freed behind it, and code is unloaded when the device
    /// is done (see [`Kernel`](crate::Kernel)). Only numbers of the host are left.
    fn drop(&mut self) {
        if self.captured.reads_host() && (is_any_open() || self.stream.synchronize().is_err()) {
            // During a capture nothing may be waited for.
            std::mem::forget(self.captured.clone());
        }
    }
}
