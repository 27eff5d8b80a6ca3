//! The reports of unified memory on made rows, against what nsys 2024.2 printed for them.

use std::collections::BTreeMap;
use std::fs;

use flopgap_nsys::{Error, Filter, ReportTable, Trace};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::support::{csv_of_nsys, fixtures, printed};

fn made() -> (TempDir, Connection) {
    let folder = tempfile::tempdir().unwrap();
    let connection = Connection::open(folder.path().join("made.sqlite")).unwrap();
    let rows = fs::read_to_string(fixtures().join("unified/rows.sql")).unwrap();
    connection.execute_batch(&rows).unwrap();
    (folder, connection)
}

fn open(folder: &TempDir) -> Trace {
    Trace::open(folder.path().join("made.sqlite")).unwrap()
}

fn golden(name: &str) -> Vec<Vec<String>> {
    csv_of_nsys(fs::read(fixtures().join(format!("unified/{name}.csv"))).unwrap())
}

/// The cells but for the throughput, which nsys divides in integers.
fn but_throughput(rows: &[Vec<String>]) -> Vec<&[String]> {
    rows.iter().map(|row| &row[..5]).collect()
}

#[test]
fn pages_and_totals() {
    let (folder, connection) = made();
    let trace = open(&folder);
    let (ours, theirs) = (printed(&trace, "um_sum:rows=-1").unwrap(), golden("um_sum_all"));
    assert_eq!(ours[0], theirs[0]);
    assert_eq!(but_throughput(&ours), but_throughput(&theirs));
    assert_eq!(printed(&trace, "um_sum").unwrap(), ours[..11], "ten without being asked");
    assert_eq!(printed(&trace, "um_sum:rows=0").unwrap().len(), 1);
    assert_eq!(printed(&trace, "um_total_sum").unwrap(), golden("um_total_sum"));

    // What nsys prints is bytes times the whole number 10⁹ / nanoseconds; right is the quotient.
    let mut statement = connection
        .prepare(
            "SELECT printf('0x%X', virtualAddress), sum(bytes), sum(end - start) FROM CUPTI_ACTIVITY_KIND_MEMCPY
             WHERE copyKind IN (11, 12) GROUP BY virtualAddress",
        )
        .unwrap();
    let moved = statement.query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?)))).unwrap();
    let moved: BTreeMap<String, (i64, i64)> = moved.map(Result::unwrap).collect();
    let mut wrong = 0;
    for (our, their) in ours.iter().zip(&theirs).skip(1) {
        let (nsys, right) = match moved.get(&our[0]) {
            Some((bytes, time)) if *time > 0 => (
                format!("{:.3}", (bytes * (1_000_000_000 / time)) as f64 / 1e6),
                format!("{:.3}", *bytes as f64 * 1e3 / *time as f64),
            ),
            _ => (String::new(), String::new()),
        };
        assert_eq!((&their[5], &our[5]), (&nsys, &right), "{}", our[0]);
        wrong += u64::from(nsys != right);
    }
    assert_eq!(wrong, 10, "of 13 throughputs");
}

#[test]
fn faults_of_the_cpu_have_no_end_and_are_not_filtered() {
    let (folder, _) = made();
    let trace = open(&folder).filtered("9010/14000".parse::<Filter>().unwrap());
    let ours = printed(&trace, "um_sum:rows=3").unwrap();
    assert_eq!(but_throughput(&ours), but_throughput(&golden("um_sum_3_filtered")));
}

/// nsys skips the reports unless all three tables are there, but exports leave out empty ones.
#[test]
fn a_table_that_is_absent_has_no_rows() {
    let (folder, connection) = made();
    let (all, total) = {
        let trace = open(&folder);
        (printed(&trace, "um_sum:rows=-1").unwrap(), printed(&trace, "um_total_sum").unwrap())
    };
    connection.execute_batch("DROP TABLE CUDA_UM_GPU_PAGE_FAULT_EVENTS").unwrap();
    let trace = open(&folder);
    let fewer = printed(&trace, "um_sum:rows=-1").unwrap();
    assert_eq!(fewer.len(), all.len() - 1, "one page was touched by the GPU alone");
    assert!(fewer[1..].iter().all(|row| row[4].is_empty()));
    let totals = printed(&trace, "um_total_sum").unwrap();
    assert_eq!((totals[1][2].as_str(), totals[1][3].as_str()), ("6", ""));
    assert_eq!(totals[1][4..], total[1][4..]);

    connection
        .execute_batch("DROP TABLE CUPTI_ACTIVITY_KIND_MEMCPY; DROP TABLE CUDA_UM_CPU_PAGE_FAULT_EVENTS")
        .unwrap();
    let error = open(&folder).report("um_sum".parse().unwrap(), &mut ReportTable::default()).unwrap_err();
    assert!(matches!(error, Error::NoTable { .. }), "{error}");
}
