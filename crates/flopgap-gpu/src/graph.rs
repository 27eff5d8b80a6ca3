//! Work that is recorded once and launched as one piece.

use cudarc::driver::{CudaGraph, sys};

use crate::error::GpuError;
use crate::stream::Stream;

/// Work that was recorded with [`Stream::capture`]. It is launched on the stream that recorded it.
///
/// The buffers that it uses must outlive it: the graph holds their addresses, not the buffers.
pub struct Graph {
    cuda: CudaGraph,
    nodes: usize,
}

impl std::fmt::Debug for Graph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Graph").field("nodes", &self.nodes).finish_non_exhaustive()
    }
}

impl Graph {
    pub(crate) fn capture<E: From<GpuError>>(
        stream: &Stream,
        work: impl FnOnce() -> Result<(), E>,
    ) -> Result<Self, E> {
        let failed = |error| GpuError::driver("capture a graph", error);
        // Thread-local: calls of other threads that cannot be captured (an allocation, say) do not break this capture.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        stream.cuda().begin_capture(mode).map_err(failed)?;
        let worked = work();
        // Also after an error: the stream is of no use until its capture has ended.
        let ended = stream.cuda().end_capture(sys::CUgraphInstantiate_flags(0));
        worked?;
        let cuda = ended.map_err(failed)?.ok_or_else(|| GpuError::Driver {
            action: "capture a graph",
            code: sys::CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED as u32,
            message: "the capture was broken off".to_owned(),
        })?;
        let mut nodes = 0_usize;
        // SAFETY: the graph is alive; a null array asks for the number of nodes alone.
        unsafe { sys::cuGraphGetNodes(cuda.cu_graph(), std::ptr::null_mut(), &raw mut nodes) }
            .result()
            .map_err(failed)?;
        Ok(Graph { cuda, nodes })
    }

    /// Queues the whole graph on its stream.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn launch(&self) -> Result<(), GpuError> {
        self.cuda.launch().map_err(|error| GpuError::driver("launch a graph", error))
    }

    /// Moves the graph to the device now, so that the first launch is not slower than the others.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn upload(&self) -> Result<(), GpuError> {
        self.cuda.upload().map_err(|error| GpuError::driver("upload a graph", error))
    }

    /// Kernels, copies and fills in the graph.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// The graph of `cudarc`.
    pub fn cuda(&self) -> &CudaGraph {
        &self.cuda
    }
}
