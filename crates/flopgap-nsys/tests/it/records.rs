//! Rows of every kind, from recorded exports and from small databases with the columns of other
//! years.

use std::collections::BTreeMap;
use std::path::PathBuf;

use flopgap_files::Hint as _;
use flopgap_nsys::{
    ContextId, CopyKind, CorrelationId, DeviceId, Error, EventId, GpuId, GraphClass, GraphExecId, GraphId,
    GraphNodeId, GraphPart, NvtxKind, NvtxPayload, NvtxText, ProcessId, StreamId, StreamKind, StringId,
    ThreadId, Trace,
};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::support::{TRACES, Unpacked};

/// A database of these statements, in a directory of its own.
fn database(statements: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("made.sqlite");
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch("CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT NOT NULL)").unwrap();
    connection.execute_batch(statements).unwrap();
    (folder, path)
}

fn open(statements: &str) -> (TempDir, Trace) {
    let (folder, path) = database(statements);
    let trace = Trace::open(&path).unwrap();
    (folder, trace)
}

/// One number that `SQLite` itself finds in a recorded trace.
fn number(unpacked: &Unpacked, select: &str) -> i64 {
    Connection::open(unpacked.path()).unwrap().query_row(select, [], |row| row.get(0)).unwrap()
}

#[test]
fn synchronizations_are_labeled() {
    let unpacked = Unpacked::new("graph_nodes");
    let (mut waited, mut kinds) = (0, BTreeMap::new());
    let trace = unpacked.open();
    for sync in trace.synchronizations().unwrap().map(Result::unwrap) {
        waited += sync.at.duration();
        *kinds.entry(sync.kind.label().unwrap()).or_insert(0) += 1;
        assert!(sync.at.correlation.is_some() && sync.event.is_none());
    }
    let table = "FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION";
    assert_eq!(waited, number(&unpacked, &format!("SELECT sum(end - start) {table}")));
    assert_eq!(kinds.values().sum::<i64>(), number(&unpacked, &format!("SELECT count(*) {table}")));
    assert_eq!(
        kinds["Stream wait sync"],
        number(&unpacked, &format!("SELECT count(*) {table} WHERE syncType = 2"))
    );
}

#[test]
fn nodes_of_kernels_are_among_those_made() {
    let unpacked = Unpacked::new("graph_nodes");
    let trace = unpacked.open();
    let (mut made, mut instances) = (Vec::new(), Vec::new());
    for creation in trace.graph_creations().unwrap().map(Result::unwrap) {
        let GraphPart::Node { node, original } = creation.what else { panic!("this export has none") };
        made.push(node);
        instances.extend(original.map(|original| (node, original)));
        assert!(trace.string(creation.name).unwrap().is_some());
    }
    assert_eq!(made.len(), 40);
    assert!(instances.iter().all(|(_, original)| made.contains(original)));
    let mut replayed = 0;
    for node in trace.kernels().unwrap().filter_map(|kernel| kernel.unwrap().graph_node) {
        assert!(made.contains(&node), "{node}");
        replayed += 1;
    }
    assert_eq!(replayed, 60);
    assert!(trace.graph_runs().unwrap_err().is_absence(), "graphs were traced by their nodes");
}

#[test]
fn whole_graphs_and_their_making() {
    let (_folder, trace) = open(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE(start, end, deviceId, contextId, greenContextId, streamId,
            correlationId, globalPid, graphId, graphExecId);
         INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (10, 30, 0, 1, 0, 13, 141, 297345568735232, 1, 2);
         CREATE TABLE CUDA_GRAPH_EVENTS(start, end, eventClass, globalTid, nameId, graphId, originalGraphId, graphExecId);
         INSERT INTO CUDA_GRAPH_EVENTS VALUES (1, 1, 95, 297345569681193, 5, 1, NULL, NULL), (2, 2, 94, 297345569681193, 6, 1, NULL, 2);
         CREATE TABLE CUDA_GRAPH_NODE_EVENTS(start, end, eventClass, globalTid, nameId, graphNodeId, originalGraphNodeId);
         INSERT INTO CUDA_GRAPH_NODE_EVENTS VALUES (1, 1, 77, 297345569681193, 7, 4294967296, NULL)",
    );
    let runs = trace.graph_runs().unwrap().map(Result::unwrap);
    let runs = runs.map(|run| (run.at.duration(), run.graph, run.executable));
    assert_eq!(runs.collect::<Vec<_>>(), [(20, GraphId(1), GraphExecId(2))]);
    let made = trace.graph_creations().unwrap().map(Result::unwrap);
    let made: Vec<_> = made.map(|creation| (creation.class.unwrap(), creation.what)).collect();
    assert_eq!(
        made,
        [
            (
                GraphClass::Graph,
                GraphPart::Graph { graph: Some(GraphId(1)), original: None, executable: None }
            ),
            (
                GraphClass::Executable,
                GraphPart::Graph {
                    graph: Some(GraphId(1)),
                    original: None,
                    executable: Some(GraphExecId(2))
                }
            ),
            (GraphClass::Node, GraphPart::Node { node: GraphNodeId(1 << 32), original: None }),
        ]
    );
    // Before 2024 the table of graphs held the nodes.
    let (_folder, trace) = open(
        "CREATE TABLE CUDA_GRAPH_EVENTS_V2(start, end, eventClass, globalTid, nameId, graphNodeId, originalGraphNodeId);
         INSERT INTO CUDA_GRAPH_EVENTS_V2 VALUES (1, 1, 77, 297345569681193, 7, 9, 8)",
    );
    let made: Vec<_> = trace.graph_creations().unwrap().map(|creation| creation.unwrap().what).collect();
    assert_eq!(made, [GraphPart::Node { node: GraphNodeId(9), original: Some(GraphNodeId(8)) }]);
}

#[test]
fn events_with_and_without_a_time() {
    let old = "CREATE TABLE CUPTI_ACTIVITY_KIND_CUDA_EVENT(deviceId, contextId, streamId, correlationId, globalPid, eventId);
         INSERT INTO CUPTI_ACTIVITY_KIND_CUDA_EVENT VALUES (0, 1, 7, 134, 284741836210176, 1)";
    let new = "CREATE TABLE CUPTI_ACTIVITY_KIND_CUDA_EVENT(timestamp, deviceId, contextId, greenContextId, streamId,
            correlationId, globalPid, eventId, eventSyncId);
         INSERT INTO CUPTI_ACTIVITY_KIND_CUDA_EVENT VALUES (0, 0, 1, 0, 7, 134, 284741836210176, 1, 1),
            (55, 0, 1, 0, 7, 134, 284741836210176, 1, 1)";
    for (statements, times) in [(old, vec![None]), (new, vec![None, Some(55)])] {
        let (_folder, trace) = open(statements);
        let events: Vec<_> = trace.cuda_events().unwrap().map(Result::unwrap).collect();
        assert_eq!(events.iter().map(|event| event.timestamp).collect::<Vec<_>>(), times);
        for event in events {
            assert_eq!((event.device, event.context), (DeviceId(0), ContextId(1)));
            assert_eq!((event.stream, event.event), (StreamId(7), EventId(1)));
            assert_eq!(event.correlation, Some(CorrelationId(134)));
            assert_eq!(event.process, Some(ProcessId(284_741_836_210_176)));
        }
    }
}

#[test]
fn what_it_ran_on() {
    let unpacked = Unpacked::new("graph_nodes");
    let trace = unpacked.open();
    let gpus = trace.gpus().unwrap();
    assert_eq!(gpus.len(), 1);
    assert_eq!((gpus[0].name.as_deref(), gpus[0].chip.as_deref()), (Some("NVIDIA H200"), Some("GH100")));
    assert_eq!((gpus[0].multiprocessors, gpus[0].compute_capability), (Some(132), Some((9, 0))));
    let devices = trace.cuda_devices().unwrap();
    assert_eq!((devices[0].gpu, devices[0].device, devices[0].pid), (Some(GpuId(0)), DeviceId(0), 1004));
    let contexts = trace.contexts().unwrap();
    assert_eq!(
        (contexts[0].context, contexts[0].null_stream, contexts[0].is_green),
        (ContextId(1), StreamId(7), Some(false))
    );
    let streams = trace.streams().unwrap();
    assert_eq!(streams.len(), 15);
    let null = streams.iter().find(|stream| stream.stream == contexts[0].null_stream).unwrap();
    assert_eq!(null.kind, Some(StreamKind::Null));
    let mut used = trace.kernels().unwrap().map(|kernel| kernel.unwrap().at.stream);
    assert!(used.all(|used| streams.iter().any(|stream| stream.stream == used)));
    let processes = trace.processes().unwrap();
    assert_eq!((processes[0].pid, processes[0].id.map(ProcessId::pid)), (1004, Some(1004)));
    let threads = trace.thread_names().unwrap();
    assert_eq!(threads.len(), 7);
    assert!(threads.iter().all(|thread| trace.string(thread.name).unwrap().is_some()));

    // Before 2023.4 contexts are known by their null streams.
    let (_folder, trace) = open(
        "CREATE TABLE TARGET_INFO_CUDA_NULL_STREAM(streamId, hwId, vmId, processId, deviceId, contextId);
         INSERT INTO TARGET_INFO_CUDA_NULL_STREAM VALUES (7, 0, 1, 194720, 0, 1);
         CREATE TABLE PROCESSES(globalPid, pid, name);
         INSERT INTO PROCESSES VALUES (NULL, NULL, 'nameless'), (NULL, 5, NULL)",
    );
    let contexts = trace.contexts().unwrap();
    assert_eq!(
        (contexts[0].null_stream, contexts[0].pid, contexts[0].is_green),
        (StreamId(7), 194_720, None)
    );
    assert_eq!(trace.processes().unwrap().len(), 1);
    assert_eq!(trace.warnings().len(), 1, "{:?}", trace.warnings());
    assert!(trace.gpus().unwrap_err().is_absence() && trace.streams().unwrap_err().is_absence());
}

#[test]
fn how_it_was_recorded() {
    let mut said = 0;
    for name in TRACES {
        let unpacked = Unpacked::new(name);
        let trace = unpacked.open();
        let export = trace.export_metadata().unwrap();
        let value = |name: &str| export.iter().find(|data| data.name.as_ref() == name)?.value.clone();
        assert_eq!(value("EXPORT_SCHEMA_VERSION").as_deref(), trace.schema().version.as_deref(), "{name}");
        assert!(!trace.capture_metadata().unwrap().is_empty(), "{name}");
        let messages = trace.diagnostics().unwrap();
        assert!(messages.iter().all(|message| message.severity.label().is_some()), "{name}");
        said += usize::from(messages.iter().any(|message| message.text.starts_with("Profiling has started")));
        let session = trace.session().unwrap();
        assert!(session.utc.unwrap().starts_with("2026-11-"), "{name}");
        let (start, end) = session.span.unwrap();
        assert!(start < end && session.utc_ns.is_some(), "{name}");
    }
    assert_eq!(said, 6, "the messages of the other traces were left out");
    let (_folder, trace) = open(
        "CREATE TABLE EXPORT_META_DATA(name, value); INSERT INTO EXPORT_META_DATA VALUES ('EXPORT_SCHEMA_VERSION', '2.9.1')",
    );
    assert_eq!(trace.export_metadata().unwrap().len(), 1);
    assert_eq!(trace.schema().version.as_deref(), Some("2.9.1"));
    assert_eq!((trace.capture_metadata().unwrap(), trace.session().unwrap().span), (Vec::new(), None));
    assert!(trace.diagnostics().unwrap_err().is_absence());
}

#[test]
fn unified_memory() {
    let rows = include_str!("../../../../fixtures/nsys/unified/rows.sql").replacen(
        "CREATE TABLE StringIds",
        "CREATE TABLE IF NOT EXISTS StringIds",
        1,
    );
    let (_folder, trace) = open(&rows);
    let (mut gpu, mut moved) = (0, BTreeMap::new());
    let cpu = trace.cpu_page_faults().unwrap().map(Result::unwrap);
    let cpu = cpu.filter(|fault| fault.address != 0 && fault.module == Some(StringId(4))).count();
    for fault in trace.gpu_page_faults().unwrap().map(Result::unwrap) {
        gpu += fault.faults;
        assert!(fault.access.unwrap().label().is_some() && fault.end > fault.start);
    }
    for migration in trace.migrations().unwrap().map(Result::unwrap) {
        let why = migration.cause.unwrap().label().unwrap();
        *moved.entry((migration.kind, why)).or_insert(0) += migration.bytes;
    }
    assert_eq!((cpu, gpu), (6, 8));
    assert_eq!(moved[&(CopyKind::UnifiedDeviceToHost, "Eviction")], 3_000_000_000);
    assert_eq!(moved[&(CopyKind::UnifiedDeviceToDevice, "Access counters")], 8192);
    assert_eq!(
        moved.keys().filter(|(kind, _)| !kind.is_migration()).count(),
        0,
        "a plain copy is no migration"
    );
}

#[test]
fn calls_of_the_system() {
    let unpacked = Unpacked::new("small_forward");
    let trace = unpacked.open();
    let (mut took, mut blocked) = (0, 0);
    for call in trace.os_calls().unwrap().map(Result::unwrap) {
        took += call.end - call.start;
        blocked += i64::from(!call.is_call());
    }
    assert_eq!(took, number(&unpacked, "SELECT sum(end - start) FROM OSRT_API"));
    // The table also says when threads were blocked.
    assert_eq!(blocked, number(&unpacked, "SELECT count(*) FROM OSRT_API WHERE eventClass <> 27"));
}

#[test]
fn annotations_of_every_kind() {
    let unpacked = Unpacked::new("graph_nodes");
    let trace = unpacked.open();
    let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
    for event in trace.nvtx_events().unwrap().map(Result::unwrap) {
        *kinds.entry(format!("{:?}", event.kind)).or_default() += 1;
    }
    let expected = [("DomainCreate", 3), ("Mark", 15), ("PushPop", 59), ("StartEnd", 3), ("ThreadName", 3)];
    assert_eq!(kinds, expected.map(|(kind, count)| (kind.to_owned(), count)).into());

    let columns = "start, end, eventType, category, color, text, globalTid, endGlobalTid, textId, domainId, uint64Value,
                   int64Value, doubleValue REAL, uint32Value, int32Value, floatValue REAL, jsonTextId, jsonText, binaryData";
    let (_folder, trace) = open(&format!(
        "INSERT INTO StringIds VALUES (1, 'loss'), (2, '{{\"a\":1}}');
         CREATE TABLE NVTX_EVENTS({columns});
         INSERT INTO NVTX_EVENTS(start, eventType, text, category, color, uint64Value) VALUES (1, 34, 'm', 3, -16711936, -1);
         INSERT INTO NVTX_EVENTS(start, eventType, textId, int64Value) VALUES (2, 65, 1, -7);
         INSERT INTO NVTX_EVENTS(start, eventType, doubleValue) VALUES (3, 34, 2), (4, 34, 0.5);
         INSERT INTO NVTX_EVENTS(start, eventType, uint32Value) VALUES (5, 34, 4000000000);
         INSERT INTO NVTX_EVENTS(start, eventType, int32Value) VALUES (6, 34, -5);
         INSERT INTO NVTX_EVENTS(start, eventType, floatValue) VALUES (7, 34, 0.25);
         INSERT INTO NVTX_EVENTS(start, eventType, jsonTextId) VALUES (8, 34, 2);
         INSERT INTO NVTX_EVENTS(start, eventType, jsonText) VALUES (9, 34, '[]');
         INSERT INTO NVTX_EVENTS(start, eventType, binaryData) VALUES (10, 34, '00ff');
         INSERT INTO NVTX_EVENTS(start, eventType, text, category) VALUES (11, 33, 'input', 3);
         INSERT INTO NVTX_EVENTS(start, eventType, text) VALUES (12, 97, 'first GPU'), (13, 98, 'main'), (14, 99, 'copies'),
            (15, 76, NULL), (16, 1234, NULL);
         INSERT INTO NVTX_EVENTS(start, eventType, text, globalTid, endGlobalTid) VALUES (17, 60, 'r', 5, 6)"
    ));
    let (mut payloads, mut kinds, mut first, mut last) = (Vec::new(), Vec::new(), None, None);
    for event in trace.nvtx_events().unwrap().map(Result::unwrap) {
        if event.start == 1 {
            assert_eq!(event.text, Some(NvtxText::Text("m".into())));
            assert_eq!(event.payload, Some(NvtxPayload::U64(u64::MAX)));
            first = Some((event.category, event.color));
        } else if event.start == 2 {
            assert_eq!(event.text, Some(NvtxText::Id(StringId(1))));
        }
        if event.start <= 10 {
            payloads.push(format!("{:?}", event.payload.unwrap()));
        } else {
            assert_eq!(event.payload, None);
            kinds.push(event.kind);
        }
        last = event.end_thread;
    }
    assert_eq!(first, Some((Some(3), Some(0xff00_ff00))));
    assert_eq!(last, Some(ThreadId(6)));
    assert_eq!(
        payloads[1..],
        [
            "I64(-7)",
            "F64(2.0)",
            "F64(0.5)",
            "U32(4000000000)",
            "I32(-5)",
            "F32(0.25)",
            "Json(Id(StringId(2)))",
            "Json(Text(\"[]\"))",
            "Binary(\"00ff\")"
        ]
    );
    assert_eq!(
        kinds,
        [
            NvtxKind::Category,
            NvtxKind::DeviceName,
            NvtxKind::ContextName,
            NvtxKind::StreamName,
            NvtxKind::DomainDestroy,
            NvtxKind::Other(1234),
            NvtxKind::StartEnd
        ]
    );
    assert_eq!(trace.warnings(), []);
}

#[test]
fn absent_tables_are_named() {
    let (_folder, trace) = open("");
    let absences = [
        trace.synchronizations().map(drop),
        trace.cuda_events().map(drop),
        trace.graph_runs().map(drop),
        trace.graph_creations().map(drop),
        trace.cpu_page_faults().map(drop),
        trace.gpu_page_faults().map(drop),
        trace.migrations().map(drop),
        trace.os_calls().map(drop),
        trace.nvtx_events().map(drop),
    ];
    for absence in absences {
        let error = absence.unwrap_err();
        assert!(
            matches!(error, Error::NoTable { .. }) && error.to_string().contains("does not contain"),
            "{error}"
        );
    }
}
