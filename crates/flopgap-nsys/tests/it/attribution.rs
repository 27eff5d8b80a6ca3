//! GPU work by range, against a naive join of the raw tables.

use std::collections::BTreeMap;

use flopgap_nsys::{
    AttributeBy, Attribution, Error, GpuWork, Report, ReportOptions, ReportTable, Trace, Units, Value,
    WorkSum,
};
use rusqlite::Connection;

use crate::support::{Unpacked, kernels_within, work_by_range};

const BY_PROCESS: Attribution = Attribution { by: AttributeBy::Process, whole_graphs: false };

/// Training steps of PyTorch, whose autograd thread launches the backward pass and has no range of
/// its own.
const TRAINING: [&str; 2] = ["small_forward_backward", "small_training_step"];

/// Every piece of work with every range that owns it by process, all pairs compared. The main
/// thread is given by the test.
const OWNED: &str = "
    WITH range AS (SELECT n.rowid AS id, n.start, n.end, n.globalTid AS tid, coalesce(s.value, n.text) AS name
                   FROM NVTX_EVENTS AS n LEFT JOIN StringIds AS s ON s.id = n.textId
                   WHERE n.eventType IN (59, 60) AND n.endGlobalTid IS NULL),
         op AS (SELECT start, end, correlationId AS corr, globalPid AS pid, demangledName AS kernel
                FROM CUPTI_ACTIVITY_KIND_KERNEL
                UNION ALL SELECT start, end, correlationId, globalPid, NULL FROM CUPTI_ACTIVITY_KIND_MEMCPY
                UNION ALL SELECT start, end, correlationId, globalPid, NULL FROM CUPTI_ACTIVITY_KIND_MEMSET),
         call AS (SELECT c.*, EXISTS (SELECT 1 FROM range WHERE range.tid = c.globalTid AND range.start <= c.start
                                      AND range.end >= c.end) AS inside FROM CUPTI_ACTIVITY_KIND_RUNTIME AS c),
         owned AS (SELECT range.id, range.name, op.*, op.kernel IS NOT NULL AS is_kernel
                   FROM op JOIN call ON call.correlationId = op.corr AND call.globalTid >> 24 = op.pid >> 24
                   JOIN range ON range.tid = CASE WHEN inside THEN call.globalTid ELSE :main END
                     AND range.tid >> 24 = call.globalTid >> 24
                     AND range.start <= call.start AND range.end >= call.end)
";

/// The rows of a query, as integers.
fn query(path: &std::path::Path, main: i64, select: &str) -> Vec<Vec<i64>> {
    let connection = Connection::open(path).unwrap();
    let mut statement = connection.prepare(&format!("{OWNED} {select}")).unwrap();
    let columns = statement.column_count();
    let rows = statement.query_map(&[(":main", &main)], |row| (0..columns).map(|at| row.get(at)).collect());
    rows.unwrap().map(Result::unwrap).collect()
}

/// The thread that marked the steps, which is the only one with ranges.
fn main_thread(trace: &Trace) -> i64 {
    let nvtx = trace.nvtx_ranges().unwrap();
    assert!(nvtx.ranges.iter().all(|range| range.thread == nvtx.ranges[0].thread));
    nvtx.ranges[0].thread.0
}

fn rows(trace: &Trace, report: &str, options: ReportOptions) -> Vec<Vec<String>> {
    let report: Report = report.parse().unwrap();
    let mut table = ReportTable::default();
    trace.report_with(report, options, &mut table).unwrap();
    let print = |row: &Vec<Value>| {
        let cells = table.columns.iter().zip(row);
        cells.map(|(column, value)| Units::default().print(column.unit, value)).collect()
    };
    table.rows.iter().map(print).collect()
}

#[test]
fn process_attribution_finds_the_backward_pass() {
    for name in TRAINING {
        let unpacked = Unpacked::new(name);
        let trace = unpacked.open();
        let main = main_thread(&trace);
        let expected = query(
            &unpacked.path(),
            main,
            "SELECT id, min(start), max(end), sum(end - start), sum(is_kernel), count(DISTINCT corr) FROM owned GROUP BY id ORDER BY id",
        );
        let found: Vec<Vec<i64>> = work_by_range(&trace, BY_PROCESS)
            .into_iter()
            .map(|(id, work)| {
                // All ran on one stream, one after the other.
                assert_eq!(i128::from(work.busy), work.total);
                let total = i64::try_from(work.total).unwrap();
                let count = |count: u64| i64::try_from(count).unwrap();
                vec![id, work.start, work.end, total, count(work.kernels), count(work.operations)]
            })
            .collect();
        assert_eq!(found, expected, "{name}");

        // The three backward passes, as that join printed them when this was written.
        let backward = |by| {
            let times = kernels_within(&trace, "backward", Attribution { by, whole_graphs: false });
            let count: u64 = times.iter().map(|(_, times)| times.count).sum();
            (count, times.iter().map(|(_, times)| times.total).sum::<i128>())
        };
        let kernels = query(
            &unpacked.path(),
            main,
            "SELECT count(*), sum(end - start) FROM owned WHERE name = 'backward' AND is_kernel",
        );
        let (count, total) = backward(AttributeBy::Process);
        assert_eq!(
            vec![vec![i64::try_from(count).unwrap(), i64::try_from(total).unwrap()]],
            kernels,
            "{name}"
        );
        assert_eq!(count, if name == TRAINING[0] { 454 + 578 + 578 } else { 3 * 454 }, "{name}");
        assert_eq!(backward(AttributeBy::Thread).0, 3, "{name}: nsys finds next to nothing");
    }
}

#[test]
fn reports_by_process_hold_every_kernel_once() {
    for name in TRAINING {
        let unpacked = Unpacked::new(name);
        let trace = unpacked.open();
        let main = main_thread(&trace);
        let by_process = ReportOptions { attribution: BY_PROCESS, ..ReportOptions::default() };
        let all = query(
            &unpacked.path(),
            main,
            "SELECT count(*), sum(end - start) FROM CUPTI_ACTIVITY_KIND_KERNEL",
        );
        for options in [ReportOptions::default(), by_process] {
            // `warmup` and `step_N` are the outermost ranges: with what is outside all ranges they
            // hold everything.
            let outer = rows(&trace, "nvtx_kern_sum", options);
            let outer = outer
                .iter()
                .filter(|row| row[0].is_empty() || row[0] == ":warmup" || row[0].starts_with(":step_"));
            let (count, total) = outer.fold((0, 0), |(count, total), row| {
                (count + row[5].parse::<i64>().unwrap(), total + row[6].parse::<i64>().unwrap())
            });
            assert_eq!(vec![vec![count, total]], all, "{name}");
        }
        let projected = rows(&trace, "nvtx_gpu_proj_trace", by_process);
        let found: BTreeMap<i64, [i64; 3]> = projected
            .iter()
            .map(|row| {
                let cell = |at: usize| row[at].parse::<i64>().unwrap();
                (cell(11), [cell(1), cell(2), cell(8)])
            })
            .collect();
        let expected = query(
            &unpacked.path(),
            main,
            "SELECT id, min(start), max(end) - min(start), count(DISTINCT corr) FROM owned GROUP BY id",
        );
        let expected = expected.into_iter().map(|row| (row[0], [row[1], row[2], row[3]]));
        assert_eq!(found, expected.collect(), "{name}");
    }
}

#[test]
fn activity_is_that_of_the_tables() {
    let unpacked = Unpacked::new("streams_domains");
    let trace = unpacked.open();
    let found = trace.gpu_activity(Attribution::default()).unwrap();
    let expected = query(
        &unpacked.path(),
        0,
        "SELECT min(start), max(end), (SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL),
                (SELECT sum(end - start) FROM CUPTI_ACTIVITY_KIND_KERNEL), (SELECT count(*) FROM CUPTI_ACTIVITY_KIND_MEMCPY),
                (SELECT sum(end - start) FROM CUPTI_ACTIVITY_KIND_MEMCPY), (SELECT count(*) FROM CUPTI_ACTIVITY_KIND_MEMSET),
                (SELECT sum(end - start) FROM CUPTI_ACTIVITY_KIND_MEMSET),
                -- Busy: the intervals between neighboring edges that any work covers.
                (WITH edge AS (SELECT start AS at FROM op UNION SELECT end FROM op),
                      piece AS (SELECT at, lead(at) OVER (ORDER BY at) AS next FROM edge)
                 SELECT sum(next - at) FROM piece WHERE EXISTS (SELECT 1 FROM op WHERE op.start <= at AND op.end >= next))
         FROM op",
    );
    let [all] = found.as_slice() else { panic!("one process, one device: {found:?}") };
    let count = |count: u64| i64::try_from(count).unwrap();
    let sum = |sum: i128| i64::try_from(sum).unwrap();
    let found = vec![
        all.start,
        all.end,
        count(all.kernels),
        sum(all.kernel_time),
        count(all.copies),
        sum(all.copy_time),
        count(all.sets),
        sum(all.set_time),
        all.busy,
    ];
    assert_eq!(vec![found], expected);
    assert!(i128::from(all.busy) < all.kernel_time + all.copy_time + all.set_time, "streams overlap");
    assert_eq!((all.graphs, all.graph_time), (0, 0));
}

/// A graph that was traced node by node, as if it had been traced as a whole: its replays become
/// rows of another table.
#[test]
fn whole_graphs_are_work() {
    let unpacked = Unpacked::new("graph_nodes");
    let before = work_by_range(&unpacked.open(), Attribution::default());
    let connection = Connection::open(unpacked.path()).unwrap();
    connection
        .execute_batch(
            "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, end INTEGER, deviceId INTEGER, correlationId INTEGER,
                 globalPid INTEGER, graphId INTEGER, graphExecId INTEGER);
             INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE
                 SELECT min(start), max(end), min(deviceId), correlationId, globalPid, 7, 8 FROM
                    (SELECT start, end, deviceId, correlationId, globalPid FROM CUPTI_ACTIVITY_KIND_KERNEL
                     WHERE graphNodeId IS NOT NULL
                     UNION ALL SELECT start, end, deviceId, correlationId, globalPid FROM CUPTI_ACTIVITY_KIND_MEMCPY
                     WHERE graphNodeId IS NOT NULL
                     UNION ALL SELECT start, end, deviceId, correlationId, globalPid FROM CUPTI_ACTIVITY_KIND_MEMSET
                     WHERE graphNodeId IS NOT NULL)
                 GROUP BY correlationId, globalPid;
             DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE graphNodeId IS NOT NULL;
             DELETE FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE graphNodeId IS NOT NULL;
             DELETE FROM CUPTI_ACTIVITY_KIND_MEMSET WHERE graphNodeId IS NOT NULL;",
        )
        .unwrap();
    let spent: i64 = connection
        .query_row("SELECT sum(end - start) FROM CUPTI_ACTIVITY_KIND_GRAPH_TRACE", [], |row| row.get(0))
        .unwrap();
    drop(connection);
    let trace = unpacked.open();
    let whole = Attribution { whole_graphs: true, ..Attribution::default() };
    let after = work_by_range(&trace, whole);
    // Each range spans the same interval of the GPU's time by as many launches.
    let extent = |work: &BTreeMap<i64, GpuWork>| -> Vec<(i64, i64, i64, u64)> {
        work.iter().map(|(id, work)| (*id, work.start, work.end, work.operations)).collect()
    };
    assert_eq!(extent(&after), extent(&before));
    assert!(work_by_range(&trace, Attribution::default()).len() < after.len(), "nsys does not see them");

    let replayed = kernels_within(&trace, "replay", whole);
    let [(name, times)] = replayed.as_slice() else { panic!("one kernel: {replayed:?}") };
    assert_eq!((name.as_ref(), times.count, times.total), ("[CUDA graph 7]", 12, i128::from(spent)));
    let activity = trace.gpu_activity(whole).unwrap();
    assert_eq!((activity[0].graphs, activity[0].graph_time), (12, i128::from(spent)));
    let rows = rows(
        &trace,
        "nvtx_kern_sum",
        ReportOptions { attribution: whole, fold_names: false, ..ReportOptions::default() },
    );
    let graphs: Vec<_> = rows.iter().filter(|row| row[12] == "[CUDA graph 7]").collect();
    assert_eq!(graphs.len(), 2, "one row for each of two threads");
    assert!(graphs.iter().all(|row| (row[0].as_str(), row[5].as_str()) == (":replay", "6")));
}

#[test]
fn folded_names_are_one_row() {
    let unpacked = Unpacked::new("small_training_step");
    let trace = unpacked.open();
    let folded = ReportOptions { fold_names: true, ..ReportOptions::default() };
    for (report, name, instances) in
        [("nvtx_sum", 9, 2), ("nvtx_pushpop_sum", 8, 2), ("nvtx_gpu_proj_sum", 0, 4), ("nvtx_kern_sum", 0, 5)]
    {
        let steps = |options| -> Vec<Vec<String>> {
            let mut rows = rows(&trace, report, options);
            rows.retain(|row| row[name].starts_with(":step_"));
            rows
        };
        let sum =
            |rows: &[Vec<String>]| rows.iter().map(|row| row[instances].parse::<u64>().unwrap()).sum::<u64>();
        let (apart, together) = (steps(ReportOptions::default()), steps(folded));
        assert!(apart.iter().all(|row| [":step_0", ":step_1"].contains(&row[name].as_str())), "{report}");
        assert!(together.iter().all(|row| row[name] == ":step_*"), "{report}");
        assert!(together.len() < apart.len(), "{report}");
        assert_eq!(sum(&together), sum(&apart), "{report}");
    }
}

#[test]
fn what_is_held_is_not_read_again() {
    let unpacked = Unpacked::new(TRAINING[0]);
    let trace = unpacked.open();
    let before = work_by_range(&trace, BY_PROCESS);
    let all = trace.operation_times(None, BY_PROCESS).unwrap();
    let launched = trace.launched(BY_PROCESS).unwrap();
    // From here on reading any row is an error.
    let file = std::fs::File::options().append(true).open(unpacked.path()).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(work_by_range(&trace, BY_PROCESS), before);
    assert_eq!(trace.operation_times(None, BY_PROCESS).unwrap(), all);
    assert!(!kernels_within(&trace, "forward", BY_PROCESS).is_empty());
    assert_eq!(trace.gpu_activity(BY_PROCESS).unwrap().len(), 1);
    drop(launched);
    let error = trace.launched(BY_PROCESS).unwrap_err();
    assert!(matches!(error, Error::Changed { .. }), "{error}");
}

#[test]
fn groups_of_ranges_have_the_sums_of_their_ranges() {
    for name in ["small_training_step", "two_gpus", "three_processes", "graph_by_node", "host_threads"] {
        let unpacked = Unpacked::new(name);
        let trace = unpacked.open();
        let launched = trace.launched(BY_PROCESS).unwrap();
        let count = launched.nvtx().ranges.len();
        let groups: Vec<Vec<usize>> =
            (0..4).map(|group| (0..count).filter(|at| at % 5 == group).collect()).collect();
        let slices: Vec<&[usize]> = groups.iter().map(Vec::as_slice).collect();
        let single = launched.work_of(&(0..count).collect::<Vec<_>>());
        for (group, sum) in groups.iter().zip(launched.sums_of(&slices)) {
            let work: Vec<GpuWork> = launched.work_of(group).into_iter().flatten().collect();
            assert_eq!(work, group.iter().filter_map(|at| single[*at]).collect::<Vec<_>>(), "{name}");
            let expected = WorkSum {
                instances: work.len() as u64,
                projected: work.iter().map(|work| i128::from(work.end) - i128::from(work.start)).sum(),
                busy: work.iter().map(|work| i128::from(work.busy)).sum(),
                extent: work.iter().map(|work| i128::from(work.extent)).sum(),
                total: work.iter().map(|work| work.total).sum(),
                kernels: work.iter().map(|work| work.kernels).sum(),
                operations: work.iter().map(|work| work.operations).sum(),
            };
            assert_eq!(sum, expected, "{name}");
        }
        // Each GPU for itself adds up to all of them, but for the time from the first to the last.
        let by_gpu = launched.sums_by_gpu(&slices);
        let gpus = if name == "two_gpus" { vec![0, 1] } else { vec![0] };
        assert_eq!(by_gpu.iter().map(|(gpu, _)| gpu.0).collect::<Vec<_>>(), gpus, "{name}");
        for (at, group) in groups.iter().enumerate() {
            let all = launched.sums_of(&slices)[at];
            let own = || by_gpu.iter().map(|(_, sums)| sums[at]);
            assert_eq!(own().map(|sum| sum.busy).sum::<i128>(), all.busy, "{name}");
            assert_eq!(own().map(|sum| sum.extent).sum::<i128>(), all.extent, "{name}");
            assert_eq!(own().map(|sum| sum.kernels).sum::<u64>(), all.kernels, "{name}");
            // On one GPU the extent is the time from the first to the last.
            assert!(own().all(|sum| sum.projected == sum.extent), "{name}");
            for ((_, work), sum) in launched.work_by_gpu(group).into_iter().zip(own()) {
                assert_eq!(work.iter().flatten().count() as u64, sum.instances, "{name}");
            }
        }
    }
}
