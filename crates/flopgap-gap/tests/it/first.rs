//! When the first step of a recording begins on a GPU that is behind the host.

use flopgap_gap::{Clock, Options, Part, gap};
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
