//! Every report of every trace against what nsys 2025.3 printed for it, cell by cell.

use std::collections::BTreeSet;

use flopgap_files::Hint as _;
use flopgap_nsys::{Error, Report, ReportKind, Rule};

use crate::support::{TRACES, Unpacked, found, golden, goldens, printed};

/// A cell in which nsys is wrong: trace, report, row, column, what nsys printed, what is right.
type Wrong = (&'static str, &'static str, usize, &'static str, &'static str, &'static str);

/// Two threads of one process created the domain `model`. nsys joins each of its ranges with both
/// creations, so that the 10 ranges become 20; the total doubles, the deviation is that of doubled
/// values, and the shares of all rows shift. The right values were computed by comparing each row
/// of the table with each other.
const DOUBLE_DOMAIN: [Wrong; 34] = [
    ("graph_nodes", "nvtx_pushpop_sum", 1, "Time (%)", "53.0", "36.0"),
    ("graph_nodes", "nvtx_pushpop_sum", 1, "Total Time (ns)", "21980268", "10990134"),
    ("graph_nodes", "nvtx_pushpop_sum", 1, "Instances", "20", "10"),
    ("graph_nodes", "nvtx_pushpop_sum", 1, "StdDev (ns)", "1151722.6", "1183282.5"),
    ("graph_nodes", "nvtx_pushpop_sum", 2, "Time (%)", "22.1", "30.1"),
    ("graph_nodes", "nvtx_pushpop_sum", 3, "Time (%)", "14.1", "19.2"),
    ("graph_nodes", "nvtx_pushpop_sum", 4, "Time (%)", "9.4", "12.8"),
    ("graph_nodes", "nvtx_pushpop_sum", 5, "Time (%)", "1.0", "1.4"),
    ("graph_nodes", "nvtx_pushpop_sum", 6, "Time (%)", "0.4", "0.5"),
    ("graph_nodes", "nvtx_sum", 1, "Time (%)", "37.3", "44.8"),
    ("graph_nodes", "nvtx_sum", 2, "Time (%)", "33.2", "19.9"),
    ("graph_nodes", "nvtx_sum", 2, "Total Time (ns)", "21980268", "10990134"),
    ("graph_nodes", "nvtx_sum", 2, "Instances", "20", "10"),
    ("graph_nodes", "nvtx_sum", 2, "StdDev (ns)", "1151722.6", "1183282.5"),
    ("graph_nodes", "nvtx_sum", 3, "Time (%)", "13.9", "16.6"),
    ("graph_nodes", "nvtx_sum", 4, "Time (%)", "8.8", "10.6"),
    ("graph_nodes", "nvtx_sum", 5, "Time (%)", "5.9", "7.0"),
    ("graph_nodes", "nvtx_sum", 6, "Time (%)", "0.6", "0.8"),
    ("graph_nodes", "nvtx_sum", 7, "Time (%)", "0.2", "0.3"),
    ("streams_domains", "nvtx_pushpop_sum", 1, "Time (%)", "54.9", "37.8"),
    ("streams_domains", "nvtx_pushpop_sum", 1, "Total Time (ns)", "22803342", "11401671"),
    ("streams_domains", "nvtx_pushpop_sum", 1, "Instances", "20", "10"),
    ("streams_domains", "nvtx_pushpop_sum", 1, "StdDev (ns)", "1012680.3", "1040430.1"),
    ("streams_domains", "nvtx_pushpop_sum", 2, "Time (%)", "24.4", "33.7"),
    ("streams_domains", "nvtx_pushpop_sum", 3, "Time (%)", "13.4", "18.4"),
    ("streams_domains", "nvtx_pushpop_sum", 4, "Time (%)", "7.3", "10.0"),
    ("streams_domains", "nvtx_sum", 1, "Time (%)", "37.7", "45.5"),
    ("streams_domains", "nvtx_sum", 2, "Time (%)", "34.2", "20.6"),
    ("streams_domains", "nvtx_sum", 2, "Total Time (ns)", "22803342", "11401671"),
    ("streams_domains", "nvtx_sum", 2, "Instances", "20", "10"),
    ("streams_domains", "nvtx_sum", 2, "StdDev (ns)", "1012680.3", "1040430.1"),
    ("streams_domains", "nvtx_sum", 3, "Time (%)", "15.2", "18.4"),
    ("streams_domains", "nvtx_sum", 4, "Time (%)", "8.3", "10.0"),
    ("streams_domains", "nvtx_sum", 5, "Time (%)", "4.5", "5.5"),
];

/// Reports that nsys 2025.3 ends on these traces with an internal error (`UNIQUE constraint
/// failed`), again for the domain that two threads created. What ours hold is checked in
/// `projection.rs`.
const ABORTED: [&str; 4] =
    ["nvtx_gpu_proj_sum", "nvtx_gpu_proj_trace", "nvtx_kern_sum", "nvtx_pushpop_trace"];

/// Reports that are only compared where they differ by a formula, in a test of their own.
const THROUGHPUT: &str = "cuda_gpu_trace";

fn aborted(trace: &str, report: &str) -> bool {
    ["streams_domains", "graph_nodes"].contains(&trace) && ABORTED.contains(&report)
}

#[test]
fn reports_equal_those_of_nsys() {
    let mut equal = 0;
    for name in TRACES {
        let unpacked = Unpacked::new(name);
        let trace = unpacked.open();
        let mut known: Vec<Wrong> = DOUBLE_DOMAIN.into_iter().filter(|wrong| wrong.0 == name).collect();
        let mut reports = goldens(name);
        reports.retain(|report| report.parse::<Report>().is_ok());
        let printed_by_nsys = reports.clone();
        // Also those that nsys does not print: then there must be nothing to print.
        reports.extend(ReportKind::ALL.iter().map(|kind| kind.name().to_owned()));
        let mut compared = BTreeSet::new();
        for report in &reports {
            let ours = printed(&trace, report);
            let theirs = golden(name, report);
            if aborted(name, report) {
                assert!(ours.is_some() && theirs.is_none(), "{name} {report}");
                continue;
            }
            // nsys prints nothing at all both for a report without its table and for one without
            // rows.
            let ours = ours.filter(|rows| rows.len() > 1);
            assert_eq!(ours.is_some(), theirs.is_some(), "{name} {report}");
            let (Some(ours), Some(theirs)) = (ours, theirs) else { continue };
            assert_eq!(ours.len(), theirs.len(), "{name} {report}: rows");
            for (at, (our_row, their_row)) in ours.iter().zip(&theirs).enumerate() {
                assert_eq!(our_row.len(), their_row.len(), "{name} {report} row {at}: columns");
                for ((column, our), their) in ours[0].iter().zip(our_row).zip(their_row) {
                    // Of pages of unified memory it is checked in `unified.rs`.
                    let throughput = report.starts_with(THROUGHPUT) || report == "um_sum";
                    if our == their || (throughput && column.ends_with("hroughput (MB/s)")) {
                        continue;
                    }
                    let found = known
                        .iter()
                        .position(|wrong| (wrong.1, wrong.2, wrong.3) == (report, at, column.as_str()));
                    let Some(found) = found else {
                        panic!("{name} {report} row {at} {column}: nsys {their:?}, ours {our:?}");
                    };
                    let (.., nsys, right) = known.swap_remove(found);
                    assert_eq!(
                        (their.as_str(), our.as_str()),
                        (nsys, right),
                        "{name} {report} row {at} {column}"
                    );
                }
            }
            compared.insert(report.clone());
            equal += 1;
        }
        assert_eq!(known, [], "cells that no longer differ");
        assert_eq!(compared, printed_by_nsys, "{name}");
    }
    assert!(equal >= 262, "{equal} reports were compared");
}

/// nsys divides 10⁹ by the duration in integers before it multiplies with the bytes. Every other
/// cell of this report is compared above; here each throughput of nsys must be that integer
/// division, and each of these the quotient.
#[test]
fn throughput_is_not_rounded_down() {
    let mut wrong = 0;
    for name in TRACES {
        let unpacked = Unpacked::new(name);
        let trace = unpacked.open();
        let (Some(ours), Some(theirs)) = (printed(&trace, THROUGHPUT), golden(name, THROUGHPUT)) else {
            continue;
        };
        // A trace without copies or without memsets has no table of them.
        let absent = |error: &Error| assert!(error.is_absence(), "{error}");
        let copies = trace.copies().inspect_err(absent).into_iter().flatten().map(Result::unwrap);
        let sets = trace.memsets().inspect_err(absent).into_iter().flatten().map(Result::unwrap);
        let copies = copies.map(|copy| (copy.at.start, copy.bytes, copy.at.duration()));
        let sets = sets.map(|set| (set.at.start, set.bytes, set.at.duration()));
        let mut bytes: Vec<_> = copies.chain(sets).collect();
        bytes.sort_unstable();
        let column = ours[0].iter().position(|title| title == "Throughput (MB/s)").unwrap();
        let copies = ours.iter().zip(&theirs).skip(1).filter(|(our, _)| !our[column].is_empty());
        let copies: Vec<_> = copies.collect();
        assert_eq!(copies.len(), bytes.len(), "{name}");
        for ((our, their), (start, bytes, duration)) in copies.into_iter().zip(bytes) {
            assert_eq!(our[0], start.to_string());
            let integer = bytes * (1_000_000_000 / duration);
            assert_eq!(their[column], format!("{:.3}", integer as f64 / 1e6), "{name} at {start}: nsys");
            let right = bytes as f64 * 1e3 / duration as f64;
            assert!((our[column].parse::<f64>().unwrap() - right).abs() <= 0.000_501, "{name} at {start}");
            wrong += u64::from(our[column] != their[column]);
        }
    }
    assert_eq!(wrong, 1905, "cells in which nsys lost digits");
}

#[test]
fn base_and_mangled_names() {
    let unpacked = Unpacked::new("streams_domains");
    let trace = unpacked.open();
    let names = |report: &str| -> Vec<(String, String)> {
        let rows = printed(&trace, report).unwrap();
        rows[1..].iter().map(|row| (row[8].clone(), row[2].clone())).collect()
    };
    let pair = |name: &str, count: &str| (name.to_owned(), count.to_owned());
    // Both instances of the template have one base name, so they are one row.
    assert_eq!(names("cuda_gpu_kern_sum:base"), [pair("spin", "30"), pair("axpy", "21")]);
    assert_eq!(
        names("cuda_gpu_kern_sum:mangled"),
        [pair("_Z4spinILi40EEvPfi", "15"), pair("_Z4spinILi3EEvPfi", "15"), pair("_Z4axpyPfPKffi", "21")]
    );
    let traced = printed(&trace, "cuda_gpu_trace:mangled").unwrap();
    let spins = traced.iter().filter(|row| row[20] == "_Z4spinILi40EEvPfi").count();
    assert_eq!(spins, 15);
}

/// nsys joins a copy with the calls of every process that have its correlation id, which is unique
/// within one process only: with several processes it lists copies more than once.
const SEVERAL_PROCESSES: [&str; 3] = ["three_processes", "two_ranks", "two_ranks_nccl"];

#[test]
fn rules_find_what_nsys_finds() {
    let mut equal = 0;
    for name in TRACES {
        let unpacked = Unpacked::new(name);
        let trace = unpacked.open();
        for rule in Rule::ALL {
            let ours = found(&trace, rule).filter(|rows| rows.len() > 1);
            let theirs = golden(name, &format!("rule_{rule}"));
            if rule == Rule::CudaMemcpyAsync && SEVERAL_PROCESSES.contains(&name) {
                assert_ne!(ours, theirs, "{name} {rule}");
                continue;
            }
            assert_eq!(ours, theirs, "{name} {rule}");
            equal += u64::from(ours.is_some());
        }
    }
    assert_eq!(equal, 47, "rules that found something");
}

/// What [`SEVERAL_PROCESSES`] says, shown: the copies that nsys lists are those of the join without
/// the process, ours those of the join with it.
#[test]
fn copies_belong_to_calls_of_their_own_process() {
    for name in SEVERAL_PROCESSES {
        let unpacked = Unpacked::new(name);
        let database = rusqlite::Connection::open(unpacked.path()).unwrap();
        let joined = |condition: &str| -> Vec<[String; 3]> {
            let mut query = database
                .prepare(&format!(
                    "SELECT copy.end - copy.start, copy.start, (copy.globalPid >> 24) & 0xFFFFFF
                     FROM CUPTI_ACTIVITY_KIND_MEMCPY AS copy
                     JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS call ON call.correlationId = copy.correlationId {condition}
                     JOIN StringIds ON StringIds.id = call.nameId
                     WHERE (copy.srcKind = 0 OR copy.dstKind = 0) AND StringIds.value LIKE 'cudaMemcpy%Async%'
                     ORDER BY 1 DESC"
                ))
                .unwrap();
            let cell =
                |row: &rusqlite::Row<'_>, at| Ok::<_, rusqlite::Error>(row.get::<_, i64>(at)?.to_string());
            let rows = query.query_map([], |row| Ok([cell(row, 0)?, cell(row, 1)?, cell(row, 2)?])).unwrap();
            rows.map(Result::unwrap).collect()
        };
        let check = |rows: &[Vec<String>], of: &[[String; 3]]| {
            assert_eq!(rows.len(), of.len().min(50), "{name}");
            let durations = |row: &[String]| row[0].clone();
            // Which of equally long copies come first is open.
            assert!(rows.iter().map(|row| durations(row)).eq(of.iter().take(50).map(|row| durations(row))));
            for row in rows {
                let key = [&row[0], &row[1], &row[5]];
                assert!(of.iter().any(|known| known.each_ref() == key), "{name}: {row:?}");
            }
        };
        let wrong = joined("");
        let right = joined("AND call.globalTid >> 24 = copy.globalPid >> 24");
        assert!(right.len() < wrong.len(), "{name}");
        check(&golden(name, "rule_cuda_memcpy_async").unwrap()[1..], &wrong);
        check(&found(&unpacked.open(), Rule::CudaMemcpyAsync).unwrap()[1..], &right);
    }
}

/// No recorded program copies or sets memory synchronously, so one that does is made of one that
/// does not.
#[test]
fn synchronous_copies_and_sets_are_found() {
    let unpacked = Unpacked::new("streams_domains");
    let connection = rusqlite::Connection::open(unpacked.path()).unwrap();
    connection
        .execute_batch(
            "UPDATE StringIds SET value = replace(value, 'Async', '') WHERE value LIKE 'cudaMem%Async%';
             UPDATE CUPTI_ACTIVITY_KIND_MEMSET SET memKind = 1 WHERE rowid <= 4;
             UPDATE CUPTI_ACTIVITY_KIND_MEMSET SET memKind = 4 WHERE rowid = 5;
             UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET bytes = 64000 WHERE rowid = (
                 SELECT min(rowid) FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE copyKind = 1);",
        )
        .unwrap();
    drop(connection);
    let trace = unpacked.open();
    assert_eq!(found(&trace, Rule::CudaMemcpyAsync).unwrap().len(), 1);
    // 30 copies to the device, one of them now small; 15 to the host; 15 within the device do not
    // count.
    let copies = found(&trace, Rule::CudaMemcpySync).unwrap();
    assert_eq!(copies.len() - 1, 29 + 15);
    assert!(copies[1..].iter().all(|row| row[10] == "cudaMemcpy_v3020"));
    assert!(copies[1..].is_sorted_by_key(|row| std::cmp::Reverse(row[0].parse::<i64>().unwrap())));
    let sets = found(&trace, Rule::CudaMemsetSync).unwrap();
    let kinds: Vec<&str> = sets[1..].iter().map(|row| row[2].as_str()).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "Pinned").count(), 4);
    assert_eq!(kinds.iter().filter(|kind| **kind == "Managed").count(), 1);
}
