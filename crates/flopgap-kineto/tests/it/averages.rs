//! Traces of real training steps against what the profiler's own `key_averages` says of them:
//! recorded by `benches/peers/kineto_traces.py` (see `fixtures/kineto/ORIGIN.md`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use flopgap_kineto::{Job, Part, Trace};
use flopgap_trace::{AttributeBy, Attribution, DeviceId, RangeStyle, Recording as _};

const BY_PROCESS: Attribution = Attribution { by: AttributeBy::Process, whole_graphs: true };

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/kineto").join(name)
}

/// A row of the table: calls, and nanoseconds of GPU work within and below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    calls: u64,
    device_ns: i128,
}

/// Microseconds with the noise of floats.
#[expect(clippy::cast_possible_truncation, reason = "milliseconds")]
fn nanoseconds(text: &str) -> i128 {
    (text.parse::<f64>().unwrap() * 1e3).round() as i128
}

/// The rows of the GPU (`CUDA`) or the host (`CPU`) that are annotations or not.
fn averages(mode: &str, device: &str, annotations: bool) -> BTreeMap<String, Row> {
    let file = std::fs::File::open(fixture(&format!("{mode}.key_averages.csv.gz"))).unwrap();
    let mut rows = csv::Reader::from_reader(flate2::read::GzDecoder::new(file));
    let mut found = BTreeMap::new();
    for row in rows.records() {
        let row = row.unwrap();
        if &row[1] == device && (&row[2] == "1") == annotations {
            let known = found.insert(
                row[0].to_owned(),
                Row { calls: row[3].parse().unwrap(), device_ns: nanoseconds(&row[5]) },
            );
            assert_eq!(known, None, "{}", &row[0]);
        }
    }
    assert!(!found.is_empty() || annotations, "{mode}: no {device}");
    found
}

const MODES: [&str; 7] = ["layer", "plain", "stack", "graph", "compile", "ddp_rank0", "ddp_rank1"];

#[test]
fn kernels_copies_and_sets_are_those_of_key_averages() {
    for mode in MODES {
        let trace = Trace::options().without_shapes(true).open(fixture(&format!("{mode}.json.gz"))).unwrap();
        let mut sums: BTreeMap<String, Row> = BTreeMap::new();
        for work in &trace.gpu_work {
            let sum = sums.entry(work.name.to_string()).or_insert(Row { calls: 0, device_ns: 0 });
            sum.calls += 1;
            sum.device_ns += i128::from(work.duration);
        }
        assert_eq!(sums, averages(mode, "CUDA", false), "{mode}");
        let job = Job::of(vec![trace]).unwrap();
        let times = job.operation_times(None, BY_PROCESS).unwrap();
        for (name, times) in times.kernels {
            assert_eq!(Row { calls: times.count, device_ns: times.total }, sums[&*name], "{mode}: {name}");
        }
    }
}

/// Of some operators, those that another of the same name calls: the table makes one of both.
fn called_by_their_like(trace: &Trace) -> Vec<bool> {
    let mut order: Vec<usize> = (0..trace.operators.len()).collect();
    let end = |at: usize| trace.operators[at].start + i64::try_from(trace.operators[at].duration).unwrap();
    order.sort_by_key(|&at| (trace.operators[at].thread, trace.operators[at].start, -end(at)));
    let mut within = vec![false; order.len()];
    let mut open: Vec<usize> = Vec::new();
    for at in order {
        let operator = &trace.operators[at];
        while open.last().is_some_and(|&outer| {
            trace.operators[outer].thread != operator.thread || end(outer) <= operator.start
        }) {
            open.pop();
        }
        within[at] = open.last().is_some_and(|&outer| trace.operators[outer].name == operator.name);
        open.push(at);
    }
    within
}

/// What each operator launched itself or by those that it called, whichever thread that was on.
#[test]
fn the_gpu_time_of_operators_is_that_of_key_averages() {
    for mode in MODES {
        let expected = averages(mode, "CPU", false);
        let trace = Trace::options().without_shapes(true).open(fixture(&format!("{mode}.json.gz"))).unwrap();
        let within = called_by_their_like(&trace);
        let first = trace.annotations.len();
        let job = Job::of(vec![trace]).unwrap();
        let launched = job.launched(Attribution { by: AttributeBy::Thread, whole_graphs: true }).unwrap();
        let nvtx = launched.nvtx();
        let operators: Vec<usize> = (first..first + within.len()).collect();
        let mut sums: BTreeMap<String, Row> = BTreeMap::new();
        for ((at, work), within) in operators.iter().zip(launched.work_of(&operators)).zip(within) {
            if !within {
                let name = nvtx.names.get(nvtx.ranges[*at].name).text.to_string();
                let sum = sums.entry(name).or_insert(Row { calls: 0, device_ns: 0 });
                sum.calls += 1;
                sum.device_ns += work.map_or(0, |work| work.total);
            }
        }
        let mut compared = 0;
        for (name, row) in &expected {
            match sums.get(name) {
                Some(found) => {
                    // What ran while the profiler asked for memory, the table has twice: it counts
                    // with the operator and once more with the profiler's work within that.
                    let twice = expected.get("Activity Buffer Request").map_or(0, |row| row.device_ns);
                    let more = row.device_ns - found.device_ns;
                    assert!(
                        found.calls == row.calls && (more == 0 || more == twice),
                        "{mode}: {name}: {found:?} {row:?}"
                    );
                }
                // Calls of the runtime and the profiler's own work are rows of the table, too.
                None => assert!(!name.contains("::"), "{mode}: {name}"),
            }
            compared += usize::from(sums.contains_key(name));
        }
        assert_eq!(compared, sums.len(), "{mode}");
    }
}

#[test]
fn passes_that_nobody_marked_are_derived_from_operators() {
    let names = |mode: &str| {
        let job = Job::open(&[fixture(&format!("{mode}.json.gz"))]).unwrap();
        let launched = job.launched(BY_PROCESS).unwrap();
        let nvtx = launched.nvtx().clone();
        let derived = nvtx.ranges.iter().enumerate().filter(|(_, range)| range.style == RangeStyle::Derived);
        let derived: Vec<usize> = derived.map(|(at, _)| at).collect();
        let work = launched.work_of(&derived);
        let rows = derived.iter().zip(work).map(|(at, work)| {
            (nvtx.names.get(nvtx.ranges[*at].name).text.to_string(), work.map_or(0, |work| work.kernels))
        });
        rows.collect::<Vec<_>>()
    };
    let both = |forward: u64, backward: u64, steps: usize| {
        let step = [("forward".to_owned(), forward), ("backward".to_owned(), backward)];
        std::iter::repeat_n(step, steps).flatten().collect::<Vec<_>>()
    };
    assert_eq!(names("plain"), both(14, 26, 2));
    assert_eq!(names("layer"), both(14, 26, 3));
    assert_eq!(names("graph"), []);
    assert_eq!(names("compile"), both(13, 31, 2));
}

/// The backward pass is launched by a thread of the engine, and belongs to the range in which the
/// main thread waits for it.
#[test]
fn ranges_around_backward_own_its_work() {
    let path = fixture("layer.json.gz");
    let trace = Trace::options().without_shapes(true).open(&path).unwrap();
    let backward = trace.operators.iter().filter(|operator| operator.part == Part::Backward).count();
    assert!(backward > 0);
    let job = Job::of(vec![trace]).unwrap();
    let kernels = |by: AttributeBy, name: &str| {
        let launched = job.launched(Attribution { by, whole_graphs: true }).unwrap();
        let nvtx = launched.nvtx().clone();
        let named = |at: &usize| &*nvtx.names.get(nvtx.ranges[*at].name).text == name;
        let ranges: Vec<usize> = (0..nvtx.ranges.len()).filter(named).collect();
        launched.work_of(&ranges).into_iter().flatten().map(|work| work.kernels).sum::<u64>()
    };
    assert_eq!(kernels(AttributeBy::Thread, "backward_pass"), 3);
    assert_eq!(kernels(AttributeBy::Process, "backward_pass"), 3 + 3 * 26);
    let all: u64 = (2..5).map(|step| kernels(AttributeBy::Process, &format!("ProfilerStep#{step}"))).sum();
    assert_eq!(all, 144);
}

#[test]
fn the_ranks_of_a_job_are_one_recording() {
    let paths = ["ddp_rank1.json.gz", "ddp_rank0.json.gz"].map(fixture);
    let job = Job::open(&paths).unwrap();
    let ranks = job.ranks();
    assert_eq!(ranks.iter().map(|(_, rank)| *rank).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(job.path(), paths[1]);
    let activity = job.gpu_activity(BY_PROCESS).unwrap();
    let found: Vec<_> = activity.iter().map(|gpu| (gpu.process, gpu.device, gpu.kernels)).collect();
    assert_eq!(found, [(Some(ranks[0].0), DeviceId(0), 192), (Some(ranks[1].0), DeviceId(1), 192)]);
    let (start, end) = job.span().unwrap().unwrap();
    // Recorded at the same time on one machine.
    assert!(start == 0 && end < 100_000_000, "{start} {end}");
    let twice = Job::open(&[&paths[0], &paths[0]]).unwrap_err();
    assert!(twice.to_string().contains("of rank 1, as "), "{twice}");
}
