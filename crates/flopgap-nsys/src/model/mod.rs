//! What was recorded, row by row.

mod calls;
mod graph;
mod labels;
mod nvtx;
mod operation;
mod session;
mod sync;
mod target;
pub(crate) mod unified;

pub use calls::{ApiCall, OsCall, ProfilerOverhead};
pub use graph::{GraphCreation, GraphPart, GraphRun};
pub use labels::{
    access_label, copy_label, memory_label, migration_label, severity_label, stream_label, sync_label,
};
pub use nvtx::{NvtxEvent, NvtxKind, NvtxPayload, NvtxText};
pub use operation::{Kernel, MemoryCopy, MemorySet, Placement};
pub use session::{Diagnostic, Metadata, Session};
pub use sync::{CudaEvent, Synchronization};
pub use target::{Context, CudaDevice, Gpu, Process, Stream, ThreadName};
pub use unified::{CpuPageFault, GpuPageFault, Migration};
