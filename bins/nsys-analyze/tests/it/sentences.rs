//! What sentences say against the same figures computed here from the events of a trace, on traces
//! of `fixtures/kineto` and on made ones in which the figures differ.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::run;

/// An event that lasts, in nanoseconds.
struct Event {
    category: String,
    name: String,
    thread: String,
    start: i64,
    end: i64,
    arguments: Value,
}

/// Reads a trace as text, without the product's reader.
fn events(path: &Path) -> Vec<Event> {
    let mut text = String::new();
    let file = fs::File::open(path).unwrap();
    if path.extension().is_some_and(|ending| ending == "gz") {
        flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    } else {
        { file }.read_to_string(&mut text).unwrap();
    }
    let trace: Value = serde_json::from_str(&text).unwrap();
    let list = trace.as_array().or_else(|| trace["traceEvents"].as_array()).unwrap();
    let ns = |value: &Value| -> i64 {
        // Decimals of microseconds, exactly.
        let text = value.to_string();
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
        format!("{whole}{:0<3}", &fraction[..fraction.len().min(3)]).parse().unwrap()
    };
    let complete = list.iter().filter(|event| event["ph"] == "X" && !event["dur"].is_null());
    let read = complete.map(|event| {
        let start = ns(&event["ts"]);
        Event {
            category: event["cat"].as_str().unwrap_or_default().to_owned(),
            name: event["name"].as_str().unwrap_or_default().to_owned(),
            thread: event["tid"].to_string(),
            start,
            end: start + ns(&event["dur"]),
            arguments: event["args"].clone(),
        }
    });
    read.collect()
}

fn is_work(event: &Event) -> bool {
    ["kernel", "gpu_memcpy", "gpu_memset"].contains(&event.category.as_str())
}

/// How much of the time between two instants some events cover, by sorting their ends.
fn covered<'a>(events: impl Iterator<Item = &'a Event>, start: i64, end: i64) -> i64 {
    let mut ends: Vec<(i64, i64)> = Vec::new();
    for event in events {
        let (from, to) = (event.start.max(start), event.end.min(end));
        if from < to {
            ends.extend([(from, 1), (to, -1)]);
        }
    }
    ends.sort_by_key(|(at, change)| (*at, -change));
    let (mut open, mut since, mut sum) = (0, 0, 0);
    for (at, change) in ends {
        if open == 0 {
            since = at;
        }
        open += change;
        if open == 0 {
            sum += at - since;
        }
    }
    sum
}

/// A time as sentences write it.
fn time(ns: f64) -> String {
    match ns.abs() {
        1e9.. => format!("{:.3} s", ns / 1e9),
        1e6.. => format!("{:.3} ms", ns / 1e6),
        1e3.. => format!("{:.1} µs", ns / 1e3),
        _ => format!("{ns:.0} ns"),
    }
}

fn percent(part: f64, whole: f64) -> String {
    format!("{:.1}%", part / whole * 100.0)
}

/// The first lines of the page of some traces, and all that the page says.
fn page(paths: &[&Path]) -> String {
    let paths: Vec<&str> = paths.iter().map(|path| path.to_str().unwrap()).collect();
    let output = run(&[&["summary", "--format", "markdown"], paths.as_slice()].concat());
    assert_eq!(output.code, 0, "{}", output.stderr);
    output.stdout
}

fn fixture(name: &str) -> PathBuf {
    flopgap_testing::fixture("kineto").join(name)
}

#[track_caller]
fn says(page: &str, expected: &str) {
    assert!(page.contains(expected), "not said: {expected}\n{}", page.split("## ").next().unwrap());
}

#[track_caller]
fn does_not_say(page: &str, refused: &str) {
    assert!(!page.contains(refused), "said: {refused}\n{page}");
}

/// A trace that is written event by event, in microseconds.
#[derive(Default)]
struct Made {
    events: Vec<String>,
    calls: u64,
    head: String,
}

impl Made {
    fn event(
        &mut self,
        category: &str,
        name: &str,
        (start, length): (i64, i64),
        place: &str,
        arguments: &str,
    ) {
        self.events.push(format!(
            r#"{{"ph":"X","cat":"{category}","name":"{name}","ts":{start},"dur":{length},{place},"args":{{{arguments}}}}}"#
        ));
    }

    fn range(&mut self, name: &str, times: (i64, i64)) -> &mut Made {
        self.event("user_annotation", name, times, r#""pid":7,"tid":7"#, "");
        self
    }

    fn call(&mut self, name: &str, times: (i64, i64)) -> &mut Made {
        self.calls += 1;
        let correlation = format!(r#""correlation":{}"#, self.calls);
        self.event("cuda_runtime", name, times, r#""pid":7,"tid":7"#, &correlation);
        self
    }

    /// Work that the last call launched.
    fn work(&mut self, category: &str, name: &str, times: (i64, i64)) -> &mut Made {
        let arguments = format!(r#""correlation":{},"device":0,"stream":7,"bytes":1048576"#, self.calls);
        self.event(category, name, times, r#""pid":0,"tid":7"#, &arguments);
        self
    }

    fn kernel(&mut self, name: &str, call: (i64, i64), times: (i64, i64)) -> &mut Made {
        self.call("cudaLaunchKernel", call).work("kernel", name, times)
    }

    fn write(&self, folder: &Path, name: &str) -> PathBuf {
        let path = folder.join(name);
        let events = self.events.join(",\n");
        fs::write(&path, format!("{{{}\"traceEvents\":[{events}]}}", self.head)).unwrap();
        path
    }
}

/// Idle is the GPU's, in the wall time of a range: not the gaps of the range's own work, which
/// other work fills, but the time before the first and after the last operation.
#[test]
fn idle_of_the_gpu_is_what_no_work_covers_in_the_wall_time() {
    let mut made = Made::default();
    for step in 0..3 {
        let at = step * 1000;
        made.range(&format!("ProfilerStep#{step}"), (at, 1000));
        // 400 µs of work from 300 on: 60 % of the step nothing runs.
        made.range("forward", (at + 10, 500));
        made.kernel("gemm_a", (at + 20, 5), (at + 300, 100));
        made.kernel("gemm_a", (at + 30, 5), (at + 600, 100));
        // Between the two of `forward` the GPU runs what others launched.
        made.kernel("gemm_b", (at + 600, 5), (at + 400, 200));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = made.write(folder.path(), "idle.json");
    let page = page(&[&path]);
    let all = events(&path);
    for (name, length) in [("ProfilerStep#*", 1_000_000), ("forward", 500_000)] {
        let ranges = all.iter().filter(|event| {
            event.category == "user_annotation" && event.name.starts_with(name.trim_end_matches('*'))
        });
        // The first is warm-up.
        let idle: Vec<i64> = ranges
            .skip(1)
            .map(|range| length - covered(all.iter().filter(|event| is_work(event)), range.start, range.end))
            .collect();
        let mean = idle.iter().sum::<i64>() as f64 / idle.len() as f64;
        let expected =
            format!("the GPU is idle for {} of the host time ({})", time(mean), percent(mean, length as f64));
        let sentence = page.lines().find(|line| line.starts_with(&format!("- `{name}` takes"))).unwrap();
        assert!(sentence.contains(&expected), "{sentence}\n{expected}");
    }
    says(&page, "(60.0%)");
    // The work of a step runs for 400 of its 1000 µs.
    says(&page, "The GPU was busy for 400.0 µs of 1.000 ms (40.0%)");
    does_not_say(&page, "100.0%) of it idle");
}

/// A copy to pageable memory blocks, one to pinned memory does not; freeing does; waiting in the
/// order of a stream does not. All have calls of the same names.
#[test]
fn waits_are_those_of_calls_that_block() {
    let mut made = Made::default();
    for step in 0..2 {
        let at = step * 1000;
        made.range(&format!("ProfilerStep#{step}"), (at, 1000));
        made.kernel("gemm", (at + 1, 5), (at + 10, 290));
        made.call("cudaMemcpyAsync", (at + 20, 300));
        made.work("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", (at + 310, 5));
        made.call("cudaMemcpyAsync", (at + 330, 100));
        made.work("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", (at + 500, 5));
        made.call("cudaFree", (at + 450, 40));
        made.call("cudaStreamWaitEvent", (at + 500, 200));
        made.call("cudaMallocAsync", (at + 700, 100));
        made.call("cudaStreamSynchronize", (at + 850, 7));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = made.write(folder.path(), "waits.json");
    let page = page(&[&path]);
    let all = events(&path);
    let step = all.iter().find(|event| event.name == "ProfilerStep#1").unwrap();
    let pageable: Vec<&Value> = all
        .iter()
        .filter(|event| event.name.ends_with("Pageable)"))
        .map(|event| &event.arguments["correlation"])
        .collect();
    let blocks = |event: &&Event| {
        event.thread == step.thread
            && event.category == "cuda_runtime"
            && (["cudaFree", "cudaStreamSynchronize"].contains(&event.name.as_str())
                || pageable.contains(&&event.arguments["correlation"]))
    };
    let blocked = covered(all.iter().filter(blocks), step.start, step.end);
    assert_eq!(blocked, 347_000);
    says(
        &page,
        "for 347.0 µs (34.7% of the host time) its thread is blocked (300.0 µs in copies that block, 40.0 µs in \
         allocating and freeing memory and 7.0 µs in synchronizing calls)",
    );
    // Without steps it is said of the whole recording.
    let text = fs::read_to_string(&path).unwrap().replace("ProfilerStep#", "operator ");
    fs::write(&path, text).unwrap();
    says(
        &self::page(&[&path]),
        "Over the whole recording, thread 7 of process 7 is blocked longest, for 694.0 µs (600.0 µs in copies that block, \
         80.0 µs in allocating and freeing memory and 14.0 µs in synchronizing calls).",
    );
}

/// The ranks of a job: who waits in a collective is not slow.
#[test]
fn collectives_are_waiting_and_transfer() {
    let [one, other] = ["ddp_rank0.json.gz", "ddp_rank1.json.gz"].map(fixture);
    let page = page(&[&one, &other]);
    let of = |path: &Path| -> Vec<(i64, i64)> {
        let mut found: Vec<(i64, i64)> = events(path)
            .iter()
            .filter(|event| event.category == "kernel" && event.name.contains("AllReduce"))
            .map(|event| (event.start, event.end))
            .collect();
        found.sort_unstable();
        found
    };
    let ranks = [of(&one), of(&other)];
    let count = ranks[0].len();
    assert!(count > 0 && ranks[1].len() == count);
    let mut waiting = [0; 2];
    let mut last = [0; 2];
    for at in 0..count {
        let arrived = ranks.iter().map(|rank| rank[at].0).max().unwrap();
        for rank in 0..2 {
            waiting[rank] += arrived - ranks[rank][at].0;
            last[rank] += usize::from(ranks[rank][at].0 == arrived);
        }
    }
    let all = |rank: usize| ranks[rank].iter().map(|(start, end)| end - start).sum::<i64>();
    assert!(last[0] > last[1] && waiting[1] > waiting[0], "{last:?} {waiting:?}");
    says(
        &page,
        &format!(
            "Rank 0, GPU 0 arrives last in {} of {count} collectives of 2 ranks, by {} in all: it is late, and the others wait.",
            last[0],
            time(waiting[1] as f64)
        ),
    );
    for rank in [0, 1] {
        says(
            &page,
            &format!(
                "n rank {rank}, GPU {rank} {} of the {} in them ({}) are waiting and {} transfer",
                time(waiting[rank] as f64),
                time(all(rank) as f64),
                percent(waiting[rank] as f64, all(rank) as f64),
                time((all(rank) - waiting[rank]) as f64)
            ),
        );
    }
    // Two steps of each, which differ by more than the ranks.
    says(&page, "`ProfilerStep#*`, mean time on the host: none of 2 stands out: 8.074 ms to 8.077 ms");
    does_not_say(&page, "rank 1, GPU 1 takes longest of 2: 11.611 ms");
}

/// One rank of several, and ranks whose clocks differ: how much is waiting is unknown, and said so.
#[test]
fn what_is_waiting_is_unknown_where_ranks_lack() {
    says(
        &page(&[&fixture("ddp_rank0.json.gz")]),
        "in 12 kernels that communicate is waiting for other ranks is unknown: not all ranks that take part were \
         recorded together.",
    );
    let folder = tempfile::tempdir().unwrap();
    let rank = |rank: u64, at: i64| {
        let mut made = Made {
            head: format!(r#""distributedInfo":{{"rank":{rank},"world_size":2}},"baseTimeNanoseconds":1,"#),
            ..Made::default()
        };
        made.range("ProfilerStep#0", (at, 100));
        made.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", (at + 1, 2), (at + 10, 20));
        made.write(folder.path(), &format!("rank{rank}.json"))
    };
    let (one, other) = (rank(0, 0), rank(1, 5000));
    says(&page(&[&one, &other]), "unknown: by their clocks the ranks did not run them at the same time.");
}

/// Differences within scatter have no longest; beyond it they do.
#[test]
fn only_differences_beyond_scatter_have_a_longest() {
    let folder = tempfile::tempdir().unwrap();
    let of = |rank: u64, lengths: [i64; 5]| {
        let mut made = Made {
            head: format!(r#""distributedInfo":{{"rank":{rank},"world_size":2}},"baseTimeNanoseconds":1,"#),
            ..Made::default()
        };
        let mut at = 0;
        for (step, length) in (0..).zip(lengths) {
            made.range(&format!("ProfilerStep#{step}"), (at, length));
            made.kernel("gemm", (at + 1, 2), (at + 10, 20));
            at += length;
        }
        made.write(folder.path(), &format!("{rank}-{at}.json"))
    };
    let steady = of(0, [500, 100, 120, 90, 110]);
    let within = of(1, [500, 105, 125, 95, 115]);
    let beyond = of(1, [500, 205, 225, 195, 215]);
    let mean = "`ProfilerStep#*`, mean time on the host:";
    says(
        &page(&[&steady, &within]),
        &format!("{mean} none of 2 stands out: 105.0 µs to 110.0 µs (median 107.5 µs)."),
    );
    says(
        &page(&[&steady, &beyond]),
        &format!("{mean} rank 1 takes longest of 2: 210.0 µs (median 157.5 µs, least 105.0 µs)."),
    );
}

/// An operator is not warmed up call by call: all that lies in a kept step is measured.
#[test]
fn operators_of_a_kept_step_are_all_there() {
    let mut made = Made::default();
    made.range("ProfilerStep#0", (0, 1000));
    for call in 0..4 {
        made.range("my_operator", (100 + 100 * call, 50));
    }
    made.kernel("gemm", (110, 5), (120, 10));
    let folder = tempfile::tempdir().unwrap();
    let path = made.write(folder.path(), "one_step.json");
    let page = page(&[&path]);
    let row = page.lines().find(|line| line.starts_with("| my_operator")).unwrap();
    let cells: Vec<&str> = row.split('|').map(str::trim).collect();
    assert_eq!((cells[2], cells[3], cells[4]), ("named", "4", "0.200"));
    says(&page, "Nothing is left out as warming up.");
}

/// Small things that a reader stumbles over.
#[test]
fn words_and_numbers_are_those_of_a_person() {
    let mut made = Made::default();
    made.range("ProfilerStep#0", (0, 1000)).kernel("gemm", (10, 5), (20, 10));
    let folder = tempfile::tempdir().unwrap();
    let path = made.write(folder.path(), "one.json");
    let text = fs::read_to_string(&path).unwrap().replace("\"pid\":7", "\"pid\":1234567");
    fs::write(&path, text).unwrap();
    let page = page(&[&path]);
    says(&page, "invoked once");
    // Its program marks none of the ranges of the guide to attention.
    does_not_say(&page, "attention");
    let row = page.lines().find(|line| line.starts_with("| 1234567")).map(str::to_owned);
    assert!(row.is_some(), "{page}");
    does_not_say(&page, "1,234,567");
    says(&page, "- GPU: name not recorded (0)");
}

/// The largest share of a range in which the thread is blocked or the GPU idle is the whole.
#[test]
fn no_share_of_a_time_is_more_than_all_of_it() {
    for name in ["layer", "plain", "graph", "compile", "stack"] {
        let page = page(&[&fixture(&format!("{name}.json.gz"))]);
        let answers = page.split("## ").next().unwrap();
        for share in answers.split(['(', ' ']).filter_map(|word| word.split_once('%')) {
            if let Ok(percent) = share.0.parse::<f64>() {
                assert!((0.0..=100.0).contains(&percent), "{name}: {percent}");
            }
        }
    }
}

/// How long the GPU is idle and the thread is blocked in the steps of recorded traces.
#[test]
fn steps_of_recorded_traces_agree_with_their_events() {
    let mut compared = 0;
    for name in ["layer", "plain", "graph", "compile", "stack"] {
        let path = fixture(&format!("{name}.json.gz"));
        let output = run(&["passes", path.to_str().unwrap(), "--format", "json", "--with-warmup"]);
        assert_eq!(output.code, 0, "{}", output.stderr);
        let found = output.json();
        let all = events(&path);
        let works = || all.iter().filter(|event| is_work(event));
        let pageable: BTreeMap<String, bool> = works()
            .filter(|event| event.name.starts_with("Memcpy"))
            .map(|event| {
                let blocks = event.name.contains("Device -> Pageable")
                    || (event.name.contains("Pageable -> Device")
                        && event.arguments["bytes"].as_i64() > Some(64_000));
                (event.arguments["correlation"].to_string(), blocks)
            })
            .collect();
        let blocks = |event: &Event| {
            ["cuda_runtime", "cuda_driver"].contains(&event.category.as_str())
                && (event.name.ends_with("Synchronize")
                    || ["cudaFree", "cudaMalloc", "cudaHostAlloc"].contains(&event.name.as_str())
                    || pageable.get(&event.arguments["correlation"].to_string()) == Some(&true))
        };
        let mut text = String::new();
        for pass in found["traces"][0]["passes"].as_array().unwrap() {
            let shown = pass["name"].as_str().unwrap();
            let ranges: Vec<&Event> = all
                .iter()
                .filter(|event| {
                    event.category == "user_annotation" && event.name.starts_with(shown.trim_end_matches('*'))
                })
                .collect();
            for (instance, range) in pass["instances"].as_array().unwrap().iter().zip(&ranges) {
                if instance["gpu"].is_null() || Some(ranges.len() as u64) != pass["host"]["count"].as_u64() {
                    continue;
                }
                let idle = range.end - range.start - covered(works(), range.start, range.end);
                let own = all.iter().filter(|event| event.thread == range.thread && blocks(event));
                let blocked = covered(own, range.start, range.end);
                assert_eq!(
                    (instance["gpu"]["idle_ns"].as_i64(), instance["waiting_ns"].as_i64()),
                    (Some(idle), Some(blocked)),
                    "{name} {shown}"
                );
                let _ = write!(text, "{shown} ");
                compared += 1;
            }
        }
    }
    assert!(compared > 10, "{compared}");
}
