//! The tables of an export that are read.

/// A table that nsys may have written.
#[derive(Debug)]
pub(crate) struct TableSpec {
    pub(crate) name: &'static str,
    /// What it holds, to complete "the trace does not contain".
    pub(crate) holds: &'static str,
}

/// A column to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    /// Whether the rows mean nothing without it.
    pub(crate) required: bool,
}

/// A column without which the rows mean nothing.
pub(crate) const fn need(name: &'static str) -> Column {
    Column { name, required: true }
}

/// A column that older exports lack.
pub(crate) const fn want(name: &'static str) -> Column {
    Column { name, required: false }
}

macro_rules! tables {
    ($($constant:ident = $name:literal: $holds:literal;)+) => {
        $(pub(crate) const $constant: TableSpec = TableSpec { name: $name, holds: $holds };)+
    };
}

tables! {
    KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL": "CUDA kernel data";
    RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME": "CUDA API data";
    MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY": "CUDA memory copies";
    MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET": "CUDA memory sets";
    NVTX = "NVTX_EVENTS": "NVTX annotations";
    GRAPH = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": "CUDA graphs traced as a whole";
    OSRT = "OSRT_API": "OS runtime calls";
    THREADS = "ThreadNames": "names of threads";
    GPUS = "TARGET_INFO_GPU": "GPUs";
    DEVICES = "TARGET_INFO_CUDA_DEVICE": "CUDA devices";
    OVERHEAD = "PROFILER_OVERHEAD": "overhead of the profiler";
    PROCESSES = "PROCESSES": "names of processes";
    CONTEXTS = "TARGET_INFO_CUDA_CONTEXT_INFO": "CUDA contexts";
    NULL_STREAMS = "TARGET_INFO_CUDA_NULL_STREAM": "CUDA contexts";
    STREAMS = "TARGET_INFO_CUDA_STREAM": "CUDA streams";
    SYNC = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": "CUDA synchronization";
    CUDA_EVENT = "CUPTI_ACTIVITY_KIND_CUDA_EVENT": "CUDA events";
    GRAPH_EVENTS = "CUDA_GRAPH_EVENTS": "the making of CUDA graphs";
    GRAPH_NODES = "CUDA_GRAPH_NODE_EVENTS": "the making of nodes of CUDA graphs";
    GPU_FAULTS = "CUDA_UM_GPU_PAGE_FAULT_EVENTS": "GPU page faults of CUDA unified memory";
    EXPORT_DATA = "META_DATA_EXPORT": "data on the export";
    EXPORT_DATA_OLD = "EXPORT_META_DATA": "data on the export";
    CAPTURE_DATA = "META_DATA_CAPTURE": "data on the recording";
    DIAGNOSTICS = "DIAGNOSTIC_EVENT": "diagnostics of nsys";
    SESSION = "TARGET_INFO_SESSION_START_TIME": "the time of the recording";
    ANALYSIS = "ANALYSIS_DETAILS": "the span of the recording";
    CPU_FAULTS = "CUDA_UM_CPU_PAGE_FAULT_EVENTS": "CPU page faults of CUDA unified memory";
}

/// The class of rows of [`RUNTIME`] that repeat a call to add its backtrace.
pub(crate) const BACKTRACE: i64 = 67;
