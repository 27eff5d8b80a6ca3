//! What is missing is said, by cause.

use flopgap_record::{Cause, Options};

use crate::program::{LAUNCHES, Recorded, run};

fn losses(fault: &str) -> (u64, Vec<(Cause, u64)>, String) {
    let (exported, rows) = run(&["launch", "10"], &[("FAKE_FAULT", fault)]);
    let losses = exported.losses.iter().map(|loss| (loss.cause, loss.count)).collect();
    (exported.kernels, losses, rows.problems().join("\n"))
}

#[test]
fn dropped_records_are_counted() {
    let (kernels, losses, problems) = losses("dropped");
    assert_eq!(kernels, 20);
    // Three for every buffer.
    assert!(matches!(losses[..], [(Cause::Dropped, count)] if count >= 3 && count % 3 == 0), "{losses:?}");
    assert!(problems.contains("CUPTI dropped"), "{problems}");
}

#[test]
fn work_without_times_is_left_out_and_counted() {
    assert_eq!(losses("untimed").1, [(Cause::Untimed, 1)]);
    let (kernels, losses, problems) = losses("reversed");
    assert_eq!((kernels, losses), (19, vec![(Cause::Reversed, 1)]));
    assert!(problems.contains("1 records end before they begin"), "{problems}");
}

#[test]
fn a_program_that_another_profiler_records_runs_and_says_so() {
    let recorded = Recorded::new(Options::default());
    let output = recorded.program(&["launch", "5"]).env("FAKE_FAULT", "subscribed").output().unwrap();
    assert!(output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("another profiler records this process"), "{said}");
    let (exported, rows) = recorded.export();
    assert_eq!((exported.kernels, exported.ranges), (0, 5));
    assert!(rows.problems()[0].contains("another profiler"));
}

#[test]
fn without_cupti_ranges_are_recorded() {
    let recorded = Recorded::new(Options::default());
    let missing = recorded.folder.path().join("libcupti.so");
    let output = recorded.program(&["launch", "5"]).env("FLOPGAP_RECORD_CUPTI", missing).output().unwrap();
    assert!(output.status.success());
    let (exported, rows) = recorded.export();
    assert_eq!(exported.ranges, 5);
    assert!(rows.problems()[0].contains("CUPTI is not installed"));
}

#[test]
fn a_bound_keeps_the_newest_records() {
    let mut options = Options::default();
    options.max_size = Some(8 << 20);
    let recorded = Recorded::new(options);
    // 100 MB of records.
    assert!(recorded.program(&["launch", "200000"]).status().unwrap().success());
    let size: u64 = std::fs::read_dir(recorded.session.directory())
        .unwrap()
        .map(|file| file.unwrap())
        .filter(|file| file.path().extension().is_some_and(|it| it == "fgr"))
        .map(|file| file.metadata().unwrap().len())
        .sum();
    assert!(size <= 8 << 20, "{size}");
    let (exported, rows) = recorded.export();
    let launches = rows.of::<i64>(LAUNCHES);
    assert_eq!(launches.last(), Some(&400_000));
    let lost =
        |cause| exported.losses.iter().filter(|loss| loss.cause == cause).map(|loss| loss.count).sum::<u64>();
    // Kernels, calls and the device: all are there or counted.
    let device = rows.of::<i64>("SELECT count(*) FROM TARGET_INFO_GPU")[0].cast_unsigned();
    let there = exported.kernels + exported.calls + device;
    assert_eq!(there + lost(Cause::Overwritten) + lost(Cause::Dropped), 800_001, "{:?}", exported.losses);
}
