//! Exports of the ranks of one job, each in a file of its own, against one export of all of them.

use std::path::PathBuf;

use rusqlite::Connection;
use serde_json::Value;
use tempfile::TempDir;

use crate::run;

/// How much later the recording of the second rank begins, in nanoseconds.
const LATER: i64 = 7_654_321;
const HOUR: i64 = 3_600_000_000_000;

/// An export of two ranks on two GPUs, and the same rows in an export for each rank.
struct Halves {
    folder: TempDir,
    whole: PathBuf,
    ranks: [PathBuf; 2],
}

/// The two ranks' global process ids.
const RANKS: [i64; 2] = [281_505_477_689_344, 281_505_494_466_560];

impl Halves {
    fn new() -> Halves {
        let (folder, [whole]) = flopgap_testing::paths(["whole.sqlite"]);
        flopgap_testing::unpack("nsys/two_ranks_nccl.sqlite.zst", &whole);
        let ranks = ["first", "second"].map(|name| folder.path().join(format!("{name}.sqlite")));
        let halves = Halves { folder, whole, ranks };
        for rank in &halves.ranks {
            std::fs::copy(&halves.whole, rank).unwrap();
        }
        // The first half keeps the launcher, too.
        halves.change(0, &rows_of(&format!("<> {}", RANKS[1])));
        halves.change(1, &rows_of(&format!("= {}", RANKS[1])));
        halves.begins_later(1, LATER);
        halves.renumber_strings(1);
        halves
    }

    fn change(&self, rank: usize, sql: &str) {
        Connection::open(&self.ranks[rank]).unwrap().execute_batch(sql).unwrap();
    }

    /// The recording of a rank begins so much later, and its events are where they were.
    fn begins_later(&self, rank: usize, ns: i64) {
        let tables = BY_PROCESS.iter().chain(&BY_THREAD);
        // Events of CUDA have no times.
        let timed = tables.filter(|table| **table != "CUPTI_ACTIVITY_KIND_CUDA_EVENT");
        let earlier =
            timed.map(|table| format!("UPDATE {table} SET start = start - {ns}, [end] = [end] - {ns};"));
        let later = format!(
            "UPDATE TARGET_INFO_SESSION_START_TIME SET utcEpochNs = utcEpochNs + {ns};
            UPDATE ANALYSIS_DETAILS SET startTime = startTime - {ns}, stopTime = stopTime - {ns};"
        );
        self.change(rank, &earlier.chain([later]).collect::<String>());
    }

    /// Ids of strings are those of one file.
    fn renumber_strings(&self, rank: usize) {
        let columns = [
            ("StringIds", "id"),
            ("CUPTI_ACTIVITY_KIND_KERNEL", "shortName"),
            ("CUPTI_ACTIVITY_KIND_KERNEL", "demangledName"),
            ("CUPTI_ACTIVITY_KIND_KERNEL", "mangledName"),
            ("CUPTI_ACTIVITY_KIND_RUNTIME", "nameId"),
            ("NVTX_EVENTS", "textId"),
            ("PROFILER_OVERHEAD", "nameId"),
        ];
        let sql = columns.map(|(table, column)| format!("UPDATE {table} SET {column} = {column} + 1000000;"));
        self.change(rank, &sql.concat());
    }

    fn ranks(&self) -> [&str; 2] {
        [0, 1].map(|at| self.ranks[at].to_str().unwrap())
    }
}

const BY_PROCESS: [&str; 5] = [
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
];
const BY_THREAD: [&str; 3] = ["CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS", "PROFILER_OVERHEAD"];

/// Deletes the rows of all processes but some.
fn rows_of(process: &str) -> String {
    let by_process =
        BY_PROCESS.iter().map(|table| format!("DELETE FROM {table} WHERE NOT globalPid {process};"));
    let of_thread = "globalTid / 16777216 * 16777216";
    let by_thread =
        BY_THREAD.iter().map(|table| format!("DELETE FROM {table} WHERE NOT {of_thread} {process};"));
    by_process.chain(by_thread).collect()
}

fn json(arguments: &[&str]) -> Value {
    let answer = run(&[arguments, &["--format", "json"]].concat());
    assert_eq!(answer.code, 0, "{arguments:?}: {}", answer.stderr);
    answer.json()
}

/// Without what only says how it was read.
fn without(mut value: Value, keys: &[&str]) -> Value {
    if let Value::Object(fields) = &mut value {
        fields.retain(|key, _| !keys.contains(&key.as_str()));
    }
    value
}

/// Every nanosecond of the partition, every advice, and the times of passes are those of the one
/// export, although clocks, ids of strings and files differ.
#[test]
fn ranks_recorded_apart_are_what_they_are_in_one_export() {
    let halves = Halves::new();
    let [first, second] = halves.ranks();
    let whole = halves.whole.to_str().unwrap();
    let (apart, one) = (json(&["gap", first, second]), json(&["gap", whole]));
    assert!(one["joined"].is_null());
    assert_eq!(one["places"], 2);
    let keys = ["joined", "sentences"];
    assert_eq!(without(apart.clone(), &keys), without(one, &keys));

    // By SQL: the n-th of each kind of collective on both ranks, and by how much the clock of one
    // could be moved until it would be done before the other begins.
    let db = Connection::open(&halves.whole).unwrap();
    let sql = "WITH calls AS (
            SELECT globalPid AS pid, start, end, demangledName AS name,
                row_number() OVER (PARTITION BY globalPid, demangledName ORDER BY start) AS n
            FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds ON id = demangledName
            WHERE value LIKE '%AllReduce%' OR value LIKE '%AllGather%')
        SELECT count(*), max(min(a.end - b.start), min(b.end - a.start))
        FROM calls a JOIN calls b ON a.name = b.name AND a.n = b.n WHERE a.pid = ?1 AND b.pid = ?2";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
    let (collectives, within) = db.query_row(sql, RANKS, read).unwrap();
    assert_eq!(collectives, 10);
    let joined = &apart["joined"];
    assert_eq!(joined["recordings"], 2);
    assert_eq!([&joined["at_same_time"], &joined["one_machine"]], [true, true]);
    assert_eq!(joined["collectives"], collectives);
    assert_eq!(joined["clocks_within_ns"], within);

    let passes = |arguments: &[&str]| {
        let mut found = json(&[&["passes"], arguments].concat())["traces"][0].clone();
        found["trace"] = Value::Null;
        found
    };
    assert_eq!(passes(&[first, second]), passes(&[whole]));
}

#[test]
fn the_screen_says_how_exports_were_read() {
    let halves = Halves::new();
    let [first, second] = halves.ranks();
    let screen = run(&["gap", first, second]).stdout;
    assert!(screen.starts_with("first (2 exports) on NVIDIA H200\n"), "{screen}");
    let flat = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = "2 exports are read as ranks of one job: all their processes were in 10 collectives at the same time, on one machine.";
    assert!(flat.contains(said), "{screen}");
    assert!(
        flat.contains("Their clocks are put together by the UTC at which each recording began;"),
        "{screen}"
    );
    // The page has all of it, too, and a directory is a job.
    let page = run(&["summary", first, second]).stdout;
    assert!(page.contains("2 exports are read as ranks of one job"), "{page}");
    std::fs::remove_file(&halves.whole).unwrap();
    let directory = json(&["gap", halves.folder.path().to_str().unwrap()]);
    assert_eq!(directory, json(&["gap", first, second]));
}

/// A clock that is wrong by a known time is corrected by the ends of collectives, and the parts of
/// a step are what they were, but for who waits for whom, within the stated uncertainty.
#[test]
fn a_wrong_clock_is_corrected_and_named() {
    const WRONG: i64 = 1_500_000;
    let halves = Halves::new();
    let [first, second] = halves.ranks();
    let right = json(&["gap", first, second]);
    assert!(right["clocks"].is_null());
    halves.change(1, &format!("UPDATE TARGET_INFO_SESSION_START_TIME SET utcEpochNs = utcEpochNs + {WRONG}"));
    let found = json(&["gap", first, second]);
    let clock = &found["clocks"][0];
    let [corrected, within] = [&clock["corrected_ns"], &clock["within_ns"]].map(|ns| ns.as_i64().unwrap());
    assert!((corrected + WRONG).abs() <= within && within <= 50_000, "{clock}");
    assert_eq!(clock["collectives"], 10);
    assert_eq!(found["joined"]["collectives"], 10);
    let ns = |found: &Value, cause: &str| {
        let part = found["parts"].as_array().unwrap().iter().find(|part| part["cause"] == cause);
        part.map_or(0, |part| part["ns"].as_i64().unwrap())
    };
    for part in right["parts"].as_array().unwrap() {
        let cause = part["cause"].as_str().unwrap();
        let is_of_others = ["communication", "late-rank", "idle-rank"].contains(&cause);
        let most = if is_of_others { 20 * within } else { 0 };
        let [one, other] = [ns(&right, cause), ns(&found, cause)];
        assert!((one - other).abs() <= most, "{cause}: {one} and {other}");
    }
    let flat = run(&["gap", first, second]).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = "Clocks are corrected by the times at which collectives end: process ";
    assert!(flat.contains(said), "{flat}");
    // Recordings of their own keep their clocks.
    let apart = run(&["gap", first, second, "--read-as", "recordings"]).stdout;
    assert!(!apart.contains("Clocks are corrected"), "{apart}");
}

#[test]
fn exports_of_different_times_are_compared() {
    let halves = Halves::new();
    let [first, second] = halves.ranks();
    let sql = format!("UPDATE TARGET_INFO_SESSION_START_TIME SET utcEpochNs = utcEpochNs + {HOUR}");
    halves.change(1, &sql);
    let answer = run(&["gap", first, second]);
    assert!(answer.stdout.starts_with("A: first on "), "{}", answer.stdout);
    assert!(!answer.stderr.contains("ASSUMED"), "{}", answer.stderr);
    // An option says so.
    let ranks = json(&["gap", first, second, "--read-as", "ranks"]);
    assert_eq!(ranks["joined"]["collectives"], 0);
    run(&["gap", first, second, "--read-as", "ranks"])
        .prints(&["as ranks of one job, as requested, although"]);
    run(&["gap", halves.folder.path().to_str().unwrap()]).expect(2, &["recorded at different times"]);
}

#[test]
fn ranks_can_be_compared_with_each_other() {
    let halves = Halves::new();
    let [first, second] = halves.ranks();
    let answer = run(&["gap", first, second, "--read-as", "recordings"]);
    assert!(answer.stdout.starts_with("A: first on "), "{}", answer.stdout);
}

/// What was assumed is said where the exports do not say it, and why.
#[test]
fn what_is_not_recorded_is_assumed_and_said() {
    let halves = Halves::new();
    let [first, second] = halves.ranks();
    let same = run(&["gap", first, first]);
    same.says(&["ASSUMED: each is read as a recording of its own", "are both of process 1818"]);
    assert!(same.stdout.starts_with("A: first on "), "{}", same.stdout);
    halves.change(1, "DROP TABLE TARGET_INFO_SESSION_START_TIME");
    let answer = run(&["gap", first, second]);
    answer.says(&["second.sqlite: does not say when its recording began"]);
    assert!(answer.stdout.starts_with("A: first on "), "{}", answer.stdout);
    run(&["gap", first, second, "--read-as", "ranks"]).refuses(1, &[]);

    // GPUs of another machine have numbers of their own.
    let halves = Halves::new();
    let [first, second] = halves.ranks();
    halves.change(1, "UPDATE TARGET_INFO_GPU SET uuid = uuid || '-other'");
    let found = json(&["gap", first, second]);
    assert_eq!(found["joined"]["one_machine"], false);
    assert_eq!(found["places"], 2);
}
