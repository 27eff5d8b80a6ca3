//! Recorded traces, altered to hold what no program recorded here does, against what nsys 2025.3
//! printed for the same alteration.

use std::collections::BTreeSet;

use flopgap_nsys::{Report, ReportKind, Rule};

use crate::support::{Unpacked, found, golden, goldens, printed};

/// One domain for each number, so that nsys does not end with an error; then the row numbers, which
/// are range ids, without gaps.
const ONE_DOMAIN: &str = "
    DELETE FROM NVTX_EVENTS WHERE eventType = 75 AND rowid NOT IN (
        SELECT min(rowid) FROM NVTX_EVENTS WHERE eventType = 75 GROUP BY domainId);
    VACUUM;";

/// `streams_domains` with `alteration`, in every report and rule.
fn equal(name: &str, alteration: &str) {
    let unpacked = Unpacked::new("streams_domains");
    let database = rusqlite::Connection::open(unpacked.path()).unwrap();
    database.execute_batch(ONE_DOMAIN).unwrap();
    database.execute_batch(alteration).unwrap();
    database.execute_batch("VACUUM").unwrap();
    drop(database);
    let trace = unpacked.open();
    let folder = format!("altered/{name}");
    let kinds = ReportKind::ALL.iter().map(|&kind| Report::new(kind).to_string());
    let rules = Rule::ALL.iter().map(|rule| format!("rule_{rule}"));
    let ours: BTreeSet<String> = kinds.chain(rules).collect();
    let theirs = goldens(&folder);
    for report in &ours {
        let our_rows = match report.strip_prefix("rule_") {
            Some(rule) => found(&trace, rule.parse().unwrap()),
            None => printed(&trace, report),
        };
        let our_rows = our_rows.filter(|rows| rows.len() > 1);
        let mut their_rows = golden(&folder, report);
        if let (Some(ours), Some(theirs)) = (&our_rows, &mut their_rows)
            && let Some(column) = theirs[0].iter().position(|title| title.ends_with("Throughput (MB/s)"))
        {
            // Rounded down by nsys: `golden.rs` says how.
            for (our_row, their_row) in ours.iter().zip(theirs) {
                their_row[column].clone_from(&our_row[column]);
            }
        }
        assert_eq!(our_rows, their_rows, "{name} {report}");
    }
    assert!(theirs.intersection(&ours).count() >= 20, "{theirs:?}");
}

#[test]
fn ranges_that_stay_open() {
    equal("open_ranges", "UPDATE NVTX_EVENTS SET end = NULL WHERE rowid % 5 = 0 AND eventType IN (59, 60)");
}

#[test]
fn several_devices_without_names_green_contexts_gaps_and_threads_named_twice() {
    equal(
        "devices",
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET deviceId = rowid % 3, greenContextId = rowid % 4;
         UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET deviceId = rowid % 2;
         UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = start + 900000000, end = end + 900000000 WHERE rowid > 25;
         INSERT INTO ThreadNames SELECT nameId, priority, globalTid FROM ThreadNames LIMIT 2;
         UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET returnValue = 2 WHERE rowid % 31 = 0;
         UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET copyKind = 10, srcDeviceId = 0, dstDeviceId = 1 WHERE rowid % 5 = 0",
    );
}

#[test]
fn page_faults_and_migrations() {
    equal(
        "page_faults",
        "CREATE TABLE CUDA_UM_CPU_PAGE_FAULT_EVENTS (start INTEGER, globalPid INTEGER, address INTEGER,
             originalFaultPc INTEGER, CpuInstruction INTEGER, module INTEGER, unresolvedFaultPc INTEGER,
             sourceFile INTEGER, sourceLine INTEGER);
         CREATE TABLE CUDA_UM_GPU_PAGE_FAULT_EVENTS (start INTEGER, end INTEGER, globalPid INTEGER, deviceId INTEGER,
             address INTEGER, numberOfPageFaults INTEGER, faultAccessType INTEGER);
         INSERT INTO CUDA_UM_CPU_PAGE_FAULT_EVENTS
             SELECT start, globalPid, 4096 * (rowid % 5), 0, demangledName, demangledName, NULL, NULL, NULL
             FROM CUPTI_ACTIVITY_KIND_KERNEL;
         INSERT INTO CUDA_UM_GPU_PAGE_FAULT_EVENTS
             SELECT start, end, globalPid, deviceId, 4096 * (rowid % 7), rowid, rowid % 3
             FROM CUPTI_ACTIVITY_KIND_KERNEL;
         UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET copyKind = 11 + rowid % 2, virtualAddress = 4096 * (rowid % 9)
             WHERE rowid % 3 < 2",
    );
}
