//! Each cause of idle time, from a trace that was written for it.

use flopgap_gap::{Cause, Gap, Kind, Limit, Options, gap};
use flopgap_kineto::Job;

/// A trace of one step from 0 to 1,000 µs, whose GPU works from 0 to 100 and from 600 on.
///
/// The second kernel is launched by a call from `launch` to `launch + 10`; before it the host did
/// what `events` say.
fn trace(launch: i64, events: &str) -> Gap {
    second("ampere_sgemm_128x64_tn", launch, 10, events)
}

/// As [`trace`]: what the second kernel is called, and how long the call lasts that launches it.
fn second(name: &str, launch: i64, length: i64, events: &str) -> Gap {
    let json = format!(
        r#"[{{"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","pid":1,"tid":1,"ts":0,"dur":1000}},
        {{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":0,"dur":5,"args":{{"correlation":1}}}},
        {{"ph":"X","cat":"kernel","name":"ampere_sgemm_128x64_tn","pid":0,"tid":7,"ts":0,"dur":100,"args":{{"correlation":1,"device":0,"stream":7}}}},
        {{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":{launch},"dur":{length},"args":{{"correlation":2}}}},
        {{"ph":"X","cat":"kernel","name":"{name}","pid":0,"tid":7,"ts":600,"dur":400,"args":{{"correlation":2,"device":0,"stream":7}}}}{events}]"#
    );
    let trace =
        flopgap_kineto::Trace::options().without_shapes(true).read(json.as_bytes(), "t.json").unwrap();
    gap(&Job::of(vec![trace]).unwrap(), &Options::default()).unwrap()
}

/// An event of the host.
fn host(category: &str, name: &str, start: i64, length: i64) -> String {
    format!(
        r#",{{"ph":"X","cat":"{category}","name":"{name}","pid":1,"tid":1,"ts":{start},"dur":{length},"args":{{}}}}"#
    )
}

/// The idle causes and their microseconds.
fn idle(found: &Gap) -> Vec<(Cause, i64)> {
    let idle = found.parts.iter().filter(|part| part.cause.part() == flopgap_gap::Part::Idle);
    idle.map(|part| (part.cause, part.ns / 1000)).collect()
}

#[test]
fn what_the_host_did_is_the_cause() {
    let runtime = "cuda_runtime";
    // Calls every 100 µs: the host keeps its pace.
    let pace = |from: i64| -> String {
        (from..=4).map(|at| host(runtime, "cudaFuncGetAttributes", 100 * at, 20)).collect()
    };
    let cases = [
        // From 100 to 585 nothing is recorded but the step.
        (
            "its own code",
            585,
            String::new(),
            vec![(Cause::LaunchCalls, 10), (Cause::LaunchLatency, 5), (Cause::HostCode, 485)],
        ),
        (
            "calls and operators close to each other",
            585,
            pace(1) + &host("cpu_op", "aten::mm", 500, 95),
            vec![
                (Cause::LaunchCalls, 4 * 20 + 10),
                (Cause::LaunchOperators, 85),
                (Cause::LaunchCode, 500 - 100 - 4 * 20),
                (Cause::LaunchLatency, 5),
            ],
        ),
        (
            "one long operator",
            585,
            host("cpu_op", "aten::nonzero", 100, 490),
            vec![(Cause::LaunchCalls, 10), (Cause::LaunchLatency, 5), (Cause::HostOperators, 485)],
        ),
        // The call began while the GPU worked; what follows it at the host's own pace is due to it.
        (
            "a call that blocks, and what follows",
            300,
            host(runtime, "cudaStreamSynchronize", 50, 60),
            vec![(Cause::LaunchCalls, 10), (Cause::BlockingCall, 200), (Cause::LaunchedInTime, 290)],
        ),
        // The GPU had nothing to do already: the call took 40 µs of 485, and the host the rest, at
        // first for longer than its pace without a call.
        (
            "a call that has nothing to wait for",
            585,
            host(runtime, "cudaStreamSynchronize", 300, 40),
            vec![
                (Cause::LaunchCalls, 10),
                (Cause::LaunchLatency, 5),
                (Cause::BlockingCall, 40),
                (Cause::HostCode, 200),
                (Cause::LaunchCode, 245),
            ],
        ),
        (
            "memory",
            585,
            host(runtime, "cudaMalloc", 90, 480),
            vec![(Cause::LaunchCalls, 10), (Cause::LaunchLatency, 5), (Cause::Allocation, 470 + 15)],
        ),
        (
            "the next batch",
            585,
            host("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 100, 480),
            vec![
                (Cause::LaunchCalls, 10),
                (Cause::LaunchLatency, 5),
                (Cause::Input, 480),
                (Cause::HostCode, 5),
            ],
        ),
        // The call lasts from 100 to 590; the profiler says of 100 to 400 that it was its own work.
        (
            "the profiler",
            585,
            host(runtime, "cudaFuncGetAttributes", 100, 480)
                + &host("overhead", "Activity Buffer Request", 100, 300)
                + &host("overhead", "Lazy Function Loading", 400, 100),
            vec![
                (Cause::LaunchCalls, 180 + 10),
                (Cause::LaunchCode, 5),
                (Cause::LaunchLatency, 5),
                (Cause::Profiler, 300),
            ],
        ),
        (
            "nothing that is recorded, though launched in time",
            20,
            String::new(),
            vec![(Cause::LaunchedInTime, 500)],
        ),
        ("a launch after the work", 700, String::new(), vec![(Cause::Clocks, 500)]),
    ];
    for (what, launch, events, mut expected) in cases {
        expected.sort_unstable();
        assert_eq!(idle(&trace(launch, &events)), expected, "{what}");
    }
}

#[test]
fn long_calls_before_a_kernel_runs_for_the_first_time_are_not_slow_launches() {
    let known = "ampere_sgemm_128x64_tn";
    let operator = host("cpu_op", "aten::mm", 105, 490);
    let stream = host("cuda_runtime", "cudaStreamCreateWithFlags", 105, 300);
    let cases = [
        ("a kernel that ran before", known, 290, 300, String::new(), Cause::LaunchCalls, 300),
        ("its first launch", "other", 290, 300, String::new(), Cause::FirstLaunch, 300),
        ("a short launch", "other", 490, 100, String::new(), Cause::LaunchCalls, 100),
        ("a long call before it", "other", 585, 10, stream.clone(), Cause::FirstLaunch, 300),
        ("a long call before a kernel that ran", known, 585, 10, stream, Cause::LaunchCalls, 310),
        ("its operator", "other", 585, 10, operator.clone(), Cause::FirstLaunch, 480),
        ("the operator of one that ran", known, 585, 10, operator, Cause::HostOperators, 480),
    ];
    for (what, name, launch, length, events, cause, us) in cases {
        let found = second(name, launch, length, &events);
        let own = found.parts.iter().find(|part| part.cause == cause);
        assert_eq!(own.map(|part| part.ns / 1000), Some(us), "{what}: {:?}", idle(&found));
        let is_advised = found.advice.iter().any(|advice| advice.kind == Kind::WarmUp);
        assert_eq!(is_advised, cause == Cause::FirstLaunch, "{what}");
    }
}

#[test]
fn what_a_single_step_allocates_may_happen_once() {
    let found = trace(585, &host("cuda_runtime", "cudaMalloc", 90, 480));
    let is_advised = |kind| found.advice.iter().any(|advice| advice.kind == kind);
    assert_eq!(found.limit, Limit::Allocation);
    assert!(is_advised(Kind::WarmUp) && !is_advised(Kind::Allocations), "{:?}", found.advice);
}
