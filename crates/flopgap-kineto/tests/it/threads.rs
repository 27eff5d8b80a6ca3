//! Whose steps contain what the threads of a process launch.

use flopgap_kineto::{Job, Trace, WarningKind};
use flopgap_trace::{AttributeBy, Attribution, Recording as _};

fn job(events: &[String]) -> Job {
    let text = format!("{{\"traceEvents\": [{}]}}", events.join(",\n"));
    let trace = Trace::options().without_shapes(true).read(text.as_bytes(), "t.json").unwrap();
    Job::of(vec![trace]).unwrap()
}

/// An event of thread `tid` from `ts` for `dur`.
fn host(category: &str, name: &str, tid: i64, ts: i64, dur: i64, arguments: &str) -> String {
    format!(
        r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":9,"tid":{tid},"ts":{ts},"dur":{dur},"args":{{{arguments}}}}}"#
    )
}

/// A call of thread `tid`, and the kernel that it launched.
fn launch(tid: i64, ts: i64, correlation: i64) -> [String; 2] {
    let arguments = format!(r#""correlation":{correlation},"device":0,"stream":7"#);
    [host("cuda_runtime", "cudaLaunchKernel", tid, ts, 1, &arguments), kernel(ts + 5, &arguments)]
}

fn kernel(ts: i64, arguments: &str) -> String {
    format!(
        r#"{{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":{ts},"dur":2,"args":{{{arguments}}}}}"#
    )
}

fn step(number: i64, ts: i64, dur: i64) -> String {
    host("user_annotation", &format!("ProfilerStep#{number}"), 9, ts, dur, "")
}

/// The kernels of the first range of a name that begins so.
fn kernels(job: &Job, name: &str, by: AttributeBy) -> u64 {
    let launched = job.launched(Attribution { by, whole_graphs: true }).unwrap();
    let ranges = job.ranges().unwrap();
    let at = ranges.ranges.iter().position(|range| ranges.names.get(range.name).text.starts_with(name));
    launched.work_of(&[at.unwrap()])[0].map_or(0, |work| work.kernels)
}

fn warnings(job: &Job) -> Vec<String> {
    job.processes()[0].warnings.iter().map(ToString::to_string).collect()
}

/// A backward pass whose forward pass ran before the recording, as in a pipeline: no arrow and no
/// sequence number leads to a forward operator, and only `Fwd thread id` says that it is one. The
/// thread runs operators forward, too (activation checkpoints), whose backward operators are its
/// own.
fn pipeline() -> Vec<String> {
    let mut events = vec![step(1, 0, 1000), host("cpu_op", "aten::mm", 9, 10, 20, r#""Sequence number":90"#)];
    events.extend(launch(9, 12, 1));
    for at in 0..4 {
        let (ts, evaluated) = (100 + 50 * at, format!(r#""Fwd thread id":1,"Sequence number":{}"#, 40 - at));
        events.push(host(
            "cpu_op",
            "autograd::engine::evaluate_function: MmBackward0",
            12,
            ts,
            40,
            &evaluated,
        ));
        events.push(host("cpu_op", "aten::mm", 12, ts + 5, 30, ""));
        events.extend(launch(12, ts + 10, 10 + at));
    }
    events.push(host("cpu_op", "aten::mul", 12, 400, 10, r#""Fwd thread id":0,"Sequence number":7"#));
    events.push(host("cpu_op", "MulBackward0", 12, 420, 10, r#""Fwd thread id":2,"Sequence number":7"#));
    events.push(r#"{"ph":"s","cat":"fwdbwd","id":1,"pid":9,"tid":12,"ts":400}"#.to_owned());
    events.push(r#"{"ph":"f","cat":"fwdbwd","id":1,"pid":9,"tid":12,"ts":420}"#.to_owned());
    events
}

#[test]
fn a_backward_pass_belongs_to_its_step_though_its_forward_pass_was_not_recorded() {
    let job = job(&pipeline());
    assert_eq!(kernels(&job, "ProfilerStep", AttributeBy::Process), 5);
    assert_eq!(kernels(&job, "ProfilerStep", AttributeBy::Thread), 1);
    assert_eq!(warnings(&job), [""; 0]);
}

#[test]
fn the_number_of_a_thread_is_that_of_its_recorded_operators() {
    // Two threads run forward; backward operators of the second, number 2, have no recorded
    // forward operator but one.
    let mut events = vec![step(1, 0, 1000)];
    events.push(host("cpu_op", "aten::mm", 9, 5, 5, r#""Sequence number":500"#));
    events.push(host("user_annotation", "microbatch", 10, 20, 900, ""));
    events.push(host("cpu_op", "aten::mm", 10, 30, 5, r#""Sequence number":77"#));
    for (at, sequence) in [(0, 77), (1, 3), (2, 4)] {
        let evaluated = format!(r#""Fwd thread id":2,"Sequence number":{sequence}"#);
        events.push(host("cpu_op", "MmBackward0", 12, 100 + 50 * at, 40, &evaluated));
        events.extend(launch(12, 110 + 50 * at, 10 + at));
    }
    let job = job(&events);
    assert_eq!(kernels(&job, "microbatch", AttributeBy::Process), 3);
    // The step's thread frames all that is launched during it.
    assert_eq!(kernels(&job, "ProfilerStep", AttributeBy::Process), 3);
}

#[test]
fn what_any_thread_launches_during_a_step_counts_in_it_and_is_named() {
    let mut events = vec![step(1, 0, 100), step(2, 100, 100)];
    events.push(host("cpu_op", "aten::copy_", 11, 20, 10, ""));
    events.extend(launch(11, 22, 1));
    events.extend(launch(13, 40, 2));
    // Before the steps.
    events.extend(launch(13, -40, 3));
    let job = job(&events);
    assert_eq!(kernels(&job, "ProfilerStep#1", AttributeBy::Process), 2);
    assert_eq!(kernels(&job, "ProfilerStep#1", AttributeBy::Thread), 0);
    let of = |thread: i64| {
        format!(
            "1 GPU operations of thread {thread} count in the steps during which it launched them; \
             nothing in the trace says for which thread it works"
        )
    };
    assert_eq!(warnings(&job), [of(11), of(13)]);
}

/// One thread for each GPU, each with steps of its own.
#[test]
fn a_thread_with_steps_of_its_own_works_for_itself() {
    let mut events = vec![step(1, 0, 100), step(2, 100, 100)];
    events.push(host("user_annotation", "ProfilerStep#1", 11, 10, 100, ""));
    events.extend(launch(9, 20, 1));
    events.extend(launch(11, 30, 2));
    let job = job(&events);
    assert_eq!(kernels(&job, "ProfilerStep#1", AttributeBy::Process), 1);
    assert_eq!(warnings(&job), [""; 0]);
}

#[test]
fn work_without_a_recorded_launch_counts_in_the_step_in_which_it_began_and_is_named() {
    let mut events = vec![step(1, 0, 100), step(2, 110, 100)];
    events.extend(launch(9, 20, 1));
    for (ts, correlation) in [(50, 70), (51, 71), (105, 72), (150, 73)] {
        events.push(kernel(ts, &format!(r#""correlation":{correlation},"device":0,"stream":7"#)));
    }
    let job = job(&events);
    for by in [AttributeBy::Process, AttributeBy::Thread] {
        assert_eq!(kernels(&job, "ProfilerStep#1", by), 3);
        assert_eq!(kernels(&job, "ProfilerStep#2", by), 1);
        let launched = job.launched(Attribution { by, whole_graphs: true }).unwrap();
        assert_eq!(launched.unlaunched().kernels, 1, "the one between the steps");
    }
    assert_eq!(
        warnings(&job),
        [
            "3 GPU operations (0.006 ms) have no recorded launch; they count in the steps during which they began"
        ]
    );
    let kind = &job.processes()[0].warnings[0].kind;
    assert_eq!(*kind, WarningKind::CountedByTime { operations: 3, nanoseconds: 6000 });
}

/// What lies in two steps at once counts in both, and once in all of them together.
#[test]
fn steps_may_overlap() {
    let mut events = vec![step(1, 0, 100), step(2, 80, 100)];
    for (at, ts) in [10, 85, 150].into_iter().enumerate() {
        events.extend(launch(9, ts, i64::try_from(at).unwrap() + 1));
    }
    let job = job(&events);
    assert_eq!(kernels(&job, "ProfilerStep#1", AttributeBy::Process), 2);
    assert_eq!(kernels(&job, "ProfilerStep#2", AttributeBy::Process), 2);
    let launched = job.launched(Attribution::default()).unwrap();
    let mut all = 0;
    launched.within(&[0, 1], |_, _, _| all += 1);
    assert_eq!(all, 3);
}
