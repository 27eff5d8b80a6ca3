//! Where in a user's Python the host was late.

use flopgap_gap::{Cause, Options, gap};
use flopgap_kineto::Job;

use crate::{fixture, open};

/// A step of 1,000 µs whose GPU waits from 100 µs on for a host that synchronizes in `read`, called
/// by `main`, and then computes in `main`.
#[test]
fn idle_time_is_of_the_innermost_function() {
    let event = |category: &str, name: &str, start: i64, length: i64| {
        format!(
            r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":1,"tid":1,"ts":{start},"dur":{length},"args":{{"correlation":{start},"device":0,"stream":7}}}}"#
        )
    };
    let launched = |call: i64, start: i64, length: i64| {
        let kernel = event("kernel", "ampere_sgemm_128x64_tn", start, length);
        let kernel =
            kernel.replace(&format!(r#""correlation":{start}"#), &format!(r#""correlation":{call}"#));
        [event("cuda_runtime", "cudaLaunchKernel", call, 5), kernel].join(",")
    };
    let events = [
        event("user_annotation", "ProfilerStep#1", 0, 1000),
        event("python_function", "train.py(9): main", 0, 1000),
        event("python_function", "train.py(3): read", 40, 80),
        event("python_function", "torch/_tensor.py(5): item", 45, 70),
        launched(1, 1, 99),
        event("cuda_runtime", "cudaStreamSynchronize", 50, 60),
        launched(900, 906, 94),
    ];
    let json = format!("[{}]", events.join(","));
    let trace =
        flopgap_kineto::Trace::options().without_shapes(true).read(json.as_bytes(), "t.json").unwrap();
    let found = gap(&Job::of(vec![trace]).unwrap(), &Options::default()).unwrap();
    let of = |cause: Cause| {
        let part = found.parts.iter().find(|part| part.cause == cause).unwrap();
        let details = part.details.iter().map(|own| (own.at.as_deref().unwrap(), own.ns / 1000));
        details.collect::<Vec<_>>()
    };
    assert_eq!(of(Cause::BlockingCall), [("train.py(3): read", 10)]);
    assert_eq!(of(Cause::HostCode), [("train.py(9): main", 781), ("train.py(3): read", 10)]);
}

/// `kineto_traces.py` is the program; all else of its stack is PyTorch's and Python's.
#[test]
fn recorded_stacks_name_the_program() {
    let opened = open(&fixture("kineto/stack.json.gz"));
    let frames = opened.trace.frames().unwrap();
    assert!(!frames.is_empty() && frames.iter().all(|own| own.name.starts_with("kineto_traces.py(")));
    let found = gap(opened.trace.as_ref(), &Options::default()).unwrap();
    let named = found.parts.iter().flat_map(|part| &part.details).filter_map(|own| own.at.as_deref());
    assert!(named.count() > 0, "{:?}", found.parts);
}
