//! Work that is recorded once and launched as one piece.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::cublas::CudaBlas;
use cudarc::driver::{CudaGraph, sys};

use crate::blaslt::Handle;
use crate::context::Kernel;
use crate::dnn;
use crate::error::GpuError;
use crate::memory::{Access, Allocation, Order, Queue, free_later, wait_for_all};
use crate::stream::Stream;

/// Work that was recorded with [`Stream::capture`]. It is launched on the stream that recorded it.
///
/// The graph owns what it uses: the memory of buffers, kernels, and numbers that are copied from the host. So a buffer may be dropped
/// before the graph is launched, and its memory is freed with the graph. Only memory that was handed to unsafe launches as a bare address must
/// be kept by the caller. Like every other use of a buffer, a launch waits for uses of the same memory on other streams.
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

/// What a graph uses.
#[derive(Debug, Default)]
pub(crate) struct Captured {
    memory: Vec<Used>,
    kept: Vec<Kept>,
}

/// Memory that a graph uses.
#[derive(Debug)]
struct Used {
    allocation: Arc<Allocation>,
    access: Access,
    /// Among the streams of the capture.
    order: Order<Queue>,
}

/// What must live as long as a graph, beside memory on the device. Nobody reads it here.
#[derive(Debug)]
pub(crate) enum Kept {
    Kernel(#[expect(dead_code, reason = "kept alive")] Kernel),
    Blas(#[expect(dead_code, reason = "kept alive")] Arc<CudaBlas>),
    Dnn(#[expect(dead_code, reason = "kept alive")] Arc<dnn::Plan>),
    Pooling(#[expect(dead_code, reason = "kept alive")] Arc<dnn::PoolingShared>),
    BlasLt(#[expect(dead_code, reason = "kept alive")] Arc<Handle>),
    Host(#[expect(dead_code, reason = "kept alive")] Box<[MaybeUninit<u8>]>),
    Graph(#[expect(dead_code, reason = "kept alive")] Arc<Captured>),
}

/// How many captures are open. While there are none, nobody has to ask the driver.
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// The open captures, by the driver's number.
static CAPTURES: Mutex<Vec<(u64, Captured)>> = Mutex::new(Vec::new());

fn captures() -> MutexGuard<'static, Vec<(u64, Captured)>> {
    CAPTURES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether any stream of this process is being captured.
pub(crate) fn is_any_open() -> bool {
    OPEN.load(Ordering::SeqCst) > 0
}

/// The capture that what is queued goes to, if any.
pub(crate) fn capture_of(queue: &Queue) -> Result<Option<u64>, GpuError> {
    use sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    if !is_any_open() {
        return Ok(None);
    }
    let (mut status, mut id) = (CU_STREAM_CAPTURE_STATUS_NONE, 0);
    let none = std::ptr::null_mut;
    // SAFETY: the stream is alive; null pointers ask for nothing.
    let result = unsafe {
        sys::cuStreamGetCaptureInfo_v3(
            queue.handle(),
            &raw mut status,
            &raw mut id,
            none(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
        )
    };
    result.result().map_err(|error| GpuError::driver("ask whether a stream is being captured", error))?;
    Ok((status != CU_STREAM_CAPTURE_STATUS_NONE).then_some(id))
}

/// Runs with what is known of a capture.
fn with_captured<T>(id: u64, run: impl FnOnce(&mut Captured) -> T) -> Result<T, GpuError> {
    let mut open = captures();
    let found = open.iter_mut().find(|(number, _)| *number == id);
    // Begun by others, who would not keep the memory.
    let (_, captured) = found.ok_or(GpuError::Capturing {
        action: "queue work on a stream that is being captured by other means than Stream::capture",
    })?;
    Ok(run(captured))
}

/// The graph of a capture will use this memory.
pub(crate) fn record(
    id: u64,
    allocation: &Arc<Allocation>,
    queue: &Queue,
    runs_on: &Queue,
    access: Access,
) -> Result<(), GpuError> {
    let waits = with_captured(id, |captured| captured.used(allocation).order.waits_for(queue, access))?;
    // Not under the lock of the captures: whoever begins one takes it while a queue is closed.
    wait_for_all(&waits, queue, runs_on)?;
    with_captured(id, |captured| {
        let used = captured.used(allocation);
        used.order.enter(queue, access);
        used.access = used.access.max(access);
    })
}

impl Captured {
    /// What the graph does with this memory, which it owns from now on.
    fn used(&mut self, allocation: &Arc<Allocation>) -> &mut Used {
        let known = self.memory.iter().position(|used| Arc::ptr_eq(&used.allocation, allocation));
        let index = known.unwrap_or(self.memory.len());
        if known.is_none() {
            // What came before the graph is waited for when it is launched.
            let (allocation, access, order) = (allocation.clone(), Access::Read, Order::new(None));
            self.memory.push(Used { allocation, access, order });
        }
        &mut self.memory[index]
    }
}

/// The graph of a capture will use this.
pub(crate) fn keep(id: u64, kept: Kept) -> Result<(), GpuError> {
    with_captured(id, |captured| captured.kept.push(kept))
}

/// A capture that is open. Ends it also when the work panics.
struct Capture<'s> {
    stream: &'s Stream,
    id: Option<u64>,
    ended: bool,
    // The stream is captured by the thread that began it.
    this_thread: PhantomData<*const ()>,
}

impl<'s> Capture<'s> {
    fn begin(stream: &'s Stream) -> Result<Self, GpuError> {
        // Thread-local: calls of other threads that cannot be captured (an allocation, say) do not break this capture.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        let queue = stream.queue();
        let id = {
            let _closed = queue.close();
            // Before the stream is captured, so that nobody takes it for one that is not.
            OPEN.fetch_add(1, Ordering::SeqCst);
            if let Err(error) = queue.cuda().begin_capture(mode) {
                OPEN.fetch_sub(1, Ordering::SeqCst);
                return Err(GpuError::driver("capture a graph", error));
            }
            let id = capture_of(queue);
            if let Ok(Some(id)) = id {
                captures().push((id, Captured::default()));
            }
            id
        };
        let mut capture = Capture { stream, id: None, ended: false, this_thread: PhantomData };
        capture.id = id?;
        Ok(capture)
    }

    /// The graph, if the capture was not broken off, and what it uses.
    fn end(&mut self) -> Result<(Option<CudaGraph>, Captured), GpuError> {
        self.ended = true;
        let queue = self.stream.queue();
        let ended = {
            let _closed = queue.close();
            queue.cuda().end_capture(sys::CUgraphInstantiate_flags(0))
        };
        let captured = {
            let mut open = captures();
            let index = open.iter().position(|(number, _)| Some(*number) == self.id);
            index.map(|index| open.swap_remove(index).1).unwrap_or_default()
        };
        OPEN.fetch_sub(1, Ordering::SeqCst);
        free_later();
        Ok((ended.map_err(|error| GpuError::driver("capture a graph", error))?, captured))
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        if !self.ended {
            // The stream is of no use until its capture has ended. Nothing can be done about an error here.
            let _ = self.end();
        }
    }
}

impl Graph {
    pub(crate) fn capture<E: From<GpuError>>(
        stream: &Stream,
        work: impl FnOnce() -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut capture = Capture::begin(stream)?;
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
            .map_err(|error| GpuError::driver("capture a graph", error))?;
        Ok(Graph { cuda, captured: Arc::new(captured), stream: stream.clone(), nodes })
    }

    /// Queues the whole graph on its stream.
    ///
    /// # Errors
    /// When the driver refuses; [`GpuError::Capturing`] when memory of the graph was last used on a stream that is being captured.
    pub fn launch(&self) -> Result<(), GpuError> {
        let submission = self.stream.submission();
        for used in &self.captured.memory {
            submission.enter(&used.allocation, used.access)?;
        }
        // Launched into another capture, it becomes a part of that graph.
        submission.keep(|| Kept::Graph(self.captured.clone()))?;
        self.cuda.launch().map_err(|error| GpuError::driver("launch a graph", error))
    }

    /// Moves the graph to the device now, so that the first launch is not slower than the others.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn upload(&self) -> Result<(), GpuError> {
        self.cuda.upload().map_err(|error| GpuError::driver("upload a graph", error))
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
    /// The fields go after this, the graph first. A launch that still runs keeps what it needs: the graph itself ends with it, memory is
    /// freed behind it, and code is unloaded when the device is done (see [`Kernel`]). Only numbers of the host are left.
    fn drop(&mut self) {
        let reads_host = self.captured.kept.iter().any(|kept| matches!(kept, Kept::Host(_)));
        if reads_host && (is_any_open() || self.stream.synchronize().is_err()) {
            // During a capture nothing may be waited for.
            std::mem::forget(self.captured.clone());
        }
    }
}
