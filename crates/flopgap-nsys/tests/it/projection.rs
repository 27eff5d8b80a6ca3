//! Reports that nsys ends with an internal error on these traces, against a naive join of the raw
//! tables.

use std::collections::BTreeMap;

use flopgap_nsys::Attribution;
use rusqlite::Connection;

use crate::support::{Unpacked, kernels_within, printed};

/// The traces on which two threads created one domain.
const TRACES: [&str; 2] = ["streams_domains", "graph_nodes"];

/// Ranges with the text of their domain (each domain once), joined by comparing every launch with
/// every range.
const RANGES: &str = "
    WITH domain AS (SELECT globalTid >> 24 AS pid, domainId, min(text) AS text FROM NVTX_EVENTS
                    WHERE eventType = 75 GROUP BY 1, 2),
         range AS (SELECT n.rowid AS id, n.start, n.end, n.globalTid AS tid, n.eventType AS type,
                          coalesce(d.text, '') || ':' || coalesce(s.value, n.text) AS name
                   FROM NVTX_EVENTS AS n
                   LEFT JOIN StringIds AS s ON s.id = n.textId
                   LEFT JOIN domain AS d ON d.pid = n.globalTid >> 24 AND d.domainId = n.domainId
                   WHERE n.eventType IN (59, 60)),
         op AS (SELECT start, end, correlationId AS corr, globalPid AS pid, demangledName AS name
                FROM CUPTI_ACTIVITY_KIND_KERNEL
                UNION ALL SELECT start, end, correlationId, globalPid, NULL FROM CUPTI_ACTIVITY_KIND_MEMCPY
                UNION ALL SELECT start, end, correlationId, globalPid, NULL FROM CUPTI_ACTIVITY_KIND_MEMSET),
         owned AS (SELECT range.id, range.name, range.type, range.tid, range.end - range.start AS original,
                          op.start, op.end, op.corr, op.name AS kernel
                   FROM op JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS call
                     ON call.correlationId = op.corr AND call.globalTid >> 24 = op.pid >> 24
                   JOIN range ON range.tid = call.globalTid AND range.start <= call.start AND range.end >= call.end)
";

fn query(trace: &Unpacked, select: &str) -> Vec<Vec<String>> {
    let connection = Connection::open(trace.path()).unwrap();
    let mut statement = connection.prepare(&format!("{RANGES} {select}")).unwrap();
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| {
        (0..columns)
            .map(|column| {
                Ok(match row.get_ref(column)? {
                    rusqlite::types::ValueRef::Integer(value) => value.to_string(),
                    value => value.as_str().unwrap_or_default().to_owned(),
                })
            })
            .collect()
    });
    rows.unwrap().map(Result::unwrap).collect()
}

fn columns(rows: &[Vec<String>], titles: &[&str]) -> Vec<Vec<String>> {
    let at: Vec<usize> =
        titles.iter().map(|title| rows[0].iter().position(|column| column == title).unwrap()).collect();
    rows[1..].iter().map(|row| at.iter().map(|at| row[*at].clone()).collect()).collect()
}

fn sorted(mut rows: Vec<Vec<String>>) -> Vec<Vec<String>> {
    rows.sort();
    rows
}

#[test]
fn kernels_by_range() {
    for name in TRACES {
        let unpacked = Unpacked::new(name);
        let ours = printed(&unpacked.open(), "nvtx_kern_sum").unwrap();
        let titles = [
            "NVTX Range",
            "TID",
            "Kernel Name",
            "NVTX Inst",
            "Kern Inst",
            "Total Time (ns)",
            "Min (ns)",
            "Max (ns)",
        ];
        let expected = query(
            &unpacked,
            "SELECT owned.name, tid & 0xffffff, s.value, count(DISTINCT owned.id), count(*), sum(end - start),
                    min(end - start), max(end - start)
             FROM owned JOIN StringIds AS s ON s.id = kernel GROUP BY owned.name, type, tid, kernel",
        );
        assert_eq!(sorted(columns(&ours, &titles)), sorted(expected), "{name}");
        // In the order of ranges and threads, then by falling total.
        let order = columns(&ours, &["NVTX Range", "PID", "TID", "Total Time (ns)"]);
        let key = |row: &Vec<String>| {
            let total: i64 = row[3].parse().unwrap();
            (row[0].clone(), row[1].clone(), row[2].clone(), -total)
        };
        assert!(order.is_sorted_by_key(key), "{name}");
    }
}

#[test]
fn ranges_on_the_gpu() {
    for name in TRACES {
        let unpacked = Unpacked::new(name);
        let trace = unpacked.open();
        let projected =
            "SELECT id, name, type, tid, min(start) AS start, max(end) - min(start) AS took, original,
                                count(DISTINCT corr) AS ops FROM owned GROUP BY id";
        let ours = printed(&trace, "nvtx_gpu_proj_trace").unwrap();
        let titles = [
            "RangeId",
            "Name",
            "Projected Start (ns)",
            "Projected Duration (ns)",
            "Orig Duration (ns)",
            "NumGPUOps",
        ];
        let expected =
            query(&unpacked, &format!("SELECT id, name, start, took, original, ops FROM ({projected})"));
        assert_eq!(sorted(columns(&ours, &titles)), sorted(expected), "{name}");

        let ours = printed(&trace, "nvtx_gpu_proj_sum").unwrap();
        let titles = [
            "Range",
            "Total Proj Time (ns)",
            "Total Range Time (ns)",
            "Range Instances",
            "Proj Min (ns)",
            "Proj Max (ns)",
            "Total GPU Ops",
        ];
        let expected = query(
            &unpacked,
            &format!(
                "SELECT name, sum(took), sum(original), count(*), min(took), max(took), sum(ops)
                 FROM ({projected}) GROUP BY name, type ORDER BY 2 DESC"
            ),
        );
        assert_eq!(columns(&ours, &titles), expected, "{name}");
    }
}

/// The program's source says what lies in what: three threads, each with five steps of one copy and
/// one compute range within one start/end range; in `graph_nodes` two of them also capture a graph
/// once and replay it six times.
#[test]
fn the_tree_is_that_of_the_program() {
    for (name, replays) in [("streams_domains", 0), ("graph_nodes", 12)] {
        let unpacked = Unpacked::new(name);
        let trace = unpacked.open();
        let count = |rows: &[Vec<String>], titles: &[&str]| {
            let mut counts: BTreeMap<Vec<String>, u64> = BTreeMap::new();
            for row in columns(rows, titles) {
                *counts.entry(row).or_default() += 1;
            }
            counts
        };
        let row = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>();
        let tree = printed(&trace, "nvtx_pushpop_trace").unwrap();
        let mut expected = BTreeMap::from([
            (row(&["--:compute, with \"quotes\"", "1", "0"]), 15),
            (row(&["--:copy", "1", "0"]), 15),
            (row(&["io:registered_step", "0", "2"]), 5),
            (row(&["model:registered_step", "0", "2"]), 10),
        ]);
        if replays > 0 {
            expected.insert(row(&[":capture", "0", "0"]), 2);
            expected.insert(row(&[":replay", "0", "0"]), replays);
        }
        assert_eq!(count(&tree, &["NameTree", "Lvl", "NumChild"]), expected, "{name}");
        for row in
            columns(&tree, &["Start (ns)", "End (ns)", "Duration (ns)", "DurChild (ns)", "DurNonChild (ns)"])
        {
            let cell: Vec<i64> = row.iter().map(|cell| cell.parse().unwrap()).collect();
            assert_eq!((cell[1] - cell[0], cell[3] + cell[4]), (cell[2], cell[2]), "{name}");
        }

        let projected = printed(&trace, "nvtx_gpu_proj_trace").unwrap();
        // The start/end range holds 40 launches of each thread's steps and, with 2 of 5 steps odd,
        // 2 more kernels.
        let mut expected = BTreeMap::from([
            (row(&[":outer start/end", "StartEnd", "0", "5", "42"]), 3),
            (row(&[":copy", "PushPop", "2", "0", "3"]), 15),
            (row(&[":compute, with \"quotes\"", "PushPop", "2", "0", "3"]), 9),
            (row(&[":compute, with \"quotes\"", "PushPop", "2", "0", "4"]), 6),
            (row(&["io:registered_step", "PushPop", "1", "2", "8"]), 3),
            (row(&["io:registered_step", "PushPop", "1", "2", "9"]), 2),
            (row(&["model:registered_step", "PushPop", "1", "2", "8"]), 6),
            (row(&["model:registered_step", "PushPop", "1", "2", "9"]), 4),
        ]);
        if replays > 0 {
            // A graph of six nodes is launched as one operation; capturing it runs nothing.
            expected.insert(row(&[":replay", "PushPop", "0", "0", "1"]), replays);
        }
        assert_eq!(count(&projected, &["Name", "Style", "Lvl", "NumChild", "NumGPUOps"]), expected, "{name}");
    }
}

#[test]
fn kernels_of_one_range() {
    let unpacked = Unpacked::new("graph_nodes");
    let trace = unpacked.open();
    let counts = |range: &str| -> Vec<(String, u64, i128)> {
        let times = kernels_within(&trace, range, Attribution::default());
        times.into_iter().map(|(name, times)| (name.to_string(), times.count, times.total)).collect()
    };
    let row = |name: &str, count, total| (name.to_owned(), count, total);
    // The naive join of this file's other tests, run by hand: two threads with six replays of a
    // graph of four and one kernels.
    assert_eq!(
        counts("replay"),
        [
            row("axpy(float *, const float *, float, int)", 48, 171_328),
            row("void spin<(int)7>(float *, int)", 12, 30_912)
        ]
    );
    assert_eq!(counts("model:registered_step")[0], row("void spin<(int)40>(float *, int)", 10, 1_368_889));
    // Ranges within ranges of one name would count a kernel twice; all kernels together are those
    // of the table.
    let all = trace.operation_times(None, Attribution::default()).unwrap().kernels;
    assert_eq!(all.iter().map(|(_, times)| times.count).sum::<u64>(), 111);
}
