//! How active units of a GPU were by samples, against sums in SQL.

use std::path::PathBuf;

use flopgap_gap::{Active, Gap, Options, gap};
use rusqlite::{Connection, params};
use tempfile::TempDir;

use crate::fixture;

/// Every 10 ms is sampled; in the last third of the recording nothing is.
const EVERY: i64 = 10_000_000;

/// A recorded training, with samples as `flopgap record` exports them: of its GPU, and of another.
fn sampled(folder: &TempDir) -> PathBuf {
    let path = folder.path().join("trace.sqlite");
    flopgap_testing::unpack("record/h100_counted.sqlite.zst", &path);
    let database = Connection::open(&path).unwrap();
    database
        .execute_batch(
            "CREATE TABLE FLOPGAP_GPM (start INTEGER NOT NULL, end INTEGER NOT NULL,
             deviceId INTEGER NOT NULL, metric TEXT NOT NULL, value REAL NOT NULL)",
        )
        .unwrap();
    let span = "SELECT min(start), max(\"end\") FROM CUPTI_ACTIVITY_KIND_KERNEL";
    let (first, last): (i64, i64) =
        database.query_row(span, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let gpu: i64 =
        database.query_row("SELECT gpuId FROM TARGET_INFO_CUDA_DEVICE", [], |row| row.get(0)).unwrap();
    let end = first + (last - first) * 2 / 3;
    for (at, start) in (first - EVERY..end).step_by(usize::try_from(EVERY).unwrap()).enumerate() {
        let at = i32::try_from(at).unwrap();
        // Whole numbers, too: SQLite stores these as integers.
        for (metric, value) in [
            ("ANY_TENSOR_UTIL", f64::from(at * 37 % 101) / 2.0),
            ("DRAM_BW_UTIL", f64::from(at * 13 % 29)),
            ("SM_UTIL", 99.0),
        ] {
            for (gpu, value) in [(gpu, value), (gpu + 1, 100.0)] {
                let row = params![start, start + EVERY, gpu, metric, value];
                database.execute("INSERT INTO FLOPGAP_GPM VALUES (?1, ?2, ?3, ?4, ?5)", row).unwrap();
            }
        }
    }
    path
}

/// The nanoseconds of a metric's samples in measured steps, and the mean of its values over them.
fn by_sql(path: &std::path::Path, found: &Gap, metric: &str) -> (i64, f64) {
    let database = Connection::open(path).unwrap();
    let sql = "WITH own AS (SELECT min(\"end\", ?2) - max(start, ?1) AS ns, value FROM FLOPGAP_GPM
               JOIN TARGET_INFO_CUDA_DEVICE ON gpuId = deviceId WHERE metric = ?3)
               SELECT coalesce(sum(ns), 0), coalesce(sum(ns * value), 0.0) FROM own WHERE ns > 0";
    let steps = found.steps.iter().chain(&found.between).filter(|step| !step.warm_up);
    let sums = steps.map(|step| {
        let (start, end) = (step.start_ns, step.start_ns + step.wall_ns);
        database
            .query_row(sql, params![start, end, metric], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, f64>(1)?))
            })
            .unwrap()
    });
    let (ns, sum) = sums.fold((0, 0.0), |all, own| (all.0 + own.0, all.1 + own.1));
    (ns, sum / ns as f64)
}

#[test]
fn means_are_those_of_sql_over_measured_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = sampled(&folder);
    let found = gap(&flopgap_nsys::Trace::open(&path).unwrap(), &Options::default()).unwrap();
    let activity = found.activity.as_ref().unwrap();
    let Active { measured_ns, sampled_ns, tensor, dram } = activity.all;
    assert_eq!(measured_ns, found.total_ns());
    for (own, metric) in [(tensor, "ANY_TENSOR_UTIL"), (dram, "DRAM_BW_UTIL")] {
        let (ns, mean) = by_sql(&path, &found, metric);
        assert_eq!(ns, sampled_ns, "{metric}");
        let own = own.unwrap();
        assert!((own * 100.0 - mean).abs() < 1e-9 && own > 0.05, "{metric}: {own} {mean}");
    }
    // The first steps warm up, and the last third has no samples.
    assert!(sampled_ns > measured_ns / 3 && sampled_ns < measured_ns * 9 / 10, "{activity:?}");
    // No step ran on the other GPU.
    let [only] = activity.gpus[..] else { panic!("{activity:?}") };
    assert_eq!(only.active, activity.all);
    let again: Gap = serde_json::from_value(serde_json::to_value(&found).unwrap()).unwrap();
    assert_eq!(again.activity, found.activity);
}

#[test]
fn without_samples_nothing_is_known() {
    let recorded = crate::open(&fixture("record/h100_counted.sqlite.zst"));
    assert_eq!(gap(&*recorded.trace, &Options::default()).unwrap().activity, None);
}
