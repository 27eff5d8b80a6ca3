//! What a profiler of a framework records by itself marks no pass.

use flopgap_kineto::Job;
use flopgap_timings::PassKind;
use flopgap_timings::passes::{Options, passes};

/// A step with two operators called `forward`, as scripted modules have them, and in the second
/// trace with a pass that the user marked by the same name.
fn trace(marked: bool) -> String {
    let annotation = |name: &str, start: u32, duration: u32| {
        format!(
            r#"{{"ph": "X", "cat": "user_annotation", "name": "{name}", "pid": 1, "tid": 1, "ts": {start}, "dur": {duration}}},"#
        )
    };
    let operator = |start: u32, id: u32| {
        format!(
            r#"{{"ph": "X", "cat": "cpu_op", "name": "forward", "pid": 1, "tid": 1, "ts": {start}, "dur": 10, "args": {{"External id": {id}}}}},
            {{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": {start}, "dur": 5, "args": {{"correlation": {id}, "External id": {id}}}}},
            {{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": {start}, "dur": 5, "args": {{"correlation": {id}, "External id": {id}, "device": 0, "stream": 7, "context": 1}}}},"#
        )
    };
    let events = [
        annotation("ProfilerStep#1", 0, 100),
        if marked { annotation("forward", 5, 90) } else { String::new() },
        operator(10, 1),
        operator(50, 2),
    ];
    format!(r#"{{"schemaVersion": 1, "traceEvents": [{}]}}"#, events.concat().trim_end_matches(','))
}

#[test]
fn an_operator_called_forward_is_no_pass() {
    for marked in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace.json");
        std::fs::write(&path, trace(marked)).unwrap();
        let found = passes(&Job::open(&[path]).unwrap(), &Options::default()).unwrap();
        let forward: Vec<usize> = found
            .passes
            .iter()
            .filter(|pass| pass.kind == PassKind::Forward)
            .map(|pass| pass.instances.len())
            .collect();
        assert_eq!(forward, if marked { vec![1] } else { vec![] });
    }
}
