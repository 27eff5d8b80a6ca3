//! Nodes of CUDA graphs are of the operators that were captured.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use flopgap_gap::{FoundBy, Gap, GraphNodes, Kind, Limit, Options, Part, WithCapture, gap};

use crate::{fixture, open};

fn of(name: &str) -> Gap {
    gap(&*open(&fixture(name)).trace, &Options::default()).unwrap()
}

fn with_capture(replays: &Path, capture: &Path) -> Gap {
    let (replays, capture) = (open(replays), open(capture));
    let both = WithCapture::new(&*replays.trace, &*capture.trace).unwrap();
    gap(&both, &Options::default()).unwrap()
}

/// Each kernel, copy and set with its operator.
fn operators(found: &Gap) -> BTreeSet<(Option<String>, Option<String>)> {
    let busy = found.parts.iter().filter(|part| part.part != Part::Idle);
    busy.flat_map(|part| &part.details).map(|detail| (detail.what.clone(), detail.by.clone())).collect()
}

/// The same network was recorded launch by launch, captured, replayed, and captured and replayed:
/// kernels that are launched one by one have their operators from their own launches.
#[test]
fn replays_have_the_operators_flops_and_functions_of_what_was_captured() {
    let eager = of("inference/graph_eager.json.gz");
    assert_eq!((eager.graphs, eager.found_by), (None, FoundBy::None));
    let expected = operators(&eager);
    assert!(expected.len() >= 8 && expected.iter().all(|(_, by)| by.is_some()), "{expected:?}");

    let replays = fixture("inference/graph_replays.json.gz");
    let alone = gap(&*open(&replays).trace, &Options::default()).unwrap();
    let nodes = |named| Some(GraphNodes { operations: 110, named });
    assert_eq!((alone.graphs, alone.measured), (nodes(0), 3));
    assert!(operators(&alone).iter().all(|(_, by)| by.is_none()));

    let apart = with_capture(&replays, &fixture("inference/graph_capture.json.gz"));
    let flops = |found: &Gap| {
        let flops = &found.floor.as_ref().unwrap().flops;
        flops.iter().map(|own| (own.number, own.model)).collect::<Vec<_>>()
    };
    for found in [&apart, &of("inference/graph_both.json.gz")] {
        assert_eq!(found.graphs, nodes(110));
        assert_eq!((found.found_by, found.measured), (FoundBy::GraphReplays, 3));
        assert_eq!(operators(found), expected);
        let each: Vec<_> = flops(&eager).into_iter().map(|(number, flops)| (number, 3 * flops)).collect();
        assert_eq!(flops(found), each);
        let of_layer = |at: &String| at.starts_with("inference.py(");
        let details =
            found.parts.iter().filter(|part| part.part == Part::Busy).flat_map(|part| &part.details);
        assert!(details.into_iter().all(|detail| detail.at.as_ref().is_some_and(of_layer)));
    }
    // But for what is said of operators, a capture changes nothing.
    let times = |found: &Gap| found.steps.clone();
    assert_eq!(times(&apart), times(&alone));
}

/// An export of nsys says which node was created when: the operator that PyTorch marked then, as
/// SQL has it, is that of the kernel.
#[test]
fn nodes_of_an_export_are_of_the_ranges_in_which_they_were_created() {
    let opened = open(&fixture("inference/graph_captured.sqlite.zst"));
    let found = gap(&*opened.trace, &Options::default()).unwrap();
    assert_eq!(found.graphs, Some(GraphNodes { operations: 110, named: 110 }));

    let database = rusqlite::Connection::open(opened.trace.path()).unwrap();
    // The outermost operator around the creation of the node that the kernel's was copied from.
    let sql = "
        SELECT (SELECT coalesce(text, (SELECT value FROM StringIds WHERE id = textId)) FROM NVTX_EVENTS
                WHERE start <= original.start AND end >= original.start AND NVTX_EVENTS.globalTid = original.globalTid
                ORDER BY start LIMIT 1),
               kernel.\"end\" - kernel.start
        FROM CUPTI_ACTIVITY_KIND_KERNEL AS kernel
        JOIN CUDA_GRAPH_NODE_EVENTS AS own ON own.graphNodeId = kernel.graphNodeId
        JOIN CUDA_GRAPH_NODE_EVENTS AS original ON original.graphNodeId = own.originalGraphNodeId";
    let mut rows = database.prepare(sql).unwrap();
    let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let mut expected: BTreeMap<String, i64> = BTreeMap::new();
    for (operator, ns) in rows.map(|row: rusqlite::Result<(String, i64)>| row.unwrap()) {
        *expected.entry(operator.split(',').next().unwrap().to_owned()).or_default() += ns;
    }
    assert!(expected.len() >= 4, "{expected:?}");

    let mut all: BTreeMap<String, i64> = BTreeMap::new();
    for part in found.parts.iter().filter(|part| part.part == Part::Busy) {
        for detail in &part.details {
            *all.entry(detail.by.clone().unwrap()).or_default() += detail.ns;
        }
    }
    // The measured replays are three of five, and take as long but for scatter.
    let share = |all: &BTreeMap<String, i64>, name: &str| all[name] as f64 / all.values().sum::<i64>() as f64;
    assert_eq!(all.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for name in expected.keys() {
        assert!((share(&all, name) - share(&expected, name)).abs() < 0.02, "{name}: {all:?} {expected:?}");
    }
}

/// An event of a trace, in microseconds.
fn event(category: &str, name: &str, (start, length): (i64, i64), correlation: i64) -> String {
    format!(
        r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":1,"tid":1,"ts":{start},"dur":{length},"args":{{"correlation":{correlation},"device":0,"stream":7}}}}"#
    )
}

fn of_events(events: &[String]) -> Gap {
    let json = format!("[{}]", events.join(","));
    let trace =
        flopgap_kineto::Trace::options().without_shapes(true).read(json.as_bytes(), "t.json").unwrap();
    gap(&flopgap_kineto::Job::of(vec![trace]).unwrap(), &Options::default()).unwrap()
}

/// The GPU waits for half of a step until the host has launched its graph, or for as long until it
/// has launched kernels one by one: only those would be faster as a graph.
#[test]
fn a_step_that_is_a_graph_is_not_to_become_one() {
    for (name, is_advised) in [("cudaGraphLaunch", false), ("cudaLaunchKernel", true)] {
        let mut events = Vec::new();
        for step in 0..20 {
            let (start, correlation) = (1000 * step, 10 * step);
            for at in 0..4 {
                events.push(event(
                    "cuda_runtime",
                    "cudaLaunchKernel",
                    (start + 10 * at, 5),
                    correlation + at,
                ));
                events.push(event("kernel", "small", (start + 10 * at + 6, 4), correlation + at));
            }
            events.push(event("cuda_runtime", name, (start + 50, 450), correlation + 5));
            events.push(event("kernel", "large", (start + 500, 500), correlation + 5));
        }
        let found = of_events(&events);
        let late = found.parts.iter().filter(|part| part.cause.limit() == Limit::Launch).map(|part| part.ns);
        assert!(late.sum::<i64>() > 18 * 400_000, "{name}: {:?}", found.parts);
        let advised = found.advice.iter().any(|advice| advice.kind == Kind::CudaGraphs);
        assert_eq!(advised, is_advised, "{name}: {:?}", found.advice);
    }
}

/// Streams that wait for each other may run in another order than they were captured in.
#[test]
fn a_capture_with_branches_or_another_length_names_nothing() {
    let named = |extra: &[(&str, i64)], nodes: i64| {
        let mut events = vec![
            event("cpu_op", "aten::mm", (0, 90), 0),
            event("cuda_runtime", "cudaStreamBeginCapture", (5, 1), 1),
            event("cuda_runtime", "cudaLaunchKernel", (10, 5), 2),
            event("cuda_runtime", "cudaLaunchKernel", (20, 5), 3),
            event("cuda_runtime", "cudaStreamEndCapture", (80, 1), 4),
        ];
        events.extend(extra.iter().map(|(name, start)| event("cuda_runtime", name, (*start, 1), 50 + start)));
        for replay in 0..4 {
            let start = 1000 + 100 * replay;
            events.push(event("cuda_runtime", "cudaGraphLaunch", (start, 5), 100 + replay));
            for node in 0..nodes {
                let time = (start + 10 + 10 * node, 5);
                events.push(event("kernel", "ampere_sgemm_128x64_tn", time, 100 + replay));
            }
        }
        of_events(&events).graphs.unwrap().named
    };
    assert_eq!(named(&[], 2), 8);
    assert_eq!(named(&[], 3), 0);
    assert_eq!(named(&[("cudaStreamWaitEvent", 15)], 2), 0);
    // A copy that was captured is a node, too.
    assert_eq!([named(&[("cudaMemcpyAsync", 15)], 2), named(&[("cudaMemcpyAsync", 95)], 2)], [0, 8]);
}
