//! Exports hold every row of the tables, exactly.

use std::collections::{HashMap, HashSet};
use std::io;

use flopgap_nsys::export::{ExportCounts, left_out, perfetto};
use flopgap_nsys::{Error, Trace};
use rusqlite::Connection;
use serde_json::Value;

use crate::support::{TRACES, Unpacked};

fn exported(trace: &Trace) -> (ExportCounts, Vec<Value>) {
    let mut out = Vec::new();
    let counts = perfetto(trace, &mut out).unwrap();
    let json: Value = serde_json::from_slice(&out).unwrap();
    let events = json["traceEvents"].as_array().unwrap().clone();
    assert_eq!(events.len() as u64, counts.events);
    well_formed(&events);
    (counts, events)
}

fn nanoseconds(value: &Value) -> i64 {
    let text = value.to_string();
    let (whole, fraction) = text.split_once('.').unwrap();
    let fraction = format!("{fraction:0<3}");
    assert_eq!(fraction.len(), 3, "{text}");
    format!("{whole}{fraction}").parse().unwrap()
}

/// What holds for every export: named rows, flows and asynchronous ranges that pair up, and slices
/// that do not cross.
fn well_formed(events: &[Value]) {
    let place = |event: &Value| (event["pid"].as_i64().unwrap(), event["tid"].as_i64().unwrap());
    let mut named = HashSet::new();
    let mut flows: HashMap<&str, (usize, usize)> = HashMap::new();
    let mut slices: HashMap<(i64, i64), Vec<(i64, i64)>> = HashMap::new();
    let mut begun = HashSet::new();
    let mut starts = HashSet::new();
    for event in events {
        match event["ph"].as_str().unwrap() {
            "M" if event["name"] == "thread_name" => assert!(named.insert(place(event)), "{event}"),
            "M" => {}
            "X" => {
                let (start, length) = (nanoseconds(&event["ts"]), nanoseconds(&event["dur"]));
                slices.entry(place(event)).or_default().push((start, start + length));
                starts.insert((place(event), start));
            }
            "B" | "i" => assert!(named.contains(&place(event)), "{event}"),
            "b" => assert!(begun.insert(event["id"].as_str().unwrap()), "{event}"),
            "e" => assert!(begun.contains(event["id"].as_str().unwrap()), "{event}"),
            "s" => flows.entry(event["id"].as_str().unwrap()).or_default().0 += 1,
            "f" => flows.entry(event["id"].as_str().unwrap()).or_default().1 += 1,
            other => panic!("{other}"),
        }
        if ["s", "f"].contains(&event["ph"].as_str().unwrap()) {
            assert!(starts.contains(&(place(event), nanoseconds(&event["ts"]))), "no slice for {event}");
        }
    }
    assert!(flows.values().all(|ends| *ends == (1, 1)), "{flows:?}");
    for (row, mut slices) in slices {
        assert!(named.contains(&row), "{row:?}");
        slices.sort_by_key(|&(start, end)| (start, -end));
        let mut open: Vec<i64> = Vec::new();
        for (start, end) in slices {
            while open.last().is_some_and(|last| *last <= start) {
                open.pop();
            }
            assert!(open.last().is_none_or(|last| end <= *last), "{row:?}: {start} to {end} crosses another");
            open.push(end);
        }
    }
}

fn rows(unpacked: &Unpacked, table: &str, condition: &str) -> u64 {
    let connection = Connection::open(unpacked.path()).unwrap();
    let exists = format!("SELECT count(*) FROM sqlite_master WHERE name = '{table}'");
    if connection.query_row(&exists, [], |row| row.get::<_, i64>(0)).unwrap() == 0 {
        return 0;
    }
    let count = format!("SELECT count(*) FROM {table} WHERE {condition}");
    u64::try_from(connection.query_row(&count, [], |row| row.get::<_, i64>(0)).unwrap()).unwrap()
}

#[test]
fn every_row_is_an_event() {
    let mut linked = 0;
    for name in TRACES {
        let unpacked = Unpacked::new(name);
        let (counts, events) = exported(&unpacked.open());
        assert_eq!(counts.kernels, rows(&unpacked, "CUPTI_ACTIVITY_KIND_KERNEL", "1"), "{name}");
        assert_eq!(counts.copies, rows(&unpacked, "CUPTI_ACTIVITY_KIND_MEMCPY", "1"), "{name}");
        assert_eq!(counts.sets, rows(&unpacked, "CUPTI_ACTIVITY_KIND_MEMSET", "1"), "{name}");
        assert_eq!(
            counts.api_calls + counts.repeated_calls,
            rows(&unpacked, "CUPTI_ACTIVITY_KIND_RUNTIME", "1"),
            "{name}"
        );
        assert_eq!(counts.pushpop_ranges, rows(&unpacked, "NVTX_EVENTS", "eventType IN (59, 70)"), "{name}");
        assert_eq!(counts.startend_ranges, rows(&unpacked, "NVTX_EVENTS", "eventType IN (60, 71)"), "{name}");
        assert_eq!(counts.marks, rows(&unpacked, "NVTX_EVENTS", "eventType IN (34, 65)"), "{name}");
        assert_eq!(counts.graphs, rows(&unpacked, "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "1"), "{name}");
        assert_eq!(counts.os_calls, rows(&unpacked, "OSRT_API", "1"), "{name}");
        assert_eq!(counts.overheads, rows(&unpacked, "PROFILER_OVERHEAD", "1"), "{name}");
        assert_eq!(counts.cpu_faults, rows(&unpacked, "CUDA_UM_CPU_PAGE_FAULT_EVENTS", "1"), "{name}");
        assert_eq!(counts.gpu_faults, rows(&unpacked, "CUDA_UM_GPU_PAGE_FAULT_EVENTS", "1"), "{name}");
        let open = rows(&unpacked, "NVTX_EVENTS", "eventType IN (59, 60, 70, 71) AND end IS NULL");
        assert_eq!(counts.open_ranges, open, "{name}");
        let work = counts.kernels + counts.copies + counts.sets + counts.graphs;
        assert_eq!(counts.flows + counts.unlinked, work, "{name}");

        // What was counted is what was written.
        let phase = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count() as u64;
        let open_pushpop = rows(&unpacked, "NVTX_EVENTS", "eventType IN (59, 70) AND end IS NULL");
        let host = counts.api_calls + counts.pushpop_ranges + counts.os_calls + counts.overheads;
        let slices = work + host + counts.gpu_faults;
        assert_eq!(phase("X") + phase("B"), slices, "{name}");
        assert_eq!(phase("B"), open_pushpop, "{name}");
        assert_eq!(phase("b"), counts.startend_ranges, "{name}");
        assert_eq!((phase("s"), phase("f")), (counts.flows, counts.flows), "{name}");
        assert_eq!(phase("i"), counts.marks + counts.cpu_faults, "{name}");
        assert_eq!(phase("M"), 2 * (counts.processes + counts.tracks), "{name}");
        linked += counts.flows;
    }
    assert!(linked > 1000, "{linked}");
}

#[test]
fn times_names_and_arguments_are_those_of_the_table() {
    let unpacked = Unpacked::new("streams_domains");
    let (_, events) = exported(&unpacked.open());
    let mut written: Vec<(i64, i64, i64, String)> = events
        .iter()
        .filter(|event| event["cat"] == "kernel")
        .map(|event| {
            let args = &event["args"];
            (
                nanoseconds(&event["ts"]),
                nanoseconds(&event["dur"]),
                args["grid"][0].as_i64().unwrap() * args["block"][0].as_i64().unwrap(),
                format!("{} {}", event["name"].as_str().unwrap(), args["demangled"].as_str().unwrap()),
            )
        })
        .collect();
    let connection = Connection::open(unpacked.path()).unwrap();
    let mut statement = connection
        .prepare(
            "SELECT start, end - start, gridX * blockX, s.value || ' ' || d.value FROM CUPTI_ACTIVITY_KIND_KERNEL
             JOIN StringIds s ON s.id = shortName JOIN StringIds d ON d.id = demangledName",
        )
        .unwrap();
    let rows =
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))).unwrap();
    let mut recorded: Vec<(i64, i64, i64, String)> = rows.map(Result::unwrap).collect();
    written.sort();
    recorded.sort();
    assert_eq!(written, recorded);
    let named = |name: &str| events.iter().any(|event| event["ph"] == "M" && event["args"]["name"] == name);
    assert!(named("GPU 0: NVIDIA H200"));
}

#[test]
fn hostile_rows_are_written_faithfully() {
    let hostile = "a\"b\\c\n\r\t\u{1}\u{2028}</script>, é 🦀 ";
    let unpacked = Unpacked::new("streams_domains");
    let connection = Connection::open(unpacked.path()).unwrap();
    connection
        .execute_batch(
            "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = start - 7 WHERE rowid = 3;
             UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET correlationId = (SELECT correlationId FROM CUPTI_ACTIVITY_KIND_KERNEL
                 WHERE rowid = 5) WHERE rowid IN (6, 7);
             UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET correlationId = 999999999 WHERE rowid = 8;
             UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = (SELECT start FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE rowid = 10),
                 end = (SELECT end FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE rowid = 10) WHERE rowid IN (9, 11);
             UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET globalTid = NULL WHERE rowid = 1;
             UPDATE NVTX_EVENTS SET end = NULL WHERE rowid = 8;
             UPDATE NVTX_EVENTS SET start = -1500 WHERE rowid = 9;
             INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME(start, end, eventClass, globalTid, correlationId, nameId, returnValue)
             SELECT start, end, 67, globalTid, correlationId, nameId, returnValue FROM CUPTI_ACTIVITY_KIND_RUNTIME
                 WHERE rowid = 2;",
        )
        .unwrap();
    connection.execute("UPDATE StringIds SET value = ?1 || id", [hostile]).unwrap();
    let (before, _) = exported(&Unpacked::new("streams_domains").open());
    let (counts, events) = exported(&unpacked.open());
    assert_eq!(counts.kernels, before.kernels);
    assert_eq!(counts.api_calls, before.api_calls);
    assert_eq!((counts.backwards, counts.repeated_calls), (1, 1));
    assert_eq!(counts.open_ranges, before.open_ranges + 1);
    assert!(counts.tracks > before.tracks, "simultaneous kernels of a stream get further rows");
    assert!(counts.unlinked > before.unlinked);
    let kernels = events.iter().filter(|event| event["cat"] == "kernel");
    assert!(kernels.clone().all(|event| event["name"].as_str().unwrap().starts_with(hostile)));
    assert_eq!(kernels.filter(|event| event["args"]["duration_ns"] == -7).count(), 1);
    assert!(events.iter().any(|event| event["args"]["row"] == 9 && nanoseconds(&event["ts"]) == -1500));
}

/// Of two graphs replayed sixteen times and traced as wholes each launch is a slice with the arrow
/// of its call, and a row.
#[test]
fn whole_graphs_are_drawn() {
    let unpacked = Unpacked::new("graph_whole");
    let (counts, events) = exported(&unpacked.open());
    let graphs: Vec<&Value> = events.iter().filter(|event| event["cat"] == "graph").collect();
    assert_eq!((counts.graphs, graphs.len()), (16, 16));
    let spent = |events: &[&Value]| events.iter().map(|event| nanoseconds(&event["dur"])).sum::<i64>();
    let connection = Connection::open(unpacked.path()).unwrap();
    let recorded = "SELECT sum(end - start) FROM CUPTI_ACTIVITY_KIND_GRAPH_TRACE";
    assert_eq!(spent(&graphs), connection.query_row(recorded, [], |row| row.get::<_, i64>(0)).unwrap());
    assert!(graphs.iter().all(|event| event["name"].as_str().unwrap().starts_with("CUDA graph ")));
    assert_eq!(counts.unlinked, 0, "each has its cudaGraphLaunch");
    // A trace of nothing but whole graphs is a trace of GPU work.
    connection
        .execute_batch("DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL; DROP TABLE CUPTI_ACTIVITY_KIND_RUNTIME; DROP TABLE NVTX_EVENTS;")
        .unwrap();
    let (counts, _) = exported(&unpacked.open());
    assert_eq!((counts.graphs, counts.unlinked), (16, 16));
}

/// Annotations that were imported have numbers of their own for what they are.
#[test]
fn imported_annotations_are_those_that_were_recorded() {
    let unpacked = Unpacked::new("host_threads");
    let (before, _) = exported(&unpacked.open());
    assert!(before.marks > 0 && before.pushpop_ranges > 0 && before.startend_ranges > 0);
    let annotations = || unpacked.open().annotations().unwrap().map(Result::unwrap).collect::<Vec<_>>();
    let recorded = annotations();
    let connection = Connection::open(unpacked.path()).unwrap();
    for (recorded, imported) in [(34, 65), (59, 70), (60, 71), (33, 64), (39, 72)] {
        let update = "UPDATE NVTX_EVENTS SET eventType = ?2 WHERE eventType = ?1";
        connection.execute(update, [recorded, imported]).unwrap();
    }
    let (after, _) = exported(&unpacked.open());
    assert_eq!(after, before);
    assert_eq!(annotations(), recorded);
}

/// Every table of events is exported, or named.
#[test]
fn what_is_not_exported_is_named() {
    let mut named = HashSet::new();
    for name in TRACES {
        let unpacked = Unpacked::new(name);
        for (table, count) in left_out(&unpacked.open()).unwrap() {
            assert_eq!(count, rows(&unpacked, &table, "1"), "{name} {table}");
            named.insert(table);
        }
    }
    let mut named: Vec<String> = named.into_iter().collect();
    named.sort();
    assert_eq!(
        named,
        [
            "CUDA_GRAPH_EVENTS",
            "CUDA_GRAPH_NODE_EVENTS",
            "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
            "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
        ]
    );
}

#[test]
fn a_filtered_trace_is_exported_filtered() {
    let unpacked = Unpacked::new("small_training_step");
    let trace = unpacked.open();
    let (all, _) = exported(&trace);
    let filtered = trace.filtered(trace.filter_of_range("forward/1").unwrap());
    let (some, _) = exported(&filtered);
    assert_eq!(some.kernels, filtered.kernels().unwrap().count() as u64);
    assert!(0 < some.kernels && some.kernels < all.kernels, "{some:?}");
}

#[test]
fn a_writer_that_fails_is_reported() {
    struct Full(usize);
    impl io::Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let unpacked = Unpacked::new("streams_domains");
    for room in [0, 10, 5000] {
        let timeline = perfetto(&unpacked.open(), &mut Full(room)).unwrap_err();
        assert!(matches!(timeline, Error::Output { .. }), "{timeline}");
    }
}
