//! What whole steps execute, by counters, against their kernels and against SQL.

use flopgap_gap::{Gap, Options, gap};
use rusqlite::Connection;
use tempfile::TempDir;

/// A recording of `flopgap record`, changed by this SQL.
fn taken_apart(name: &str, sql: &str) -> (Gap, Connection, TempDir) {
    let (folder, [path]) = flopgap_testing::paths(["trace.sqlite"]);
    flopgap_testing::unpack(name, &path);
    let database = Connection::open(&path).unwrap();
    database.execute_batch(sql).unwrap();
    let found = gap(&flopgap_nsys::Trace::open(&path).unwrap(), &Options::default()).unwrap();
    (found, database, folder)
}

/// One was counted by kernel, the other as a whole, by other launches at another time.
#[test]
fn kernels_of_steps_add_up_to_steps_that_were_counted_as_a_whole() {
    let (found, database, _folder) = taken_apart("record/h200_steps.sqlite.zst", "");
    let (whole, executed) = (found.whole_steps.as_ref().unwrap(), found.executed.as_ref().unwrap());
    assert_eq!((found.measured, whole.times), (19, 2));
    let sql = "SELECT leastFlops, mostFlops, dramBytes FROM FLOPGAP_STEP t
               JOIN FLOPGAP_COUNTED c ON c.id = t.counted";
    let row = |row: &rusqlite::Row<'_>| Ok([row.get(0)?, row.get(1)?, row.get::<_, i64>(2)?]);
    let step = database.query_row(sql, [], row).unwrap();
    let all = step.map(|one| 19 * u64::try_from(one).unwrap());
    assert_eq!((whole.flops, whole.dram_bytes), (Some([all[0], all[1]]), Some(all[2])));
    assert_eq!(executed.all.counted, executed.all.launches);
    assert_eq!(whole.operations, executed.operations);
    assert_eq!(whole.flops, Some(executed.flops));
    // 989.4 TFLOP/s of FP16 on the tensor cores, by the data sheet.
    let tensor = whole.operations[0].least as f64 / 989.4e12 / (found.total_ns() as f64 * 1e-9);
    assert_eq!(whole.operations[0].kind, "tensor fp16");
    assert!((whole.utilization.unwrap() / tensor - 1.0).abs() < 1e-3, "{:?}, {tensor}", whole.utilization);
}

#[test]
fn of_steps_with_graphs_only_what_is_counted_is_known() {
    let (found, ..) = taken_apart("record/h200_graph_steps.sqlite.zst", "");
    let whole = found.whole_steps.as_ref().unwrap();
    assert_eq!((whole.flops, found.executed), (None, None));
    let kinds: Vec<&str> = whole.operations.iter().map(|own| own.kind.as_str()).collect();
    assert_eq!(kinds, ["tensor bf16", "tensor fp16"]);
    // The product of the graph: 2 x 64 x 256 x 512, twice.
    assert_eq!(whole.operations[1].least, found.measured * 2 * (2 * 64 * 256 * 512));
}

/// What was counted is of the ranges that were named, and of one GPU.
#[test]
fn steps_that_are_other_ranges_or_of_other_processes_have_none() {
    let whole = |sql: &str| taken_apart("record/h200_steps.sqlite.zst", sql).0.whole_steps.is_some();
    let named = |name: &str| {
        format!(
            "INSERT INTO StringIds SELECT max(id) + 1, '{name}' FROM StringIds;
             UPDATE FLOPGAP_STEP SET range = (SELECT max(id) FROM StringIds)"
        )
    };
    assert!(whole(&named("st*")));
    assert!(!whole(&named("st")));
    assert!(!whole(&named("batch")));
    assert!(!whole("UPDATE FLOPGAP_STEP SET globalPid = globalPid + 16777216"));
    assert!(!whole("UPDATE FLOPGAP_STEP SET counted = 1000"));
}
