//! What the host did: calls, ranges, threads; and where traces differ in how they say it.

use std::io::Read;

use flopgap_kineto::{AnnotationKind, Device, Distributed, Job, Trace, WarningKind};
use flopgap_trace::{CorrelationId, DeviceId, ExternalId, Recording as _, StreamId};

fn read(text: &str) -> Trace {
    Trace::options().without_shapes(true).read(text.as_bytes(), "t.json").unwrap()
}

const STEP: &str = r#"{"schemaVersion": 1,
 "deviceProperties": [{"id": 0, "name": "NVIDIA H200", "totalGlobalMem": 150109880320, "numSms": 132}],
 "distributedInfo": {"backend": "nccl", "rank": 1, "world_size": 2},
 "baseTimeNanoseconds": 1790857026000000000,
 "traceEvents": [
 {"ph":"X","cat":"user_annotation","name":"ProfilerStep#3","pid":7,"tid":7,"ts":4367846873975.115,"dur":100.5,"args":{"External id":1}},
 {"ph":"X","cat":"cpu_op","name":"aten::mm","pid":7,"tid":7,"ts":4367846873980,"dur":9,"args":{"External id":2,"Sequence number":5}},
 {"ph":"s","id":1,"pid":7,"tid":7,"ts":4367846873980,"cat":"fwdbwd","name":"fwdbwd"},
 {"ph":"X","cat":"cpu_op","name":"MmBackward0","pid":7,"tid":9,"ts":4367846874000,"dur":9,"args":{"External id":3,"Sequence number":5,"Fwd thread id":1}},
 {"ph":"f","id":1,"pid":7,"tid":9,"ts":4367846874000,"cat":"fwdbwd","name":"fwdbwd","bp":"e"},
 {"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":7,"tid":9,"ts":4367846874001.25,"dur":2,"args":{"External id":3,"cbid":211,"correlation":44}},
 {"ph":"X","cat":"kernel","name":"gemm<\"a\">","pid":0,"tid":7,"ts":4367846874010,"dur":5,"args":{"External id":3,"device":0,"stream":7,"correlation":44,"est. achieved occupancy %":nan}},
 {"ph":"X","cat":"python_function","name":"nn.Module: Linear_0","pid":7,"tid":7,"ts":4367846873979,"dur":20,"args":{"Python id":3}},
 {"ph":"X","cat":"python_function","name":"torch/nn/modules/module.py(1773): _call_impl","pid":7,"tid":7,"ts":4367846873979,"dur":20,"args":{}},
 {"ph":"M","name":"thread_name","pid":7,"tid":9,"ts":0,"args":{"name":"thread 9 (pt_autograd_0)"}},
 {"ph":"X","cat":"mtia_ccp_events","name":"event_wait","pid":17,"tid":1,"ts":1,"dur":1}
 ],
 "displayTimeUnit": "ms", "traceName": "x"}"#;

#[test]
fn the_host_is_read_with_its_threads() {
    let trace = read(STEP);
    assert_eq!(trace.base, 1_790_857_026_000_000_000);
    assert_eq!(
        trace.distributed,
        Some(Distributed { rank: Some(1), world_size: Some(2), backend: Some("nccl".into()) })
    );
    let device = Device {
        id: Some(DeviceId(0)),
        name: Some("NVIDIA H200".into()),
        multiprocessors: Some(132),
        memory_bytes: Some(150_109_880_320),
    };
    assert_eq!(trace.devices, [device]);
    let annotations: Vec<_> = trace
        .annotations
        .iter()
        .map(|range| (&*range.name, range.kind, range.start, range.duration))
        .collect();
    assert_eq!(
        annotations,
        [
            ("ProfilerStep#3", AnnotationKind::User, 4_367_846_873_975_115, 100_500),
            ("nn.Module: Linear_0", AnnotationKind::Module, 4_367_846_873_979_000, 20_000),
        ]
    );
    let call = &trace.calls[0];
    assert_eq!(
        (&*call.name, call.correlation, call.start),
        ("cudaLaunchKernel", Some(CorrelationId(44)), 4_367_846_874_001_250)
    );
    let work = &trace.gpu_work[0];
    assert_eq!(
        (&*work.name, work.external, work.correlation),
        ("gemm<\"a\">", Some(ExternalId(3)), Some(CorrelationId(44)))
    );
    let autograd = &trace.threads[call.thread as usize];
    assert_eq!((autograd.process, autograd.number), (Some(7), Some(9)));
    assert_eq!(autograd.name.as_deref(), Some("thread 9 (pt_autograd_0)"));
    assert_eq!(autograd.backward_of, Some(trace.operators[0].thread));
    let warnings: Vec<_> = trace.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings, ["1 events of the category `mtia_ccp_events` are not read"]);
}

/// Without arrows the sequence numbers say whose operators a thread runs backward.
#[test]
fn sequence_numbers_stand_in_for_arrows() {
    let without: Vec<&str> = STEP.lines().filter(|line| !line.contains("fwdbwd")).collect();
    let trace = read(&without.join("\n"));
    let autograd = &trace.threads[trace.calls[0].thread as usize];
    assert_eq!(autograd.backward_of, Some(trace.operators[0].thread));
}

#[test]
fn numbers_as_texts_and_old_names_are_understood() {
    let trace = read(
        r#"[{"ph":"X","cat":"Operator","name":"ProfilerStep#1009","pid":"7","tid":"7","ts":"1661938466265087","dur":"100298","args":{}},
        {"ph":"X","cat":"Runtime","name":"cudaLaunchKernel","pid":7,"tid":7,"ts":1661938466265090,"dur":3,"args":{"cbid":211,"correlation":"5","external id":"1"}},
        {"ph":"X","cat":"Kernel","name":"k","pid":2,"tid":"stream 7","ts":1661938466265100.125,"dur":3,"args":{"queued":0,"device":2,"stream":7,"correlation":"5","external id":"1"}},
        {"ph":"X","cat":"Memset","name":"Memset (Device)","pid":3,"tid":20,"ts":1661938466265200,"dur":1}, ]"#,
    );
    assert_eq!(&*trace.annotations[0].name, "ProfilerStep#1009");
    assert_eq!(trace.annotations[0].start, 1_661_938_466_265_087_000);
    assert_eq!(trace.calls[0].correlation, trace.gpu_work[0].correlation);
    assert_eq!(trace.annotations[0].thread, trace.calls[0].thread);
    // More digits than a float has.
    assert_eq!(trace.gpu_work[0].start, 1_661_938_466_265_100_125);
    assert_eq!(trace.gpu_work[0].external, Some(ExternalId(1)));
    // Without arguments, processes are GPUs and threads streams.
    assert_eq!((trace.gpu_work[1].device, trace.gpu_work[1].stream), (Some(DeviceId(3)), Some(StreamId(20))));
}

/// Gives a few bytes at a time.
struct Slow<'a>(&'a [u8], usize);

impl Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.1.min(self.0.len()).min(buffer.len());
        buffer[..count].copy_from_slice(&self.0[..count]);
        self.0 = &self.0[count..];
        Ok(count)
    }
}

#[test]
fn it_does_not_matter_where_a_read_ends() {
    // Longer than the window.
    let events: Vec<String> = (0..4000)
        .map(|at| format!(r#"{{"ph":"X","cat":"kernel","name":"k{}","pid":0,"tid":7,"ts":{at}.5,"dur":1,"args":{{"note":"{}"}}}}"#, at % 7, "}]\\\"".repeat(20)))
        .collect();
    let text = format!("{{\"traceEvents\":[{}]}}", events.join(",\n"));
    let expected = read(&text);
    assert_eq!(expected.gpu_work.len(), 4000);
    for step in [1, 7, 4096, 100_003] {
        let found =
            Trace::options().without_shapes(true).read(Slow(text.as_bytes(), step), "t.json").unwrap();
        assert_eq!(found.gpu_work, expected.gpu_work, "{step}");
    }
}

#[test]
fn arguments_that_are_none_are_counted() {
    let trace = read(
        r#"[{"ph":"X","cat":"kernel","name":"k","ts":1,"dur":1,"args":{"device" 0}},{"ph":"X","cat":"kernel","name":"k","ts":1,"dur":1,"args":7}]"#,
    );
    assert_eq!(trace.gpu_work.len(), 2);
    assert_eq!(trace.warnings[0].kind, WarningKind::Arguments { events: 1 });
}

/// Clocks of machines that never ran at the same time are not one clock, so that nothing says how
/// long the ranks ran together.
#[test]
fn ranks_with_clocks_of_their_own_are_not_hours_apart() {
    let rank = |rank: u64, begin: u64| {
        read(&format!(
            r#"{{"distributedInfo":{{"rank":{rank},"world_size":2}},"traceEvents":[
            {{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":{begin},"dur":9,"args":{{"stream":7}}}}]}}"#
        ))
    };
    let span = |begin| Job::of(vec![rank(0, 5), rank(1, begin)]).unwrap().span().unwrap();
    assert_eq!(span(148_753_000_000), Some((0, 9_000)));
    assert_eq!(span(7), Some((0, 11_000)));
}
