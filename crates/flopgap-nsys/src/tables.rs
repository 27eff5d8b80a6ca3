//! The tables of an export that are read.

use crate::trace::TableSpec;

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
    CPU_FAULTS = "CUDA_UM_CPU_PAGE_FAULT_EVENTS": "CPU page faults of CUDA unified memory";
}
