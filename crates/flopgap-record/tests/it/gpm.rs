//! Samples of NVML's GPM stand beside a recording whose kernels could not be counted.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use flopgap_record::{Cause, Counters, GpmSample, Options, counting_failed, write_gpm};

use crate::program::{Recorded, Rows};

fn counting() -> Recorded {
    let mut options = Options::default();
    let groups = vec![vec!["dram__bytes_read.sum".to_owned()]];
    options.counters = Some(Counters { chip: "GH100".to_owned(), groups, ..Counters::default() });
    Recorded::new(options)
}

fn now() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap()
}

/// A program that works whenever it reads a line.
struct Working {
    program: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Working {
    fn start(recorded: &Recorded, fault: &str) -> Working {
        let mut program = recorded.program(&["wait-pattern", "10"]);
        let program = program.env("FAKE_FAULT", fault).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut program = program.spawn().unwrap();
        let lines = BufReader::new(program.stdout.take().unwrap());
        Working { program, lines }
    }

    fn work(&mut self) {
        self.program.stdin.as_mut().unwrap().write_all(b"work\n").unwrap();
        self.lines.read_line(&mut String::new()).unwrap();
    }

    /// Works until counting has failed and it is recorded.
    fn work_until_recorded(&mut self, recorded: &Recorded) {
        let begun = Instant::now();
        while !counting_failed(recorded.session.directory()).unwrap() {
            assert!(begun.elapsed() < Duration::from_mins(1), "nothing is recorded");
            self.work();
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn end(mut self) {
        drop(self.program.stdin.take());
        assert!(self.program.wait().unwrap().success());
    }
}

/// The UUID of the GPU as the export has it.
fn uuid(rows: &Rows) -> String {
    rows.of::<String>("SELECT uuid FROM TARGET_INFO_GPU").pop().unwrap()
}

#[test]
fn samples_are_rows_at_the_times_of_the_recording() {
    // The number of the fake GPU, from a recording of it.
    let gpu = uuid(&crate::program::run(&["launch", "1"], &[]).1);
    let recorded = counting();
    let mut working = Working::start(&recorded, "privileges");
    working.work_until_recorded(&recorded);
    working.work();
    let (start, directory) = (now(), recorded.session.directory().to_owned());
    let nvml = format!("GPU-{gpu}");
    let of = |start: u64, metric, percent| GpmSample {
        start,
        end: start + 100_000_000,
        gpu: &nvml,
        metric,
        percent,
    };
    let first = [of(start, "ANY_TENSOR_UTIL", 75.0), of(start, "DRAM_BW_UTIL", 12.25)];
    write_gpm(&directory, &first).unwrap();
    // Another GPU of the machine, which no process of the recording uses.
    let other = GpmSample { gpu: "GPU-00000000-0000-0000-0000-0000000000aa", ..of(start, "SM_UTIL", 1.0) };
    write_gpm(&directory, &[other, of(start + 100_000_000, "ANY_TENSOR_UTIL", 0.5)]).unwrap();
    let mut file = std::fs::OpenOptions::new().append(true).open(directory.join("gpm")).unwrap();
    file.write_all(b"no sample\n17 18").unwrap();
    working.end();
    assert!(!counting_failed(&directory).unwrap(), "nothing runs any more");

    let (exported, rows) = recorded.export();
    assert!(exported.kernels > 0 && exported.counted == 0, "{exported:?}");
    let losses: Vec<_> = exported.losses.iter().map(|loss| (loss.pid, loss.cause, loss.count)).collect();
    assert_eq!(losses, [(0, Cause::Samples, 2)]);
    let problems = rows.problems().join("\n");
    assert!(problems.contains(": 2 lines of GPM samples cannot be read and are left out"), "{problems}");
    assert!(problems.contains("kernels are not counted: a fake error"), "{problems}");
    let origin = rows.of::<i64>("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME")[0];
    let at = i64::try_from(start).unwrap() - origin;
    let next = at + 100_000_000;
    let all =
        "SELECT start || ' ' || end || ' ' || deviceId || ' ' || metric || ' ' || value FROM FLOPGAP_GPM";
    let expected = [
        format!("{at} {next} 0 ANY_TENSOR_UTIL 75.0"),
        format!("{at} {next} 0 DRAM_BW_UTIL 12.25"),
        format!("{next} {} 0 ANY_TENSOR_UTIL 0.5", next + 100_000_000),
    ];
    assert_eq!(rows.of::<String>(all), expected);
    assert_eq!(rows.of::<i64>("SELECT count FROM FLOPGAP_LOSS WHERE cause = 'samples'"), [2]);
}

#[test]
fn counters_that_count_have_the_gpu_for_themselves() {
    let recorded = counting();
    let directory = recorded.session.directory();
    assert!(!counting_failed(directory).unwrap(), "nothing runs yet");
    // One that cannot count, while another one counts.
    let mut failing = Working::start(&recorded, "privileges");
    failing.work_until_recorded(&recorded);
    let mut counts = Working::start(&recorded, "none");
    counts.work();
    assert!(!counting_failed(directory).unwrap());
    counts.end();
    assert!(counting_failed(directory).unwrap());
    // A process that has launched nothing does not count.
    let idle = Working::start(&recorded, "none");
    let begun = Instant::now();
    while std::fs::read_dir(directory).unwrap().filter(|file| is_recording(file.as_ref().unwrap())).count()
        < 3
    {
        assert!(begun.elapsed() < Duration::from_mins(1), "the program does not start");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(counting_failed(directory).unwrap());
    idle.end();
    failing.end();
    let (_, rows) = recorded.export();
    assert!(rows.of::<String>("SELECT name FROM sqlite_master WHERE name = 'FLOPGAP_GPM'").is_empty());
}

fn is_recording(file: &std::fs::DirEntry) -> bool {
    file.path().extension().is_some_and(|extension| extension == "fgr")
}
