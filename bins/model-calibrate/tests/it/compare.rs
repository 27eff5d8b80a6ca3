//! `flopgap calibrate compare`.

use std::path::Path;

use crate::support::{calibration, done, fails, run};

fn write(folder: &Path, name: &str, slower: f64) {
    calibration(slower).write(&folder.join(name)).unwrap();
}

#[test]
fn equal_calibrations_have_no_change() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "a.jsonl", 1.0);
    write(dir.path(), "b.jsonl.zst", 1.04);
    let ended = done(dir.path(), &["compare", "a.jsonl", "b.jsonl.zst"]);
    assert!(ended.stdout.starts_with("The 20 of 116 points that changed most\n"), "{}", ended.stdout);
    ended.says(&["116 points: median change +4.0%, mean of the magnitudes 4.0%"]);
}

#[test]
fn changes_beyond_the_threshold_fail() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "a.jsonl", 1.0);
    let mut new = calibration(1.0);
    new.rows[3].measurement.time.median_ns *= 1.5;
    new.rows[9].measurement.time.median_ns *= 0.5;
    new.write(&dir.path().join("b.jsonl")).unwrap();
    let message = "2 of 116 points changed by more than 10.0%: 1 are slower, 1 faster\n  \
                   hint: `--fail-if-changed PERCENT` sets the allowed change";
    fails(dir.path(), &["compare", "a.jsonl", "b.jsonl"], 1, message);
    done(dir.path(), &["compare", "a.jsonl", "b.jsonl", "--fail-if-changed", "60"]);
    let all = run(dir.path(), &["compare", "a.jsonl", "b.jsonl", "--format", "csv"]);
    assert_eq!(all.stdout.lines().count(), 117, "{}", all.stdout);
}

#[test]
fn unlike_machines_are_not_compared_unless_asked() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "a.jsonl", 1.0);
    let mut new = calibration(1.0);
    "NVIDIA L40S".clone_into(&mut new.header.origin.device);
    new.write(&dir.path().join("b.jsonl")).unwrap();
    let message = "a.jsonl and b.jsonl are from different machines: the device was `NVIDIA H200` and is `NVIDIA L40S`\n  \
                   hint: pass `--across-machines` to compare them anyway";
    fails(dir.path(), &["compare", "a.jsonl", "b.jsonl"], 1, message);
    done(dir.path(), &["compare", "a.jsonl", "b.jsonl", "--across-machines"]);
}

#[test]
fn calibrations_of_unlike_workloads_have_nothing_to_compare() {
    let dir = tempfile::tempdir().unwrap();
    let (mut old, mut new) = (calibration(1.0), calibration(1.0));
    old.rows.truncate(5);
    new.rows.drain(..5);
    old.write(&dir.path().join("a.jsonl")).unwrap();
    new.write(&dir.path().join("b.jsonl")).unwrap();
    let message = "the calibrations have no rows in common\n  hint: compare sweeps of the same workloads";
    fails(dir.path(), &["compare", "a.jsonl", "b.jsonl"], 3, message);
}
