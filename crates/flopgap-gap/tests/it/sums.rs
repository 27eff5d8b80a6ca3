//! The parts of every step add up to it, and what ran is what another computation says.

use std::path::{Path, PathBuf};

use flopgap_files::Hint as _;
use flopgap_gap::{Gap, Options, Part, Step, gap};
use flopgap_kineto::Job;
use flopgap_trace::{DeviceId, ProcessId, Recording};
use proptest::prelude::*;

use crate::{fixture, open};

/// The work of one process on one GPU: from when to when, and whether it computes.
type Lane = ((Option<ProcessId>, DeviceId), Vec<(i64, i64)>);

fn lanes(trace: &dyn Recording) -> Vec<Lane> {
    let mut lanes: std::collections::BTreeMap<_, Vec<(i64, i64)>> = std::collections::BTreeMap::new();
    let read = trace.each_operation(true, &mut |operation| {
        let work = operation.work;
        lanes.entry((work.process, work.device)).or_default().push((work.start, work.end));
    });
    read.unwrap();
    lanes.into_iter().collect()
}

/// How many nanoseconds between two times are covered by some intervals: sorted and joined, which
/// is another way than a sweep over what is active.
pub(crate) fn covered(all: &[(i64, i64)], start: i64, end: i64) -> i64 {
    let mut inside: Vec<(i64, i64)> = all
        .iter()
        .map(|(from, to)| ((*from).max(start), (*to).min(end)))
        .filter(|(from, to)| from < to)
        .collect();
    inside.sort_unstable();
    let (mut sum, mut until) = (0, start);
    for (from, to) in inside {
        sum += (to - from.max(until)).max(0);
        until = until.max(to);
    }
    sum
}

/// Every step's parts add up to it, and its idle time is what no work covers.
fn check(name: &str, trace: &dyn Recording, found: &Gap) {
    let lanes = lanes(trace);
    for step in found.steps.iter().chain(&found.between) {
        let sum: i64 = step.parts.iter().map(|part| part.ns).sum();
        assert_eq!(sum, step.wall_ns, "{name}: {}", step.name);
        assert!(step.parts.iter().all(|part| part.ns > 0 && part.part == part.cause.part()), "{name}");
        let idle: i64 = step.parts.iter().filter(|part| part.part == Part::Idle).map(|part| part.ns).sum();
        let of_step = |lane: &&Lane| {
            let (process, _) = lane.0;
            process.is_none_or(|process| step.process.is_none_or(|pid| pid == process.pid()))
        };
        let end = step.start_ns + step.wall_ns;
        // Which of the GPUs of a process a step is about, its number alone does not say.
        let expected: Vec<i64> = lanes
            .iter()
            .filter(of_step)
            .map(|lane| step.wall_ns - covered(&lane.1, step.start_ns, end))
            .collect();
        assert!(expected.contains(&idle), "{name}: {}: idle {idle}, not {expected:?}", step.name);
    }
    let measured = |step: &&Step| !step.warm_up;
    let all = found.steps.iter().chain(&found.between).filter(measured);
    let all: i64 = all.flat_map(|step| &step.parts).map(|part| part.ns).sum();
    assert_eq!(found.parts.iter().map(|part| part.ns).sum::<i64>(), all, "{name}");
    for part in &found.parts {
        assert_eq!(part.details.iter().map(|detail| detail.ns).sum::<i64>(), part.ns, "{name}");
    }
    let bars = found.waterfall();
    assert!(bars.iter().all(|(_, ns)| *ns > 0), "{name}: {bars:?}");
    assert_eq!(bars.iter().map(|(_, ns)| ns).sum::<i64>(), found.total_ns(), "{name}");
    for part in found.floor.iter().flat_map(|floor| &floor.parts) {
        assert!(part.floor_ns + part.repeated_ns <= part.known_ns && part.known_ns <= part.ns, "{name}");
    }
    assert!(
        found.advice.iter().all(|advice| advice.share <= 1.0 && advice.bound_ns <= found.step_ns),
        "{name}"
    );
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let is_trace = |path: &PathBuf| {
        let name = path.to_string_lossy();
        ["json.gz", "json.zst", "sqlite.zst", "sqlite"].iter().any(|end| name.ends_with(end))
            && !name.contains("capture")
    };
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_trace).collect();
    files.sort();
    files
}

/// Every recorded trace: those of this repository, and of `FLOPGAP_TRACES`, folders that a colon
/// separates.
#[test]
fn parts_add_up_to_every_step_of_every_trace() {
    let own = ["kineto", "nsys", "advice"].map(fixture);
    let others = std::env::var("FLOPGAP_TRACES").unwrap_or_default();
    let others = others.split(':').filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let mut taken_apart = 0;
    for path in own.into_iter().chain(others).flat_map(|folder| files(&folder)) {
        let name = path.display().to_string();
        let opened = open(&path);
        match gap(opened.trace.as_ref(), &Options::default()) {
            Ok(found) => {
                check(&name, opened.trace.as_ref(), &found);
                taken_apart += 1;
            }
            Err(error) => assert!(error.is_absence(), "{name}: {error}"),
        }
    }
    assert!(taken_apart >= 20, "{taken_apart}");
}

/// 6 billion seconds twice are more than 64 bits hold, and are said to be, instead of summed up.
#[test]
fn durations_that_no_recording_has_are_refused() {
    let kernel = |start: i64| event(0, start, 6_000_000_000_000_000, 7 + start, 1);
    let json = format!("[{},{}]", kernel(0), kernel(1));
    let trace =
        flopgap_kineto::Trace::options().without_shapes(true).read(json.as_bytes(), "t.json").unwrap();
    let error = gap(&Job::of(vec![trace]).unwrap(), &Options::default()).unwrap_err();
    assert!(error.is_absence(), "{error}");
    assert_eq!(error.to_string(), "t.json: the durations of its GPU work are more than 64 bits hold");
}

/// One event of a trace of `torch.profiler`.
fn event(kind: usize, start: i64, length: i64, stream: i64, correlation: usize) -> String {
    let (category, name, thread) = match kind {
        0 => ("kernel", "ampere_sgemm_128x64_tn", stream),
        1 => ("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", stream),
        2 => ("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", stream),
        3 => ("cuda_runtime", "cudaLaunchKernel", 1),
        4 => ("cuda_runtime", "cudaStreamSynchronize", 1),
        _ => ("cpu_op", "aten::mm", 1),
    };
    format!(
        r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":{},"tid":{thread},"ts":{start},"dur":{length},"args":{{"correlation":{correlation},"device":0,"stream":{stream}}}}}"#,
        i64::from(kind > 2)
    )
}

proptest! {
    /// Whatever overlaps whatever, on several streams, with launches that are missing, late, or
    /// after the work.
    #[test]
    fn parts_add_up_to_generated_steps(
        events in prop::collection::vec((0_usize..6, 0_i64..900, 0_i64..60, 7_i64..10, 0_usize..12), 1..60),
        steps in prop::collection::vec((0_i64..900, 1_i64..200), 0..4),
    ) {
        let mut all: Vec<String> =
            events.iter().map(|(kind, start, length, stream, correlation)| {
                event(*kind, *start, *length, *stream, *correlation)
            }).collect();
        all.push(event(0, 300, 5, 7, 3));
        for (at, (start, length)) in steps.iter().enumerate() {
            all.push(format!(
                r#"{{"ph":"X","cat":"user_annotation","name":"ProfilerStep#{at}","pid":1,"tid":1,"ts":{start},"dur":{length}}}"#
            ));
        }
        let json = format!("[{}]", all.join(","));
        let trace = flopgap_kineto::Trace::options().without_shapes(true).read(json.as_bytes(), "t.json").unwrap();
        let job = Job::of(vec![trace]).unwrap();
        match gap(&job, &Options::default()) {
            Ok(found) => check("generated", &job, &found),
            // Work that takes no time is none.
            Err(error) => prop_assert!(error.is_absence(), "{error}"),
        }
    }
}
