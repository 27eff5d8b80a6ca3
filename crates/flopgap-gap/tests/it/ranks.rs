//! Ranks that wait for each other in collectives.

use flopgap_gap::{Cause, Gap, Limit, Options, gap};
use flopgap_kernels::{Classifier, KernelClass};
use flopgap_kineto::{Job, Trace};
use flopgap_timings::Gpus;
use flopgap_timings::collectives::Calls;
use flopgap_trace::{Recording as _, WorkKind};

use crate::fixture;

/// A step of 1,000 µs of a rank: it computes for so long, then takes part in an all-reduce until
/// 900.
fn rank(rank: u64, computes: i64) -> Trace {
    let gpu = format!(r#""pid":{rank},"tid":7"#);
    let launch = |correlation: i64, start: i64| {
        format!(
            r#"{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":10{rank},"tid":1,"ts":{start},"dur":1,"args":{{"correlation":{correlation}}}}}"#
        )
    };
    let kernel = |name: &str, correlation: i64, start: i64, length: i64| {
        format!(
            r#"{{"ph":"X","cat":"kernel","name":"{name}",{gpu},"ts":{start},"dur":{length},"args":{{"correlation":{correlation},"device":{rank},"stream":7}}}}"#
        )
    };
    let events = [
        format!(
            r#"{{"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","pid":10{rank},"tid":1,"ts":0,"dur":1000}}"#
        ),
        launch(1, 0),
        launch(2, 2),
        kernel("ampere_sgemm_128x64_tn", 1, 0, computes),
        kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 2, computes, 900 - computes),
    ];
    let json = format!(
        r#"{{"distributedInfo":{{"rank":{rank},"world_size":3}},"traceEvents":[{}]}}"#,
        events.join(",")
    );
    Trace::options().without_shapes(true).read(json.as_bytes(), format!("{rank}.json")).unwrap()
}

fn sum(found: &Gap, cause: Cause) -> i64 {
    found.parts.iter().filter(|part| part.cause == cause).map(|part| part.ns).sum()
}

#[test]
fn who_waits_for_the_last_rank_loses_time_to_it() {
    let job = Job::of(vec![rank(0, 300), rank(1, 800), rank(2, 350)]).unwrap();
    let found = gap(&job, &Options::default()).unwrap();
    assert_eq!(sum(&found, Cause::LateRank), (500 + 450) * 1000);
    assert_eq!(sum(&found, Cause::Communication), 3 * 100 * 1000);
    assert_eq!(found.limit, Limit::Skew);
    let advice = &found.advice[0];
    assert_eq!(advice.kind.as_str(), "straggler");
    // Without what rank 1 has more to do than the others, a step is at most 500 µs shorter.
    assert_eq!(advice.bound_ns, 500_000);
    let [evidence] = &advice.evidence[..] else { panic!("{advice:?}") };
    assert_eq!((evidence.what.as_deref(), evidence.pieces), (Some("rank 1, GPU 1"), 2));

    // One rank alone does not say for whom it waits.
    let found = gap(&Job::of(vec![rank(0, 300)]).unwrap(), &Options::default()).unwrap();
    assert_eq!((sum(&found, Cause::LateRank), sum(&found, Cause::Communication)), (0, 600 * 1000));
}

/// Two recorded ranks: time in which a kernel waits and no other kernel computes, nanosecond by
/// interval instead of by a sweep.
#[test]
fn waiting_is_what_no_computation_hides() {
    let files = ["kineto/ddp_rank0.json.gz", "kineto/ddp_rank1.json.gz"].map(fixture);
    let job = Job::open(&files).unwrap();
    let found = gap(&job, &Options::default()).unwrap();
    let (classifier, gpus) = (Classifier::new(), Gpus::read(&job).unwrap());
    let communicates = |name: &str| classifier.get(name).class == KernelClass::Communication;
    let mut calls = Calls::default();
    let mut ran = Vec::new();
    job.each_operation(true, &mut |operation| {
        let place = gpus.place(operation.work.process, operation.work.device);
        if !ran.contains(&place) {
            ran.push(place);
        }
        if operation.work.kind == WorkKind::Kernel && communicates(operation.name) {
            calls.add(place, operation);
        }
    })
    .unwrap();
    let late = calls.arrivals(&ran, job.world_size());
    assert!(late.len() > 4);
    let (mut expected, mut while_last_works) = (0, 0);
    let measured: Vec<_> = found.steps.iter().chain(&found.between).filter(|step| !step.warm_up).collect();
    for own in &late {
        let mut hidden: Vec<(i64, i64)> = Vec::new();
        let mut of_either: Vec<(i64, i64)> = Vec::new();
        job.each_operation(true, &mut |operation| {
            let work = operation.work;
            let process = work.process.map(flopgap_trace::ProcessId::pid);
            let is_kernel = work.kind == WorkKind::Kernel;
            if is_kernel && communicates(operation.name) {
                return;
            }
            if process == own.place.process && is_kernel {
                hidden.push((work.start, work.end));
                of_either.push((work.start, work.end));
            }
            if process == own.last.process {
                of_either.push((work.start, work.end));
            }
        })
        .unwrap();
        for step in measured.iter().filter(|step| step.process == own.place.process) {
            let (start, end) = (own.start.max(step.start_ns), own.arrived.min(step.start_ns + step.wall_ns));
            if start < end {
                let own = crate::sums::covered(&hidden, start, end);
                expected += end - start - own;
                while_last_works += crate::sums::covered(&of_either, start, end) - own;
            }
        }
    }
    assert!(0 < while_last_works && while_last_works < expected);
    assert_eq!(sum(&found, Cause::LateRank), while_last_works);
    assert_eq!(sum(&found, Cause::LateRank) + sum(&found, Cause::IdleRank), expected);
}
