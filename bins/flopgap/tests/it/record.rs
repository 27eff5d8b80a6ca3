//! `flopgap record`, with a program on a CUPTI that needs no GPU.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use flopgap_testing::Ended;

use crate::command;

/// An example of `flopgap-record`, beside the tests.
fn fake(name: &str) -> String {
    let test = std::env::current_exe().unwrap();
    let built: PathBuf = test.parent().and_then(Path::parent).unwrap().join("examples").join(name);
    assert!(built.exists(), "{}: `cargo test` of the workspace builds it", built.display());
    built.into_os_string().into_string().unwrap()
}

fn record(place: &Path, words: &[&str]) -> Command {
    let mut command = command(&[&["record"], words].concat());
    command.current_dir(place).env("FLOPGAP_RECORD_CUPTI", fake("libfake_cupti.so"));
    command
}

fn entries(place: &Path) -> Vec<String> {
    let names = std::fs::read_dir(place).unwrap().map(|entry| entry.unwrap().file_name());
    names.map(|name| name.into_string().unwrap()).collect()
}

#[test]
fn a_program_is_recorded_and_its_step_taken_apart() {
    let place = tempfile::tempdir().unwrap();
    let run = Ended::of(&mut record(
        place.path(),
        &["-o", "x.sqlite", "--", &fake("fake_program"), "launch", "30"],
    ));
    run.expect(
        0,
        &[
            "x.sqlite: 1 process, 60 kernels, 0 copies and sets, 60 API calls, 30 ranges and marks",
            "the same as `flopgap nsys gap x.sqlite`",
        ],
    )
    .prints(&["on NVIDIA Fake", "busy"]);
    assert_eq!(entries(place.path()), ["x.sqlite"]);
    let stats =
        Ended::of(command(&["nsys", "stats", "-r", "cuda_gpu_kern_sum"]).arg(place.path().join("x.sqlite")));
    stats.expect(0, &[]).prints(&["foo(float *)"]);
}

#[test]
fn what_the_program_ends_with_is_passed_on() {
    let place = tempfile::tempdir().unwrap();
    let failed = Ended::of(&mut record(place.path(), &["-q", "--", &fake("fake_program"), "at-once", "5"]));
    failed.expect(
        1,
        &["1 process, 10 kernels", "no launch that is here lacks its kernel", "ended with exit status: 3"],
    );
    let gap = Ended::of(command(&["gap"]).arg(place.path().join("flopgap.sqlite")));
    gap.expect(0, &["flopgap record reported (warning): process"]);
    let missing = Ended::of(&mut record(place.path(), &["--", "./no-such-program"]));
    missing.expect(1, &["./no-such-program: cannot be run: No such file"]);
    assert_eq!(entries(place.path()), ["flopgap.sqlite"]);
    let nothing = Ended::of(&mut record(place.path(), &["-o", "none.sqlite", "--", "true"]));
    nothing.expect(3, &["no program that uses CUDA or NVTX was recorded"]);
    assert_eq!(entries(place.path()), ["flopgap.sqlite"]);
    let none = Ended::of(&mut record(
        place.path(),
        &["-q", "--range", "evening", "--", &fake("fake_program"), "launch", "5"],
    ));
    none.expect(0, &["no kernel was launched while a range evening was open"]);
    let range = Ended::of(&mut record(
        place.path(),
        &["-q", "--range", "ev*", "--", &fake("fake_program"), "launch", "5"],
    ));
    range.expect(0, &["1 process, 10 kernels"]);
    record(place.path(), &[]).output().map(|output| assert_eq!(output.status.code(), Some(2))).unwrap();
}

#[test]
fn a_running_program_is_recorded_when_it_is_asked_for() {
    let place = tempfile::tempdir().unwrap();
    let variables = Ended::of(&mut record(place.path(), &["--env"]));
    variables.expect(0, &[]).prints(&["export CUDA_INJECTION64_PATH=", "export FLOPGAP_RECORD="]);
    let mut program = Command::new("sh");
    program.arg("-c").arg(format!("eval \"$VARIABLES\"; exec {} wait 10", fake("fake_program")));
    program.env("VARIABLES", &variables.stdout).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut program = program.spawn().unwrap();
    let mut input = program.stdin.take().unwrap();
    let mut output = BufReader::new(program.stdout.take().unwrap());
    let mut work = || {
        input.write_all(b"work\n").unwrap();
        output.read_line(&mut String::new()).unwrap();
    };
    work();
    // By the number of the process, and by the directory.
    Ended::of(&mut record(place.path(), &["start", &program.id().to_string()])).expect(0, &[]);
    std::thread::sleep(Duration::from_millis(1500));
    work();
    let stopped =
        Ended::of(&mut record(place.path(), &["stop", "flopgap-recording", "-q", "-o", "live.sqlite"]));
    stopped.expect(0, &["live.sqlite: 1 process, 20 kernels"]);
    drop(input);
    program.wait().unwrap();
    let own = std::process::id().to_string();
    let refused = Ended::of(&mut record(place.path(), &["start", &own]));
    refused.expect(3, &["was not started with the variables of flopgap record --env"]);
}

#[test]
fn a_signal_ends_the_program_and_the_recording_is_written() {
    let place = tempfile::tempdir().unwrap();
    let mut recorder = record(place.path(), &["-q", "--", &fake("fake_program"), "forever"]);
    let mut recorder = recorder.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    // Until the program has opened its recording.
    let begun = Instant::now();
    let is_recorded = || {
        let folders = entries(place.path()).into_iter().filter(|name| name.contains(".recording-"));
        folders
            .flat_map(|name| entries(&place.path().join(name)))
            .any(|name| Path::new(&name).extension().is_some_and(|it| it == "fgr"))
    };
    while !is_recorded() && begun.elapsed() < Duration::from_mins(1) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let id = recorder.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    assert_eq!(recorder.wait().unwrap().code(), Some(1));
    assert!(place.path().join("flopgap.sqlite").exists());
}

#[test]
fn steps_are_counted_of_a_range_that_is_named() {
    let place = tempfile::tempdir().unwrap();
    let refused = Ended::of(&mut record(place.path(), &["--flops", "steps", "--", "true"]));
    refused.expect(2, &["--flops steps counts ranges of NVTX as steps", "--range 'step*'"]);
    assert!(entries(place.path()).iter().all(|entry| !entry.ends_with(".sqlite")));
    // Without a word it counts kernels, for which the GPU has to be there; with `off` nothing is.
    let off = Ended::of(&mut record(
        place.path(),
        &["-q", "--flops", "off", "--", &fake("fake_program"), "launch", "3"],
    ));
    off.expect(0, &["1 process, 6 kernels"]);
}
