use std::io::{self, Read};
use std::path::PathBuf;

use proptest::prelude::*;
use serde_json::Value as Json;

use super::writer::{Block, Proto, file, kernel, metric};
use super::{FormatFault, RepSource};
use crate::error::{Error, Fault};
use crate::model::{Launch, NvtxKind, Strings, Symbol, Value};
use crate::source::{Context, Source};

const GRAPH: &[u8] = include_bytes!("../../../../fixtures/ncu/h200_kernels_graph_nvtx.ncu-rep");
const GRAPH_EXPECTED: &str = include_str!("../../../../fixtures/ncu/h200_kernels_graph_nvtx.expected.json");
const RANGE: &[u8] = include_bytes!("../../../../fixtures/ncu/h200_range.ncu-rep");
const RANGE_EXPECTED: &str = include_str!("../../../../fixtures/ncu/h200_range.expected.json");

/// What reading a whole report gave.
pub(super) struct Outcome {
    pub(super) launches: Vec<Launch>,
    pub(super) context: Context,
    pub(super) error: Option<Error>,
}

impl Outcome {
    pub(super) fn warnings(&self) -> Vec<String> {
        self.context.warnings.iter().map(ToString::to_string).collect()
    }

    pub(super) fn text(&self, symbol: Symbol) -> &str {
        self.context.strings.get(symbol)
    }

    pub(super) fn names(&self) -> Vec<&str> {
        self.launches.iter().map(|launch| self.text(launch.name)).collect()
    }

    /// Kind, domain, name and thread of a launch's ranges.
    fn nvtx(&self, launch: usize) -> Vec<(NvtxKind, &str, &str, Option<u64>)> {
        let ranges = self.launches[launch].nvtx.iter();
        ranges
            .map(|range| (range.kind, self.text(range.domain), self.text(range.name), range.thread))
            .collect()
    }
}

pub(super) fn read(input: impl Read) -> Outcome {
    let mut outcome = Outcome { launches: Vec::new(), context: Context::default(), error: None };
    let mut source = match RepSource::new(input, PathBuf::from("report.ncu-rep")) {
        Ok(source) => source,
        Err(error) => {
            outcome.error = Some(error);
            return outcome;
        }
    };
    let mut launch = Launch::default();
    loop {
        match source.next_launch(&mut outcome.context, &mut launch) {
            Ok(true) => outcome.launches.push(launch.clone()),
            Ok(false) => break,
            Err(error) => {
                outcome.error = Some(error);
                break;
            }
        }
    }
    let more = source.next_launch(&mut outcome.context, &mut launch);
    assert!(matches!(more, Ok(false)), "nothing comes after the end");
    assert_eq!(launch, Launch::default(), "no stale launch is left behind");
    outcome
}

/// Reads a report that must be whole.
pub(super) fn read_well(bytes: &[u8]) -> Outcome {
    let outcome = read(bytes);
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    assert_eq!(outcome.warnings(), Vec::<String>::new());
    outcome
}

/// A value as the expectation files write it: a whole number, `f64 1.5` or `text abc`.
fn value(expected: &Json, strings: &Strings) -> Option<Value> {
    if let Some(count) = expected.as_u64() {
        return Some(Value::U64(count));
    }
    match expected.as_str()?.split_once(' ')? {
        ("f64", number) => number.parse().ok().map(Value::F64),
        ("text", text) => strings.find(text).map(Value::Text),
        _ => None,
    }
}

/// Every name, range, metric and value is what NVIDIA's own reader returns.
fn agrees_with_nvidia(report: &[u8], expected: &str) -> usize {
    let outcome = read_well(report);
    let expected: Json = serde_json::from_str(expected).unwrap();
    let launches = expected["launches"].as_array().unwrap();
    assert_eq!(outcome.launches.len(), launches.len());
    let strings = &outcome.context.strings;
    let mut compared = 0;
    for (index, (launch, expected_launch)) in outcome.launches.iter().zip(launches).enumerate() {
        assert_eq!(launch.id, Some(index as u64));
        assert_eq!(strings.get(launch.name), expected_launch["name"].as_str().unwrap());
        let nvtx = outcome
            .nvtx(index)
            .into_iter()
            .map(|(kind, domain, name, _)| serde_json::json!([format!("{kind:?}"), domain, name]));
        assert_eq!(nvtx.collect::<Json>(), expected_launch["nvtx"], "ranges of launch {index}");
        let metrics = expected_launch["metrics"].as_array().unwrap();
        assert_eq!(launch.metrics.len(), metrics.len(), "metrics of launch {index}");
        for entry in metrics {
            let name =
                expected["names"][usize::try_from(entry[0].as_u64().unwrap()).unwrap()].as_str().unwrap();
            let metric = strings.find(name).and_then(|name| launch.metric(name));
            let wanted =
                value(&entry[1], strings).unwrap_or_else(|| panic!("{name}: {} is not read", entry[1]));
            assert_eq!(metric.map(|metric| metric.value), Some(wanted), "{name} of launch {index}");
            compared += 1;
        }
    }
    compared
}

#[test]
fn kernels_and_a_graph_agree_with_nvidias_reader() {
    assert_eq!(agrees_with_nvidia(GRAPH, GRAPH_EXPECTED), 2254);
}

#[test]
fn a_range_agrees_with_nvidias_reader() {
    assert_eq!(agrees_with_nvidia(RANGE, RANGE_EXPECTED), 256);
}

#[test]
fn launch_properties_are_those_of_the_csv_page() {
    // Expected values: the raw CSV page that ncu 2025.3.1 printed from these reports.
    let outcome = read_well(GRAPH);
    let launch = &outcome.launches[1];
    assert_eq!(outcome.text(launch.name), "void <unnamed>::axpy<double>(T1, const T1 *, T1 *, int)");
    assert_eq!((launch.process_id, outcome.text(launch.process_name)), (Some(762), "tiny"));
    assert_eq!(outcome.text(launch.host), "127.0.0.1");
    assert_eq!((launch.context, launch.stream), (Some(1), Some(7)));
    assert_eq!((launch.device, launch.compute_capability), (Some(0), Some((9, 0))));
    assert_eq!((launch.invocations, launch.segment, launch.position), (1, 0, 1));
    let graph = &outcome.launches[8];
    assert_eq!(outcome.text(graph.name), "graph");
    assert_eq!((graph.grid, graph.block, graph.stream), (None, None, Some(13)));
    let duration = outcome.context.strings.find("gpu__time_duration.sum").unwrap();
    assert_eq!(graph.metric(duration).map(|metric| outcome.text(metric.unit)), Some("ns"));

    let outcome = read_well(RANGE);
    let range = &outcome.launches[0];
    assert_eq!((range.id, range.stream, range.grid, range.context), (Some(0), None, None, Some(1)));
    assert_eq!((range.device, range.compute_capability), (Some(0), Some((9, 0))));
}

#[test]
fn ranges_name_the_domain_and_the_thread() {
    use NvtxKind::{PushPop, StartEnd};
    let outcome = read_well(GRAPH);
    let thread = Some(762);
    assert_eq!(outcome.nvtx(0), [(PushPop, "", "forward", thread)]);
    let layer = (PushPop, "model", "layer: 0, \"quoted\"", thread);
    assert_eq!(outcome.nvtx(1), [(PushPop, "", "forward", thread), layer]);
    let half = [
        (PushPop, "", "backward", thread),
        (PushPop, "", "inner::half", thread),
        (StartEnd, "", "async part", thread),
    ];
    assert_eq!(outcome.nvtx(2), half);
}

#[test]
fn input_may_come_in_any_pieces() {
    struct OneByte<'a>(&'a [u8], bool);
    impl Read for OneByte<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let wanted = into.len().min(1);
            self.0.read(&mut into[..wanted])
        }
    }
    let outcome = read(OneByte(RANGE, false));
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    assert_eq!(outcome.launches, read_well(RANGE).launches);
}

#[test]
fn every_kind_of_result_of_one_block_is_a_launch() {
    let other = |thread| Proto::default().number(1, thread);
    let graph_description = [&[3, 0, 0, 0][..], b"abc"].concat();
    let block = Block {
        sources: vec![vec![0xff; 100_000], Vec::new()],
        kernels: vec![kernel("first(int)"), kernel("")],
        ranges: vec![other(1)],
        cmdlists: vec![other(1).bytes(18, "my list"), other(1)],
        graphs: vec![other(1)],
        rest: (graph_description, 1),
        ..Block::default()
    };
    let outcome = read_well(&file(7, &[block]));
    assert_eq!(outcome.names(), ["first(int)", "function", "range", "my list", "cmdlist", "graph"]);
    assert_eq!(outcome.launches[0].grid, Some([4, 2, 1]));
    assert_eq!(outcome.launches[0].block, Some([128, 1, 1]));
    assert_eq!(
        outcome.launches.iter().map(|launch| launch.id.unwrap()).collect::<Vec<_>>(),
        [0, 1, 2, 3, 4, 5]
    );
}

#[test]
fn the_string_table_grows_and_processes_change_from_block_to_block() {
    let process = |id, name| Proto::default().number(1, id).bytes(2, "node7").bytes(3, name);
    let seven = Proto::default().number(5, 7);
    let first = Block {
        strings: vec!["lts__t_bytes.sum"],
        process: Some(process(5, "/usr/bin/python3")),
        kernels: vec![kernel("a").message(13, &metric(0, &seven))],
        ..Block::default()
    };
    let second = Block {
        strings: vec!["dram__bytes.sum"],
        process: Some(process(6, r"C:\tools\train.exe")),
        kernels: vec![kernel("b").message(13, &metric(1, &seven)).message(13, &metric(0, &seven))],
        ..Block::default()
    };
    let third = Block { kernels: vec![kernel("c")], ..Block::default() };
    let outcome = read_well(&file(7, &[first, second, third]));
    let metrics = |launch: usize| {
        let metrics = outcome.launches[launch].metrics.iter();
        metrics.map(|metric| (outcome.text(metric.name), outcome.text(metric.unit))).collect::<Vec<_>>()
    };
    assert_eq!(metrics(0), [("lts__t_bytes.sum", "byte")]);
    assert_eq!(metrics(1), [("dram__bytes.sum", "byte"), ("lts__t_bytes.sum", "byte")]);
    let processes = outcome
        .launches
        .iter()
        .map(|launch| (launch.process_id, outcome.text(launch.process_name), outcome.text(launch.host)));
    let expected = [(Some(5), "python3", "node7"), (Some(6), "train.exe", "node7"), (None, "", "")];
    assert_eq!(processes.collect::<Vec<_>>(), expected);
}

#[test]
fn values_keep_their_type_and_what_was_not_measured_is_absent() {
    let value = Proto::default;
    let result = kernel("k")
        .message(13, &metric(0, &value().number(4, 5)))
        .message(13, &metric(1, &value().number(5, u64::MAX)))
        .message(13, &metric(2, &value().double(3, 2.0)))
        .message(13, &metric(3, &value().float(2, 0.25)))
        .message(13, &metric(4, &value().bytes(1, "CachePreferNone")))
        .message(13, &metric(5, &value().double(3, f64::NAN)))
        .message(13, &metric(6, &value().bytes(1, "")))
        .message(13, &metric(7, &value()))
        // Instances (field 3) without a value of their own.
        .message(13, &Proto::default().number(1, 8).message(3, &value().message(2, &value().number(5, 9))));
    let strings = vec!["u32", "u64", "double", "float", "text", "nan", "empty", "none", "instances"];
    let outcome = read_well(&file(7, &[Block { strings, kernels: vec![result], ..Block::default() }]));
    let metrics = outcome.launches[0].metrics.iter();
    let metrics = metrics.map(|metric| (outcome.text(metric.name), metric.value)).collect::<Vec<_>>();
    let text = outcome.context.strings.find("CachePreferNone").unwrap();
    let expected = [
        ("u32", Value::U64(5)),
        ("u64", Value::U64(u64::MAX)),
        ("double", Value::F64(2.0)),
        ("float", Value::F64(0.25)),
        ("text", Value::Text(text)),
    ];
    assert_eq!(metrics, expected);
    assert_eq!((outcome.launches[0].device, outcome.launches[0].compute_capability), (None, None));
}

#[test]
fn ncu_2022_stored_launch_metrics_as_doubles() {
    let double = |value| Proto::default().double(3, value);
    let strings = vec![
        "launch__device_id",
        "device__attribute_compute_capability_major",
        "device__attribute_compute_capability_minor",
    ];
    let result = |device| {
        kernel("k")
            .message(13, &metric(0, &double(device)))
            .message(13, &metric(1, &double(8.0)))
            .message(13, &metric(2, &double(6.0)))
    };
    let kernels = vec![result(3.0), result(0.5), result(f64::INFINITY), result(-1.0)];
    let outcome = read_well(&file(7, &[Block { strings, kernels, ..Block::default() }]));
    let devices = outcome.launches.iter().map(|launch| launch.device).collect::<Vec<_>>();
    assert_eq!(devices, [Some(3), None, None, None]);
    assert_eq!(outcome.launches[0].compute_capability, Some((8, 6)));
}

/// An NVTX state of two threads and three domains; the launching thread is 77.
fn nvtx_state(scope: u64) -> Proto {
    let message = Proto::default;
    let domain = |id: u64, name: &str| message().number(1, id).bytes(2, name);
    let registered = domain(5, "library").message(3, &message().number(1, 40).bytes(2, "registered"));
    let range = |name: &[u8], after: u64| message().bytes(1, name).number(3, after);
    // Event attributes (field 2) with a message (field 5) of a handle or a text.
    let by_handle = |handle: u64| {
        range(b"", 3).message(2, &message().message(5, &message().number(1, 3).number(3, handle)))
    };
    let by_text = range(b"", 4).message(2, &message().message(5, &message().number(1, 1).bytes(2, "text")));
    let stack = |domain: u64| message().number(1, domain);
    let launching = message()
        .number(1, 77)
        .message(2, &stack(0).message(3, &range(b"step", 2)).message(3, &by_text))
        .message(
            2,
            &stack(5)
                .message(3, &range(b"outermost", 1))
                .message(3, &by_handle(40))
                .message(3, &by_handle(41)),
        )
        .message(2, &stack(9).message(3, &range(b"caf\xe9", 9)));
    let other = message().number(1, 12).message(2, &stack(0).message(3, &range(b"elsewhere", 0)));
    message()
        .message(1, &domain(0, "<default domain>"))
        .message(1, &registered)
        .message(2, &other)
        .message(2, &launching)
        .message(3, &stack(0).message(3, &message().number(1, 3).bytes(2, "async").number(5, 12)))
        .message(3, &stack(5).message(3, &message().number(1, 4).bytes(2, "async too")))
        .number(5, scope)
}

#[test]
fn ranges_are_in_push_order_over_domains_and_threads_count_by_scope() {
    use NvtxKind::{PushPop, StartEnd};
    let kernels =
        vec![kernel("thread").message(21, &nvtx_state(0)), kernel("process").message(21, &nvtx_state(1))];
    let outcome = read_well(&file(7, &[Block { kernels, ..Block::default() }]));
    let thread = Some(77);
    let launching = [
        (PushPop, "library", "outermost", thread),
        (PushPop, "", "step", thread),
        (PushPop, "library", "registered", thread),
        (PushPop, "library", "", thread), // a handle that was never registered
        (PushPop, "", "text", thread),
        (PushPop, "domain 9", "caf\u{fffd}", thread), // a domain that the report does not describe
    ];
    let opened = [(StartEnd, "", "async", Some(12)), (StartEnd, "library", "async too", None)];
    assert_eq!(outcome.nvtx(0), [&launching[..], &opened].concat());
    let elsewhere = [(PushPop, "", "elsewhere", Some(12))];
    assert_eq!(outcome.nvtx(1), [&elsewhere[..], &launching, &opened].concat());
    let of_others = |launch: usize| {
        let ranges = outcome.launches[launch].nvtx_of_others.iter();
        ranges.map(|range| (outcome.text(range.name), range.thread)).collect::<Vec<_>>()
    };
    assert_eq!((of_others(0), of_others(1)), (vec![("elsewhere", Some(12))], vec![]));
}

#[test]
fn a_newer_format_and_unknown_payload_are_read_with_a_warning() {
    let block = || Block { kernels: vec![kernel("k")], ..Block::default() };
    let unknown = Block { rest: (vec![1; 9], 0), ..block() };
    let outcome = read(&file(8, &[unknown, block()])[..]);
    assert!(outcome.error.is_none());
    assert_eq!(outcome.names(), ["k", "k"]);
    let warnings = outcome.warnings();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].contains("version 8"), "{warnings:?}");
    assert!(warnings[1].contains("9 bytes of results of an unknown kind"), "{warnings:?}");
}

#[test]
fn a_report_without_results_has_no_launches_and_one_without_blocks_is_damaged() {
    let cut = read(&*file(7, &[])).error.expect("ncu writes no such report").to_string();
    assert!(cut.ends_with("damaged .ncu-rep at byte 10: file ends after its header: ncu was stopped before it wrote a result, or the file was cut off"), "{cut}");
    assert!(read_well(&file(7, &[Block::default()])).launches.is_empty());
}

#[test]
fn a_damaged_result_is_left_out_and_the_others_keep_their_ids() {
    let broken = Proto(vec![0x0a, 0xff]);
    let past_the_table = kernel("k").message(13, &metric(3, &Proto::default().number(5, 1)));
    let huge_capability = kernel("k")
        .message(13, &metric(0, &Proto::default().number(5, u64::MAX)))
        .message(13, &metric(1, &Proto::default().number(5, 1)));
    let nameless = Proto::default().number(1, 1);
    let kernels = vec![
        kernel("a"),
        broken,
        past_the_table,
        huge_capability,
        nameless,
        kernel("").number(24, 0),
        kernel("b"),
    ];
    let strings =
        vec!["device__attribute_compute_capability_major", "device__attribute_compute_capability_minor"];
    let outcome = read(&file(7, &[Block { strings, kernels, ..Block::default() }])[..]);
    assert!(outcome.error.is_none());
    assert_eq!(outcome.names(), ["a", "k", "k", "function", "b"]);
    assert_eq!(outcome.launches.iter().map(|launch| launch.id.unwrap()).collect::<Vec<_>>(), [0, 2, 3, 5, 6]);
    assert_eq!(outcome.launches[2].compute_capability, None, "no GPU has that number");
    let warnings = outcome.warnings();
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    assert!(warnings[0].contains("launch 1 is damaged: number is cut off"), "{warnings:?}");
    assert!(warnings[1].contains("no kernel name"), "{warnings:?}");
    assert!(warnings[2].contains("1 metric of launch 2 has no name"), "{warnings:?}");
}

#[test]
fn too_many_damaged_results_end_the_report() {
    let kernels = |good: usize| {
        let mut kernels = vec![kernel("k"); good];
        kernels.extend(vec![Proto(vec![0x0b]); 100]);
        file(7, &[Block { kernels, ..Block::default() }])
    };
    let outcome = read(&kernels(1)[..]);
    assert!(outcome.error.is_none());
    assert_eq!(outcome.warnings().len(), super::MOST_DAMAGED + 1);
    let outcome = read(&kernels(0)[..]);
    assert!(
        matches!(outcome.error, Some(Error { what: Fault::DamagedReport { .. }, .. })),
        "{:?}",
        outcome.error
    );
}

#[test]
fn damaged_results_alone_are_an_error_at_the_first() {
    let kernels = vec![Proto(vec![0x0b]), Proto(vec![0x00])];
    let outcome = read(&file(7, &[Block { kernels, ..Block::default() }])[..]);
    assert!(matches!(
        &outcome.error,
        Some(Error { what: Fault::DamagedReport { fault: FormatFault::FieldType, .. }, .. })
    ));
}

#[test]
fn other_files_are_not_reports() {
    for (bytes, at) in
        [(&b""[..], 0), (b"NV", 2), (b"ID,Process ID", 0), (b"NVR\0", 4), (b"NVR\0\x02\0\0\0\x08", 9)]
    {
        let outcome = read(bytes);
        assert!(
            matches!(outcome.error, Some(Error { what: Fault::DamagedReport { offset, .. }, .. }) if offset == at),
            "{:?}",
            outcome.error
        );
    }
}

#[test]
fn a_failing_disk_is_an_io_error() {
    struct Fails;
    impl Read for Fails {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("unplugged"))
        }
    }
    let outcome = read(RANGE[..20_000].chain(Fails));
    assert!(matches!(outcome.error, Some(Error { what: Fault::Io { .. }, .. })), "{:?}", outcome.error);
}

/// Where frames begin and end: the file header, every block, every result.
fn frame_ends(report: &[u8]) -> Vec<usize> {
    let length = |at: usize| u32::from_le_bytes(report[at..at + 4].try_into().unwrap()) as usize;
    let mut at = 8 + length(4);
    let mut ends = vec![at];
    while at < report.len() {
        let header = at + 4..at + 4 + length(at);
        at = header.end;
        ends.push(at);
        let message = super::wire::Message { at: 0, bytes: &report[header] };
        let block = super::proto::BlockHeader::parse(message).unwrap();
        let end = at + block.payload as usize;
        while at < end {
            at += 4 + length(at);
            ends.push(at);
        }
    }
    ends
}

/// Cut anywhere, a report gives the launches that are whole, and says that something is missing
/// unless it was cut exactly between two blocks.
fn survives_truncation(report: &[u8], stride: usize) {
    let whole = read_well(report).launches;
    let ends = frame_ends(report);
    let near = |cut: usize| ends.iter().any(|end| end.abs_diff(cut) <= 8);
    for cut in (0..report.len()).filter(|&cut| cut % stride == 0 || near(cut)) {
        let outcome = read(&report[..cut]);
        let read = outcome.launches.len();
        assert_eq!(outcome.launches, whole[..read], "cut at {cut}");
        match &outcome.error {
            Some(Error { what: Fault::DamagedReport { offset, .. }, .. }) => {
                assert_eq!(read, 0, "cut at {cut}");
                assert_eq!(*offset, cut as u64);
            }
            Some(error) => panic!("cut at {cut}: {error}"),
            None if ends.contains(&cut) => {}
            None => {
                assert!(read > 0, "cut at {cut}: nothing was read and nothing said");
                assert_eq!(outcome.context.warnings.len(), 1, "cut at {cut}");
                assert_eq!(outcome.context.warnings[0].position, cut as u64);
            }
        }
    }
}

#[test]
fn reports_may_be_cut_anywhere() {
    survives_truncation(RANGE, 7);
    survives_truncation(GRAPH, 97);
}

/// Whatever the bytes are, every symbol resolves and every launch is one of the file's results.
fn holds_together(bytes: &[u8]) {
    let outcome = read(bytes);
    for launch in &outcome.launches {
        outcome.text(launch.name);
        outcome.text(launch.process_name);
        outcome.text(launch.host);
        for metric in &launch.metrics {
            outcome.text(metric.name);
            outcome.text(metric.unit);
            if let Value::Text(text) = metric.value {
                outcome.text(text);
            }
        }
        for range in &launch.nvtx {
            outcome.text(range.domain);
            outcome.text(range.name);
        }
        // A result takes at least its length, and a metric a key, a length, an index and a value.
        assert!(launch.id.unwrap() * 4 <= bytes.len() as u64);
        assert!(launch.metrics.len() * 8 <= bytes.len());
    }
    assert!(outcome.context.warnings.len() <= super::MOST_DAMAGED + 2 + bytes.len() / 8);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn mutated_reports_are_read_or_refused(
        from_graph: bool,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = if from_graph { GRAPH[..32_000].to_vec() } else { RANGE.to_vec() };
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        holds_together(&bytes);
    }

    #[test]
    fn mutated_framing_is_read_or_refused(
        frame in any::<prop::sample::Index>(),
        within in 0_usize..24,
        byte: u8,
        removed in 0_usize..6,
    ) {
        let ends = frame_ends(GRAPH);
        let at = (ends[frame.index(ends.len())] + within).min(GRAPH.len() - 1);
        let mut bytes = GRAPH.to_vec();
        bytes[at] = byte;
        bytes.drain(at..(at + removed).min(GRAPH.len()));
        holds_together(&bytes);
    }

    #[test]
    fn arbitrary_bytes_after_the_magic_are_read_or_refused(tail in prop::collection::vec(any::<u8>(), 0..400)) {
        holds_together(&[&b"NVR\0\x02\0\0\0\x08\x07"[..], &tail].concat());
    }
}

#[test]
fn a_report_of_ncu_2022_is_read() {
    let Some(corpus) = std::env::var_os("FLOPGAP_CORPUS") else {
        return flopgap_testing::skip("corpus", "FLOPGAP_CORPUS is not set");
    };
    let path = PathBuf::from(corpus).join("ncu/real_mojo.ncu-rep");
    let outcome = read(std::fs::File::open(path).unwrap());
    assert!(outcome.error.is_none() && outcome.context.warnings.is_empty());
    assert_eq!(outcome.launches.len(), 4);
    assert_eq!(outcome.names()[0], "warmingUp(float *)");
    let launch = &outcome.launches[0];
    assert_eq!(outcome.text(launch.process_name), "pg_84_simpleDivergence");
    assert_eq!((launch.device, launch.compute_capability), (Some(0), Some((7, 5))));
    assert_eq!((launch.grid, launch.block), (Some([1, 1, 1]), Some([64, 1, 1])));
    assert_eq!((launch.context, launch.stream), (Some(1), Some(7)));
    assert_eq!(outcome.launches.iter().map(|launch| launch.metrics.len()).sum::<usize>(), 1068);
}
