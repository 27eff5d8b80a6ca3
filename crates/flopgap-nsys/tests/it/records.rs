//! Rows of every kind, from recorded exports and from small databases with the columns of other
//! years.

use std::collections::BTreeMap;
use std::path::PathBuf;

use flopgap_files::Hint as _;
use flopgap_nsys::{DeviceId, Error, GpuId, GraphExecId, GraphId, ProcessId, StringId, Trace};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::support::{TRACES, Unpacked};

/// A database of these statements, in a directory of its own.
fn database(statements: &str) -> (TempDir, PathBuf) {
    let (folder, [path]) = flopgap_testing::paths(["made.sqlite"]);
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
fn whole_graphs() {
    let (_folder, trace) = open(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE(start, end, deviceId, contextId, greenContextId, streamId,
            correlationId, globalPid, graphId, graphExecId);
         INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (10, 30, 0, 1, 0, 13, 141, 297345568735232, 1, 2)",
    );
    let runs = trace.graph_runs().unwrap().map(Result::unwrap);
    let runs = runs.map(|run| (run.at.duration(), run.graph, run.executable));
    assert_eq!(runs.collect::<Vec<_>>(), [(20, GraphId(1), GraphExecId(2))]);
    let nodes = Unpacked::new("graph_nodes").open();
    assert!(nodes.graph_runs().unwrap_err().is_absence(), "graphs were traced by their nodes");
    let kernels = nodes.kernels().unwrap().filter(|kernel| kernel.as_ref().unwrap().graph_node.is_some());
    assert_eq!(kernels.count(), 60);
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
    let processes = trace.processes().unwrap();
    assert_eq!((processes[0].pid, processes[0].id.map(ProcessId::pid)), (1004, Some(1004)));
    let threads = trace.thread_names().unwrap();
    assert_eq!(threads.len(), 7);
    assert!(threads.iter().all(|thread| trace.string(thread.name).unwrap().is_some()));

    let (_folder, trace) = open(
        "CREATE TABLE PROCESSES(globalPid, pid, name);
         INSERT INTO PROCESSES VALUES (NULL, NULL, 'nameless'), (NULL, 5, NULL)",
    );
    assert_eq!(trace.processes().unwrap().len(), 1);
    assert_eq!(trace.warnings().len(), 1, "{:?}", trace.warnings());
    assert!(trace.gpus().unwrap_err().is_absence());
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
    let mut gpu = 0;
    let cpu = trace.cpu_page_faults().unwrap().map(Result::unwrap);
    let cpu = cpu.filter(|fault| fault.address != 0 && fault.module == Some(StringId(4))).count();
    for fault in trace.gpu_page_faults().unwrap().map(Result::unwrap) {
        gpu += fault.faults;
        assert!(fault.access.unwrap().label().is_some() && fault.end > fault.start);
    }
    assert_eq!((cpu, gpu), (6, 8));
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
fn absent_tables_are_named() {
    let (_folder, trace) = open("");
    let absences = [
        trace.synchronizations().map(drop),
        trace.graph_runs().map(drop),
        trace.cpu_page_faults().map(drop),
        trace.gpu_page_faults().map(drop),
        trace.os_calls().map(drop),
    ];
    for absence in absences {
        let error = absence.unwrap_err();
        assert!(
            matches!(error, Error::NoTable { .. }) && error.to_string().contains("does not contain"),
            "{error}"
        );
    }
}
