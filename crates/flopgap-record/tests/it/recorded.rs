//! What a program did is in its export, with the times, names and threads that it had.

use crate::program::{LAUNCHES, NAMES, run};

#[test]
fn every_launch_call_and_range_is_there_once() {
    let (exported, rows) = run(&["launch", "1000"], &[]);
    assert_eq!(
        (exported.processes, exported.kernels, exported.calls, exported.ranges),
        (1, 2000, 2000, 1000)
    );
    assert_eq!(exported.losses, []);
    assert!(rows.of::<i64>(LAUNCHES).into_iter().eq(1..=2000));
    let durations = "SELECT DISTINCT end - start FROM CUPTI_ACTIVITY_KIND_KERNEL";
    assert_eq!(rows.of::<i64>(durations), [2_000]);
    let joined = "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN CUPTI_ACTIVITY_KIND_RUNTIME r
                  ON k.correlationId = r.correlationId AND k.globalPid = r.globalTid >> 24 << 24";
    assert_eq!(rows.of::<i64>(joined), [2000]);
    assert!(rows.problems().is_empty());
}

#[test]
fn kernels_have_the_three_names_of_nsys() {
    let (_, rows) = run(&["launch", "2"], &[]);
    assert_eq!(rows.of::<String>(NAMES), ["bar", "foo(float *)"]);
    assert_eq!(rows.of::<String>(&NAMES.replace("demangledName", "shortName")), ["bar", "foo"]);
    assert_eq!(rows.of::<String>(&NAMES.replace("demangledName", "mangledName")), ["_Z3fooPf", "bar"]);
}

/// Two launches within each range, on one clock.
#[test]
fn ranges_end_where_they_were_ended() {
    let (_, rows) = run(&["launch", "10"], &[]);
    let texts = "SELECT text FROM NVTX_EVENTS WHERE eventType = 59 AND end >= start ORDER BY start";
    let texts = rows.of::<String>(texts);
    assert!(texts.chunks(2).all(|pair| pair == ["even", "odd"]) && texts.len() == 10, "{texts:?}");
    let within = "SELECT (SELECT count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME r
                  WHERE r.start BETWEEN n.start AND n.end) FROM NVTX_EVENTS n";
    assert_eq!(rows.of::<i64>(within), [2; 10]);
}

#[test]
fn records_of_all_versions_are_read() {
    for version in ["12040", "130000", "130500"] {
        let (exported, rows) = run(&["launch", "30000"], &[("FAKE_VERSION", version)]);
        assert_eq!((exported.kernels, exported.calls), (60_000, 60_000), "{version}");
        assert_eq!(exported.losses, [], "{version}");
        assert!(rows.of::<i64>(LAUNCHES).into_iter().eq(1..=60_000), "{version}");
    }
}

#[test]
fn threads_write_side_by_side() {
    let (exported, rows) = run(&["threads", "2000"], &[]);
    assert_eq!((exported.kernels, exported.ranges), (32_000, 16_000));
    let threads = "SELECT count(DISTINCT globalTid) FROM CUPTI_ACTIVITY_KIND_RUNTIME";
    assert_eq!(rows.of::<i64>(threads), [8]);
    let per_thread = "SELECT count(*) FROM NVTX_EVENTS WHERE end IS NOT NULL GROUP BY globalTid";
    assert_eq!(rows.of::<i64>(per_thread), [2000; 8]);
}

/// The parent's kernels before and after the fork, and ranges of both: CUDA does not work in a
/// forked child.
#[test]
fn a_forked_child_has_a_recording_of_its_own() {
    let (exported, rows) = run(&["fork", "5"], &[]);
    assert_eq!((exported.processes, exported.kernels, exported.ranges), (2, 20, 15));
    assert_eq!(rows.of::<i64>("SELECT count(DISTINCT globalPid) FROM PROCESSES"), [2]);
    let ranges = "SELECT count(*) FROM NVTX_EVENTS GROUP BY globalTid ORDER BY 1";
    assert_eq!(rows.of::<i64>(ranges), [5, 10]);
    assert_eq!(exported.losses, []);
}

#[test]
fn the_gpu_is_named() {
    let (_, rows) = run(&["launch", "1"], &[]);
    let gpu = "SELECT name || ' ' || smCount || ' ' || computeMajor || ' ' || uuid FROM TARGET_INFO_GPU";
    assert_eq!(rows.of::<String>(gpu), ["NVIDIA Fake 132 9 abababab-abab-abab-abab-abababababab"]);
}
