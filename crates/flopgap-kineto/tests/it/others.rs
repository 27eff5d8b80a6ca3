//! Traces that others than `torch.profiler` write: XLA, and events that begin and end apart.

use flopgap_kineto::{GpuKind, Job, Profiler, Trace};
use flopgap_trace::{Attribution, DeviceId, Recording as _, StreamId};

fn read(text: &str) -> Trace {
    Trace::options().without_shapes(true).read(text.as_bytes(), "t.json").unwrap()
}

/// As JAX writes it: no categories, names of processes and lines, one empty event at the end.
const XLA: &str = r#"{"displayTimeUnit":"ns","metadata":{"highres-ticks":true},"traceEvents":[
{"ph":"M","pid":1,"name":"process_name","args":{"name":"/device:GPU:0"}},
{"ph":"M","pid":1,"name":"process_sort_index","args":{"sort_index":1}},
{"ph":"M","pid":1,"tid":14,"name":"thread_name","args":{"name":"Stream #14(MemcpyD2H,Compute)"}},
{"ph":"M","pid":1,"tid":101,"name":"thread_name","args":{"name":"XLA Modules"}},
{"ph":"M","pid":1,"tid":102,"name":"thread_name","args":{"name":"XLA Ops"}},
{"ph":"M","pid":701,"name":"process_name","args":{"name":"/host:CPU"}},
{"ph":"M","pid":701,"tid":33,"name":"thread_name","args":{"name":"python"}},
{"ph":"X","pid":1,"tid":14,"ts":50.125,"dur":3.5,"name":"loop_add_fusion","args":{"correlation_id":"7","hlo_op":"loop_add_fusion","hlo_module":"jit_train_step"}},
{"ph":"X","pid":1,"tid":14,"ts":60,"dur":2,"name":"MemcpyD2H","args":{"correlation_id":8,"memcpy_details":"kind_src:device kind_dst:pinned size:64 dest:0 async:1"}},
{"ph":"X","pid":1,"tid":101,"ts":50,"dur":12,"name":"jit_train_step(55)","args":{}},
{"ph":"X","pid":1,"tid":102,"ts":50.125,"dur":3.5,"name":"loop_add_fusion","args":{}},
{"ph":"X","pid":701,"tid":33,"ts":10,"dur":80,"name":"train","args":{"step_num":"4"}},
{"ph":"X","pid":701,"tid":33,"ts":12,"dur":30,"name":"PjitFunction(train_step)","args":{}},
{"ph":"X","pid":701,"tid":33,"ts":12,"dur":30,"name":"$train.py:12 main"},
{"ph":"X","pid":701,"tid":33,"ts":20,"dur":1,"name":"cuLaunchKernel","args":{"correlation_id":7}},
{"ph":"X","pid":701,"tid":33,"ts":25,"dur":1,"name":"cuMemcpyDtoHAsync_v2","args":{"correlation_id":8}},
{}]}"#;

#[test]
fn a_trace_of_xla_is_recognized_and_read_as_far_as_it_goes() {
    let trace = read(XLA);
    assert_eq!(trace.profiler, Profiler::Xla);
    let work: Vec<_> = trace
        .gpu_work
        .iter()
        .map(|work| (work.kind, &*work.name, work.start, work.duration, work.device, work.stream, work.bytes))
        .collect();
    let (device, stream) = (Some(DeviceId(0)), Some(StreamId(14)));
    assert_eq!(
        work,
        [
            (GpuKind::Kernel, "loop_add_fusion", 50_125, 3_500, device, stream, None),
            (GpuKind::Copy, "MemcpyD2H", 60_000, 2_000, device, stream, Some(64)),
        ]
    );
    let ranges: Vec<_> = trace.annotations.iter().map(|range| &*range.name).collect();
    assert_eq!(ranges, ["train step 4", "PjitFunction(train_step)"]);
    let warnings: Vec<_> = trace.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        ["a trace of XLA: 3 frames of Python and events that repeat those of streams (such as `XLA Ops`) \
          are not read"]
    );
    let job = Job::of(vec![trace]).unwrap();
    let work = job.launched(Attribution::default()).unwrap().work_of(&[0, 1]);
    let work: Vec<_> =
        work.into_iter().map(|work| work.map(|work| (work.kernels, work.operations))).collect();
    assert_eq!(work, [Some((1, 2)); 2]);
}

/// The same events with a beginning and an end are the same trace.
#[test]
fn events_may_begin_and_end_apart() {
    let apart = r#"[
        {"ph":"B","cat":"user_annotation","name":"step","pid":3,"tid":3,"ts":0},
        {"ph":"B","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":3,"tid":3,"ts":1.25,"args":{"correlation":4}},
        {"ph":"E","pid":3,"tid":3,"ts":2.5},
        {"ph":"B","cat":"kernel","name":"k<\"a\">","pid":0,"tid":7,"ts":5.001,"args":{}},
        {"ph":"E","pid":3,"tid":3,"ts":9},
        {"ph":"E","pid":0,"tid":7,"ts":7.002,"args":{"device":0,"stream":7,"correlation":4}},
        {"ph":"E","pid":0,"tid":7,"ts":8},
        {"ph":"B","cat":"kernel","name":"cut off","pid":0,"tid":7,"ts":9}]"#;
    let whole = r#"[
        {"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":3,"tid":3,"ts":1.25,"dur":1.25,"args":{"correlation":4}},
        {"ph":"X","cat":"user_annotation","name":"step","pid":3,"tid":3,"ts":0,"dur":9},
        {"ph":"X","cat":"kernel","name":"k<\"a\">","pid":0,"tid":7,"ts":5.001,"dur":2.001,"args":{"device":0,"stream":7,"correlation":4}}]"#;
    let (apart, whole) = (read(apart), read(whole));
    assert_eq!(apart.gpu_work, whole.gpu_work);
    assert_eq!(apart.calls, whole.calls);
    assert_eq!(apart.annotations, whole.annotations);
    let warnings: Vec<_> = apart.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings, ["2 events begin without an end or end without a beginning; skipped"]);
}
