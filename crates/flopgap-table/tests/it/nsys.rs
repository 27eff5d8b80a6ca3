//! Nsight Systems exports.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use flopgap_files::Hint as _;
use flopgap_kernels::Classifier;
use flopgap_nsys::{ProcessId, RowsOf, Trace};
use flopgap_table::Kind;

use crate::{column, fixtures, ints, maybe_ints, open, texts};

const TRACES: [&str; 8] = [
    "small_forward_backward",
    "small_training_step",
    "two_gpus",
    "three_processes",
    "streams_domains",
    "graph_whole",
    "torch_compiled",
    "unified_memory",
];

/// The reader's own view of a fixture.
fn trace(name: &str, folder: &tempfile::TempDir) -> Trace {
    let path = folder.path().join("t.sqlite");
    flopgap_testing::unpack(format!("nsys/{name}.sqlite.zst"), &path);
    Trace::open(&path).unwrap()
}

#[test]
fn kernels_are_those_of_the_reader() {
    let classifier = Classifier::new();
    for name in TRACES {
        let folder = tempfile::tempdir().unwrap();
        let own = trace(name, &folder);
        let source = open(&format!("nsys/{name}.sqlite.zst"));
        assert_eq!(source.kind(), Kind::Nsys);
        if own.schema().table("CUPTI_ACTIVITY_KIND_KERNEL").is_none() {
            assert!(source.table("kernels").unwrap_err().is_absence(), "{name}");
            continue;
        }
        let table = source.table("kernels").unwrap();
        let kernels: Vec<_> = own.kernels().unwrap().map(Result::unwrap).collect();
        let is = |column: &str, get: &dyn Fn(&flopgap_nsys::Kernel) -> Option<i64>| {
            let expected: Vec<Option<i64>> = kernels.iter().map(get).collect();
            assert_eq!(maybe_ints(&table, column), expected, "{name} {column}");
        };
        is("start_ns", &|kernel| Some(kernel.at.start));
        is("end_ns", &|kernel| Some(kernel.at.end));
        is("duration_ns", &|kernel| Some(kernel.at.duration()));
        is("pid", &|kernel| kernel.at.process.map(ProcessId::pid));
        is("device", &|kernel| Some(kernel.at.device.into()));
        is("context", &|kernel| Some(kernel.at.context.into()));
        is("green_context", &|kernel| kernel.at.green_context.map(i64::from));
        is("stream", &|kernel| Some(kernel.at.stream.into()));
        is("correlation", &|kernel| kernel.at.correlation.map(i64::from));
        for (at, axis) in ["x", "y", "z"].into_iter().enumerate() {
            is(&format!("grid_{axis}"), &|kernel| Some(<[u32; 3]>::from(kernel.grid)[at].into()));
            is(&format!("block_{axis}"), &|kernel| Some(<[u32; 3]>::from(kernel.block)[at].into()));
        }
        is("registers", &|kernel| kernel.registers);
        is("static_shared_bytes", &|kernel| kernel.static_shared);
        is("dynamic_shared_bytes", &|kernel| kernel.dynamic_shared);
        is("graph_node", &|kernel| kernel.graph_node.map(i64::from));
        let names: Vec<Option<String>> = kernels
            .iter()
            .map(|kernel| own.string(kernel.demangled).unwrap().map(|name| name.to_string()))
            .collect();
        assert_eq!(texts(&table, "name"), names, "{name}");
        let short: Vec<_> = kernels
            .iter()
            .map(|kernel| own.string(kernel.short).unwrap().map(|name| name.to_string()))
            .collect();
        assert_eq!(texts(&table, "short_name"), short, "{name}");
        let classes: Vec<_> = names
            .iter()
            .map(|name| name.as_deref().map(|name| classifier.get(name).class.as_str().to_owned()))
            .collect();
        assert_eq!(texts(&table, "class"), classes, "{name}");
    }
}

/// nsys's own report of the same recording: `cuda_gpu_kern_sum`.
#[test]
fn sums_by_kernel_are_those_that_nsys_prints() {
    let table = open("nsys/small_forward.sqlite.zst").table("kernels").unwrap();
    let mut sums: BTreeMap<String, (u64, i64)> = BTreeMap::new();
    for (name, duration) in texts(&table, "name").into_iter().zip(ints(&table, "duration_ns")) {
        let (launches, sum) = sums.entry(name.unwrap()).or_default();
        *launches += 1;
        *sum += duration;
    }
    let golden =
        fs::read_to_string(fixtures().join("nsys/golden/small_forward/cuda_gpu_kern_sum.csv")).unwrap();
    let mut lines = csv::Reader::from_reader(golden.as_bytes());
    let headers = lines.headers().unwrap().clone();
    let place = |name: &str| headers.iter().position(|header| header == name).unwrap();
    let (total, instances, name) = (place("Total Time (ns)"), place("Instances"), place("Name"));
    let printed: BTreeMap<String, (u64, i64)> = lines
        .records()
        .map(|row| {
            let row = row.unwrap();
            (row[name].to_owned(), (row[instances].parse().unwrap(), row[total].parse().unwrap()))
        })
        .collect();
    assert_eq!(sums, printed);
}

/// Two numbers of each row.
fn pairs<T>(
    rows: Result<RowsOf<T>, flopgap_nsys::Error>,
    pair: fn(&T) -> (i64, Option<i64>),
) -> Vec<(i64, Option<i64>)> {
    rows.unwrap().map(|row| pair(&row.unwrap())).collect()
}

#[test]
fn copies_sets_calls_and_graphs_are_those_of_the_reader() {
    let mut seen = BTreeSet::new();
    for name in TRACES.into_iter().chain(["small_forward"]) {
        let folder = tempfile::tempdir().unwrap();
        let own = trace(name, &folder);
        let source = open(&format!("nsys/{name}.sqlite.zst"));
        for table in source.tables() {
            let table = source.table(&table.name).unwrap();
            let expected: Vec<(i64, Option<i64>)> = match table.name() {
                "copies" => pairs(own.copies(), |copy| (copy.at.start, Some(copy.bytes))),
                "memsets" => pairs(own.memsets(), |set| (set.at.start, Some(set.bytes))),
                "graphs" => pairs(own.graph_runs(), |run| (run.at.start, Some(run.graph.into()))),
                "api_calls" => pairs(own.api_calls(), |call| (call.start, call.correlation.map(i64::from))),
                "os_calls" => pairs(own.os_calls(), |call| (call.start, call.result)),
                "profiler_overheads" => pairs(own.profiler_overheads(), |work| (work.start, Some(work.end))),
                "cpu_faults" => pairs(own.cpu_page_faults(), |fault| (fault.time, Some(fault.address))),
                "gpu_faults" => pairs(own.gpu_page_faults(), |fault| (fault.start, Some(fault.faults))),
                "synchronizations" => {
                    pairs(own.synchronizations(), |wait| (wait.at.start, wait.event.map(i64::from)))
                }
                _ => continue,
            };
            seen.insert(table.name().to_owned());
            let first = if table.name() == "cpu_faults" { "time_ns" } else { "start_ns" };
            let second = match table.name() {
                "copies" | "memsets" => "bytes",
                "graphs" => "graph",
                "api_calls" => "correlation",
                "os_calls" => "result",
                "profiler_overheads" => "end_ns",
                "cpu_faults" => "address",
                "gpu_faults" => "faults",
                _ => "event",
            };
            let found: Vec<_> = ints(&table, first).into_iter().zip(maybe_ints(&table, second)).collect();
            assert_eq!(found, expected, "{name} {}", table.name());
        }
    }
    assert_eq!(seen.len(), 9, "{seen:?}");
}

/// The ranges that the reader finds, with their domains and their ends; also marks.
#[test]
fn ranges_are_those_of_the_reader() {
    for name in ["streams_domains", "small_forward_backward", "three_processes", "host_threads"] {
        let folder = tempfile::tempdir().unwrap();
        let own = trace(name, &folder);
        let table = open(&format!("nsys/{name}.sqlite.zst")).table("ranges").unwrap();
        let nvtx = own.nvtx_ranges().unwrap();
        let expected: Vec<_> = nvtx
            .ranges
            .iter()
            .map(|range| {
                (
                    range.id.0,
                    range.start,
                    range.end,
                    nvtx.names.get(range.name).to_string(),
                    range.style.as_str().to_owned(),
                )
            })
            .collect();
        let names = texts(&table, "domain").into_iter().zip(texts(&table, "name"));
        let names = names
            .map(|(domain, name)| format!("{}:{}", domain.unwrap_or_default(), name.unwrap_or_default()));
        let times =
            ints(&table, "id").into_iter().zip(ints(&table, "start_ns")).zip(maybe_ints(&table, "end_ns"));
        let found: Vec<_> = times
            .zip(names)
            .zip(texts(&table, "style"))
            .map(|((((id, start), end), name), style)| (id, start, end, name, style.unwrap()))
            .filter(|row| row.4 != "Mark")
            .collect();
        assert_eq!(found, expected, "{name}");
        assert!(!found.is_empty());
    }
}

#[test]
fn the_machine_is_listed() {
    let source = open("nsys/two_gpus.sqlite.zst");
    let gpus = source.table("gpus").unwrap();
    assert!(
        texts(&gpus, "name")
            .iter()
            .all(|name| name.as_deref().is_some_and(|name| name.starts_with("NVIDIA")))
    );
    assert!(column(&gpus, "id").len() >= 2);
    assert!(!column(&source.table("processes").unwrap(), "pid").is_empty());
}
