//! Which steps are measured, and when the first of a recording begins on a GPU that is behind the
//! host.

use flopgap_gap::{Clock, FoundBy, Gap, Options, Part, Ranges, gap};
use flopgap_kineto::Job;

/// The length of the only step and its idle time in µs. Its range lasts from 100 to 200, and its
/// kernel runs from 500 to 1,000; `before` are kernels of earlier work, launched at 10.
fn only(before: &[(i64, i64)]) -> (i64, i64) {
    let event = |category: &str, name: &str, (start, length): (i64, i64), correlation: usize| {
        format!(
            r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":1,"tid":1,"ts":{start},"dur":{length},"args":{{"correlation":{correlation},"device":0,"stream":7}}}}"#
        )
    };
    let mut events = vec![
        event("user_annotation", "execute_4_context_0(0)_generation_4(4)", (100, 100), 0),
        event("cuda_runtime", "cudaGraphLaunch", (150, 10), 1),
        event("kernel", "ampere_sgemm_128x64_tn", (500, 500), 1),
    ];
    for (at, (start, end)) in before.iter().enumerate() {
        events.push(event("cuda_runtime", "cudaLaunchKernel", (10, 5), at + 2));
        events.push(event("kernel", "ampere_sgemm_128x64_tn", (*start, end - start), at + 2));
    }
    let json = format!("[{}]", events.join(","));
    let trace =
        flopgap_kineto::Trace::options().without_shapes(true).read(json.as_bytes(), "t.json").unwrap();
    let found = gap(&Job::of(vec![trace]).unwrap(), &Options::default()).unwrap();
    let [step] = found.steps.as_slice() else { panic!("{:?}", found.steps) };
    assert_eq!(step.clock, Clock::Gpu);
    let idle = step.parts.iter().filter(|part| part.part == Part::Idle).map(|part| part.ns).sum::<i64>();
    (step.wall_ns / 1000, idle / 1000)
}

#[test]
fn a_first_step_begins_with_the_end_of_the_work_before() {
    assert_eq!(only(&[(20, 480)]), (520, 20));
    // That ended before the range began, so the GPU waited for it.
    assert_eq!(only(&[(20, 60)]), (900, 400));
    // What the GPU did before the first work that is recorded is not known.
    assert_eq!(only(&[]), (500, 0));
}

/// Steps from 0 to 100, 100 to 200 and so on, with a kernel at some times, of the process `own`.
fn marked(steps: usize, kernels: &[usize], own: usize, options: &Options) -> Result<Gap, flopgap_gap::Error> {
    let mut events: Vec<String> = (0..steps)
        .map(|at| {
            let start = 100 * at;
            format!(
                r#"{{"ph":"X","cat":"user_annotation","name":"ProfilerStep#{at}","pid":1,"tid":1,"ts":{start},"dur":100}}"#
            )
        })
        .collect();
    for (id, at) in kernels.iter().enumerate() {
        events.push(format!(
            r#"{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":{own},"tid":1,"ts":{at},"dur":5,"args":{{"correlation":{id}}}}},
            {{"ph":"X","cat":"kernel","name":"ampere_sgemm_128x64_tn","pid":0,"tid":7,"ts":{},"dur":50,"args":{{"correlation":{id},"device":0,"stream":7}}}}"#,
            at + 10
        ));
    }
    let json = format!("[{}]", events.join(","));
    let trace =
        flopgap_kineto::Trace::options().without_shapes(true).read(json.as_bytes(), "t.json").unwrap();
    gap(&Job::of(vec![trace]).unwrap(), options)
}

#[test]
fn steps_without_work_are_not_measured_alone() {
    let steps = Options::default();
    let measured = |found: &Gap| {
        let own = found.steps.iter().filter(|step| !step.warm_up);
        own.map(|step| step.name.clone()).collect::<Vec<String>>()
    };
    let found = marked(3, &[10, 110, 210], 1, &steps).unwrap();
    assert_eq!(measured(&found), ["ProfilerStep#1", "ProfilerStep#2"]);
    // What warms up has all the work.
    let found = marked(3, &[10], 1, &steps).unwrap();
    assert_eq!((measured(&found), found.steps.len()), (vec!["ProfilerStep#0".to_owned()], 1));
    // The work is another process's, or lies beside the steps.
    for found in [marked(3, &[10, 110, 210], 2, &steps).unwrap(), marked(3, &[350, 450], 1, &steps).unwrap()]
    {
        assert_eq!((found.found_by, found.measured), (FoundBy::None, 1));
    }
    // What a user asks for is not replaced by something else.
    let steps = Ranges::Named(vec!["ProfilerStep#*".parse().unwrap()]);
    let named = Options { steps, ..Options::default() };
    let error = marked(3, &[10, 110, 210], 2, &named).unwrap_err();
    assert_eq!(error.to_string(), "t.json: the ranges named `ProfilerStep#*` launch no GPU work");
}

/// The trace of one process whose kernels repeat six times, and which marks some of the updates.
fn unmarked(process: i64, marks: i64) -> flopgap_kineto::Trace {
    let mut events: Vec<String> = Vec::new();
    for at in 0..24 {
        let time = 100 * at + process;
        events.push(format!(
            r#"{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":{process},"tid":{process},"ts":{time},"dur":5,"args":{{"correlation":{at}}}}},
            {{"ph":"X","cat":"kernel","name":"kernel_{}","pid":0,"tid":7,"ts":{},"dur":50,"args":{{"correlation":{at},"device":0,"stream":7}}}}"#,
            at % 4,
            time + 10
        ));
    }
    for at in 0..marks {
        let time = 400 * at + 350;
        events.push(format!(
            r#"{{"ph":"X","cat":"user_annotation","name":"Optimizer.step#SGD.step","pid":{process},"tid":{process},"ts":{time},"dur":20}}"#
        ));
    }
    let json = format!(
        r#"{{"distributedInfo":{{"rank":{process},"world_size":2}},"traceEvents":[{}]}}"#,
        events.join(",")
    );
    let name = format!("{process}.json");
    flopgap_kineto::Trace::options().without_shapes(true).read(json.as_bytes(), name.as_str()).unwrap()
}

#[test]
fn steps_that_nobody_marks_are_found_in_every_process() {
    let of = |marks: [i64; 2]| {
        let traces = vec![unmarked(0, marks[0]), unmarked(1, marks[1])];
        let found = gap(&Job::of(traces).unwrap(), &Options::default()).unwrap();
        (found.found_by, found.measured, found.places, found.unmarked.places)
    };
    assert_eq!(of([0, 0]), (FoundBy::RepeatedKernels, 10, 2, 0));
    assert_eq!(of([6, 6]), (FoundBy::Optimizer, 8, 2, 0));
    assert_eq!(of([6, 0]), (FoundBy::Optimizer, 4, 1, 1), "what the other does is said to be left out");
}
