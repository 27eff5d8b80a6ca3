//! Sweeps that several processes measure, and job arrays of them.

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use flopgap_calibration::Calibration;
use flopgap_calibration::run::{RunPlan, calibration_path};
use flopgap_testing::Ended;

use crate::support::{SHORT, lines, sweep, swept};

/// The run's own file has the rows of the plan, in its order, and nothing else.
#[track_caller]
fn assert_complete(run: &Path) {
    let plan = RunPlan::read(run).unwrap();
    let rows = Calibration::read(&calibration_path(run)).unwrap().rows;
    let planned: Vec<_> = plan.rows.iter().map(|row| (&row.engine, &row.point.workload)).collect();
    let measured: Vec<_> = rows.iter().map(|row| (&row.engine, &row.workload)).collect();
    assert_eq!(measured, planned);
}

/// How many rows of the plan are in a shard.
fn rows(run: &Path, shard: &str) -> usize {
    RunPlan::read(run).unwrap().part(shard.parse().unwrap()).len()
}

#[test]
fn shards_are_joined_in_the_order_of_the_plan() {
    let (_dir, [run]) = flopgap_testing::paths(["run"]);
    // Two at once, and one later with less to say.
    let child = |shard| {
        let mut command = sweep(&run, &[&SHORT[..], &["--shard", shard]].concat());
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let both = ["1/3", "2/3"].map(child);
    for (shard, child) in ["1/3", "2/3"].into_iter().zip(both) {
        let error = Ended::new("sweep --shard".to_owned(), child.wait_with_output().unwrap());
        assert_eq!(error.code, 0);
        let measured = format!("{} rows in ", rows(&run, shard));
        let next = format!(
            "next: when all shards are measured, flopgap calibrate sweep --resume --output {}",
            run.display()
        );
        error.says(&[&measured, &next]);
    }
    // Nobody joins the rows while a shard is measured.
    let lock = OpenOptions::new().write(true).open(run.join("locks/2-of-3.lock")).unwrap();
    lock.lock().unwrap();
    swept(&run, &["--resume"]).expect(1, &["run: process ", " is filling it"]);
    drop(lock);

    // The whole measures what is missing of the third.
    let error = swept(&run, &["--resume"]);
    assert_eq!(error.code, 0);
    let third = rows(&run, "3/3");
    let done = format!("{} of 12 rows are done", 12 - third);
    error.says(&[&done, &format!("{third} rows in ")]);
    assert_complete(&run);
    let before = fs::read(calibration_path(&run)).unwrap();
    // A plan is shown and nothing is measured, of a shard, too.
    let shown = swept(&run, &[&SHORT[..], &["--dry-run", "--shard", "1/3"]].concat());
    assert_eq!(shown.code, 0);
    assert!(shown.stdout.starts_with("12 rows\n"));
    // A shard that comes late finds nothing to do, and joining again changes nothing.
    swept(&run, &["--resume", "--shard", "3/3"])
        .expect(0, &[&format!("{third} of {third} rows of shard 3/3 are done")]);
    swept(&run, &["--resume"]).expect(0, &["12 of 12 rows are done"]);
    assert!(fs::read(calibration_path(&run)).unwrap() == before);

    let other = ["--shard", "1/3", "--device", "cpu", "--batch", "3"];
    swept(&run, &other).expect(2, &["not `--batch 3`"]);
}

#[test]
fn a_shard_that_is_stopped_or_killed_continues() {
    let (_dir, [run]) = flopgap_testing::paths(["run"]);
    let file = run.join("shards/1-of-2.jsonl");
    let shard = ["--device", "cpu", "--quick", "--rows", "40", "--row-limit", "20ms", "--shard", "1/2"];
    let start = || sweep(&run, &shard).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let wait_for = |count: usize| {
        let begin = Instant::now();
        while lines(&file) < count {
            assert!(begin.elapsed() < Duration::from_mins(2), "{} lines", lines(&file));
            thread::sleep(Duration::from_millis(2));
        }
    };
    let child = start();
    wait_for(3);
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    let error = Ended::new("sweep --shard".to_owned(), child.wait_with_output().unwrap());
    assert_eq!(error.code, 1);
    let all = rows(&run, "1/2");
    let left = all - (lines(&file) - 1);
    error.says(&[
        &format!("error: stopped by SIGTERM with {left} rows left"),
        &format!("--resume --output {} --shard 1/2` continues", run.display()),
    ]);

    let mut child = start();
    wait_for(6);
    child.kill().unwrap();
    child.wait().unwrap();
    // As if it had been killed within the last row.
    let length = fs::metadata(&file).unwrap().len();
    OpenOptions::new().write(true).open(&file).unwrap().set_len(length - 10).unwrap();
    let kept = lines(&file) - 2;
    Ended::new("sweep --shard".to_owned(), start().wait_with_output().unwrap()).expect(
        0,
        &[
            "the last row is incomplete and is measured again",
            &format!("{kept} of {all} rows of shard 1/2 are done"),
        ],
    );
    assert_eq!(Calibration::read(&file).unwrap().rows.len(), all);
}
