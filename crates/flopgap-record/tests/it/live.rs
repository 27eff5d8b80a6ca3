//! A program that runs is recorded when somebody asks for it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flopgap_record::{Options, export_between, switch, wait_for_records, wait_for_switch};

use crate::program::Recorded;

/// Programs look at the switch ten times a second; this machine may be busy.
const AT_MOST: Duration = Duration::from_secs(20);

#[test]
fn recording_is_switched_on_and_off_while_a_program_runs() {
    let mut options = Options::default();
    options.starts_on = false;
    let recorded = Recorded::new(options);
    let directory = recorded.session.directory();
    let mut program =
        recorded.program(&["wait", "10"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = program.stdin.take().unwrap();
    let mut output = BufReader::new(program.stdout.take().unwrap());
    let mut work = || {
        input.write_all(b"work\n").unwrap();
        output.read_line(&mut String::new()).unwrap();
    };
    let switched = |on: bool| {
        switch(directory, on).unwrap();
        assert!(wait_for_switch(directory, on, AT_MOST).unwrap());
    };
    work();
    switched(true);
    work();
    switched(false);
    work();
    assert!(wait_for_records(directory, AT_MOST).unwrap());
    // While it runs: the export has what was recorded.
    let (exported, _) = recorded.export();
    // A range without kernels would be a step in which the GPU does nothing.
    assert_eq!((exported.kernels, exported.calls, exported.ranges), (20, 20, 10));
    assert_eq!(exported.losses, []);
    drop(input);
    assert!(program.wait().unwrap().success());
}

/// Work before a range of the name is not recorded, work of two such ranges is, and what comes a
/// second after them is not.
#[test]
fn a_range_is_recorded_alone() {
    for name in ["even", "ev*"] {
        let mut options = Options::default();
        options.range = Some(name.to_owned());
        let recorded = Recorded::new(options);
        // One kernel, then ranges `odd`, `even`, `odd`, `even`, `odd`, a second, and `odd`.
        assert!(recorded.program(&["around"]).status().unwrap().success());
        let (exported, rows) = recorded.export();
        assert_eq!((exported.kernels, exported.calls), (8, 8), "{name}");
        let texts = "SELECT text FROM NVTX_EVENTS WHERE eventType = 59 ORDER BY start";
        assert_eq!(rows.of::<String>(texts), ["even", "odd", "even", "odd"], "{name}");
        assert_eq!(exported.losses, [], "{name}");
    }
}

#[test]
fn a_range_that_never_begins_records_nothing() {
    let mut options = Options::default();
    options.range = Some("eve".to_owned());
    let recorded = Recorded::new(options);
    assert!(recorded.program(&["launch", "10"]).status().unwrap().success());
    let (exported, _) = recorded.export();
    assert_eq!((exported.kernels, exported.ranges), (0, 0));
}

/// Two blocks of one process, each with what began in it.
#[test]
fn an_export_has_what_began_within_its_times() {
    let mut options = Options::default();
    options.starts_on = false;
    let recorded = Recorded::new(options);
    let directory = recorded.session.directory();
    let mut program =
        recorded.program(&["wait", "10"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = program.stdin.take().unwrap();
    let mut output = BufReader::new(program.stdout.take().unwrap());
    let mut work = || {
        input.write_all(b"work\n").unwrap();
        output.read_line(&mut String::new()).unwrap();
    };
    let switched = |on: bool| {
        switch(directory, on).unwrap();
        assert!(wait_for_switch(directory, on, AT_MOST).unwrap());
    };
    let mut block = |times: usize, name: &str| {
        // Also the first block begins in a program that works.
        work();
        switched(true);
        let begin = now();
        (0..times).for_each(|_| work());
        let end = now();
        switched(false);
        assert!(wait_for_records(directory, AT_MOST).unwrap());
        export_between(directory, &recorded.folder.path().join(name), begin..end).unwrap()
    };
    let (first, second) = (block(1, "1.sqlite"), block(3, "2.sqlite"));
    assert_eq!((first.kernels, first.calls, first.ranges), (20, 20, 10));
    assert_eq!((second.kernels, second.calls, second.ranges), (60, 60, 30));
    drop(input);
    program.wait().unwrap();
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_nanos()).unwrap()
}
