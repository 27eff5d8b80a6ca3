//! What GPUs did, in traces as `PyTorch` 2 writes them, and traces of which no FLOPs are known.

use flopgap_kineto::{Error, GpuKind, Trace};
use flopgap_trace::{ContextId, CorrelationId, DeviceId, StreamId};

const TRACE: &str = r#"{"traceEvents": [
{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 100.5, "dur": 2.25,
 "args": {"External id": 3, "device": 0, "context": 1, "stream": 7, "correlation": 11, "registers per thread": 128,
  "shared memory": 16384, "blocks per SM": 0.48, "grid": [64, 2, 1], "block": [128, 1, 1], "est. achieved occupancy %": 6}},
{"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pinned -> Device)", "pid": 0, "tid": 7, "ts": 90, "dur": 1,
 "args": {"device": 0, "context": 1, "stream": 7, "correlation": 9, "bytes": 4096, "memory bandwidth (GB/s)": 4.0}},
{"ph": "X", "cat": "gpu_memset", "name": "Memset (Device)", "pid": 0, "tid": 7, "ts": 95, "dur": 0, "args": {"bytes": 8}},
{"ph": "X", "cat": "kernel", "name": "odd", "pid": 0, "tid": 7, "ts": 110, "dur": 1, "args": {"grid": {"x": 1}, "block": 3}},
{"ph": "X", "cat": "kernel", "name": "endless", "pid": 0, "tid": 7, "ts": 120}
]}"#;

fn without_shapes(path: &std::path::Path) -> Result<Trace, Error> {
    Trace::options().without_shapes(true).open(path)
}

fn path(folder: &tempfile::TempDir) -> std::path::PathBuf {
    let path = folder.path().join("gpu.json");
    std::fs::write(&path, TRACE).unwrap();
    path
}

#[test]
fn kernels_copies_and_memsets_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let trace = without_shapes(&path(&folder)).unwrap();
    let found: Vec<_> =
        trace.gpu_work.iter().map(|work| (work.kind, &*work.name, work.start, work.duration)).collect();
    assert_eq!(
        found,
        [
            (GpuKind::Kernel, "gemm", 100_500, 2_250),
            (GpuKind::Copy, "Memcpy HtoD (Pinned -> Device)", 90_000, 1_000),
            (GpuKind::Memset, "Memset (Device)", 95_000, 0),
            (GpuKind::Kernel, "odd", 110_000, 1_000),
        ]
    );
    let [gemm, copy, _, odd] = &trace.gpu_work[..] else { panic!("four") };
    assert_eq!((gemm.grid, gemm.block), (Some([64, 2, 1].into()), Some([128, 1, 1].into())));
    assert_eq!((gemm.registers, gemm.shared_bytes, gemm.bytes), (Some(128), Some(16_384), None));
    assert_eq!(
        (gemm.device, gemm.context, gemm.stream, gemm.correlation),
        (Some(DeviceId(0)), Some(ContextId(1)), Some(StreamId(7)), Some(CorrelationId(11)))
    );
    assert_eq!((copy.bytes, copy.grid), (Some(4096), None));
    assert_eq!((odd.grid, odd.block), (None, None));
    let warnings: Vec<String> = trace.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings, ["event 5: `endless` has no start or no duration; skipped"]);
}

#[test]
fn without_shapes_is_an_error_only_where_flops_are_wanted() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(Trace::open(path(&folder)), Err(Error::NoOperators { .. })));
    let path = folder.path().join("no.json");
    std::fs::write(&path, "{}").unwrap();
    assert!(matches!(without_shapes(&path), Err(Error::NotATrace { .. })));
}
