//! A program that is killed leaves all that had ended.

use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::Duration;

use flopgap_record::{Cause, Options};

use crate::program::{LAUNCHES, NAMES, Recorded};

fn started(recorded: &Recorded) -> Child {
    let program = recorded.program(&["forever"]).stdout(Stdio::null()).spawn().unwrap();
    recorded.wait_for_buffers();
    program
}

#[test]
fn a_kill_at_any_time_loses_nothing_that_was_written() {
    for round in 0..8_u64 {
        let recorded = Recorded::new(Options::default());
        let mut program = started(&recorded);
        sleep(Duration::from_micros(round * 7_919 % 50_000));
        program.kill().unwrap();
        program.wait().unwrap();
        let (exported, rows) = recorded.export();
        let launches = rows.of::<i64>(LAUNCHES);
        assert!(launches.len() > 100);
        // Without a gap.
        assert!(launches.iter().copied().eq(1..=i64::try_from(launches.len()).unwrap()));
        assert!(exported.kernels.abs_diff(exported.calls) <= 1, "{exported:?}");
        let causes: Vec<_> = exported.losses.iter().map(|loss| (loss.cause, loss.count)).collect();
        assert!(matches!(causes[..], [(Cause::Killed, 0 | 1)]), "{causes:?}");
        assert_eq!(rows.of::<String>(NAMES), ["bar", "foo(float *)"]);
    }
}

/// Work that runs when the program is killed has a record that is not finished.
#[test]
fn records_after_an_unfinished_one_are_read() {
    let recorded = Recorded::new(Options::default());
    let mut program = recorded.program(&["forever"]);
    program.env("FAKE_FAULT", "unfinished").env("FLOPGAP_RECORD_FLUSH_MS", "100000");
    let mut program = program.stdout(Stdio::null()).spawn().unwrap();
    recorded.wait_for_buffers();
    program.kill().unwrap();
    program.wait().unwrap();
    let (_, rows) = recorded.export();
    let launches = rows.of::<i64>(LAUNCHES);
    assert!(launches.len() > 1000 && launches.iter().copied().eq(1..=i64::try_from(launches.len()).unwrap()));
}

#[test]
fn a_process_that_ends_itself_at_once_loses_nothing_that_was_flushed() {
    let recorded = Recorded::new(Options::default());
    assert_eq!(recorded.program(&["at-once", "50"]).status().unwrap().code(), Some(3));
    let (exported, _) = recorded.export();
    assert_eq!((exported.kernels, exported.calls, exported.ranges), (100, 100, 50));
}
