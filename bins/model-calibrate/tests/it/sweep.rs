//! `flopgap calibrate sweep`, on this machine's cores.

use std::collections::HashSet;
use std::fs::{self, OpenOptions};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use flopgap_calibration::Calibration;
use flopgap_calibration::run::{RunPlan, calibration_path};
use flopgap_flops::{Activation, Precision};
use flopgap_graph::{MlpSpec, Workload, to_onnx};

/// So few rows, and each so shortly, that a test can wait for them.
const SHORT: [&str; 9] =
    ["--device", "cpu", "--quick", "--rows", "12", "--row-limit", "5ms", "--repeats", "2"];

fn sweep(run: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_model-calibrate"));
    command.arg("sweep").args(arguments).arg("--output").arg(run);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn expect(output: &Output, code: i32) -> String {
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{error}");
    error
}

fn lines(path: &Path) -> usize {
    fs::read_to_string(path).map_or(0, |text| text.lines().count())
}

/// Each planned row was measured as often as it is planned.
fn assert_complete(run: &Path) {
    let plan = RunPlan::read(run).unwrap();
    let calibration = Calibration::read(&calibration_path(run)).unwrap();
    assert!(!calibration.torn);
    assert_eq!(calibration.rows.len(), plan.rows.len());
    assert_eq!(plan.outstanding(&calibration.rows), [0; 0]);
}

#[test]
fn a_sweep_measures_its_plan() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let output = sweep(&run, &SHORT).output().unwrap();
    let error = expect(&output, 0);
    assert!(error.contains("12 rows in "), "{error}");
    assert!(error.contains("next: flopgap calibrate fit "), "{error}");
    let table = text(&output.stdout);
    assert!(table.contains("native") && table.contains("gemm"), "{table}");
    assert_complete(&run);

    let calibration = Calibration::read(&calibration_path(&run)).unwrap();
    let keys: HashSet<_> = calibration.rows.iter().map(flopgap_calibration::Row::key).collect();
    assert_eq!(keys.len(), 10, "two rows are measured twice");
    assert!(!calibration.header.references.is_empty());
    for row in &calibration.rows {
        assert!(row.threads > 0);
        let check = row.measurement.check.as_ref().unwrap();
        assert!(check.error <= check.bound, "{check:?}");
    }

    let error = expect(&sweep(&run, &SHORT).output().unwrap(), 1);
    assert!(error.contains("already holds a sweep") && error.contains("hint: `--resume` continues a sweep"));
    // Nothing is left to do.
    let error = expect(&sweep(&run, &["--resume"]).output().unwrap(), 0);
    assert!(error.contains("12 of 12 rows are done"), "{error}");
    let error = expect(&sweep(&run, &["--resume", "--batch", "3"]).output().unwrap(), 2);
    assert!(error.contains("not `--batch 3`"), "{error}");
}

#[test]
fn a_killed_sweep_is_resumed_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let path = calibration_path(&run);
    let mut child = sweep(&run, &SHORT).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begin = Instant::now();
    // The header and three rows.
    while lines(&path) < 4 && begin.elapsed() < Duration::from_mins(2) {
        thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success(), "it was over before it was killed");

    // As if it had been killed within the last row.
    let whole = lines(&path);
    assert!((4..13).contains(&whole), "{whole}");
    let length = fs::metadata(&path).unwrap().len();
    OpenOptions::new().write(true).open(&path).unwrap().set_len(length - 10).unwrap();
    let before = fs::read_to_string(&path).unwrap();
    let kept: Vec<&str> = before.lines().take(whole - 1).collect();

    let error = expect(&sweep(&run, &["--resume"]).output().unwrap(), 0);
    assert!(error.contains("the last row is incomplete and is measured again"), "{error}");
    assert!(error.contains(&format!("{} of 12 rows are done", kept.len() - 1)), "{error}");
    assert_complete(&run);
    let after = fs::read_to_string(&path).unwrap();
    assert_eq!(after.lines().take(kept.len()).collect::<Vec<_>>(), kept, "measured rows are not touched");
}

#[test]
fn two_sweeps_do_not_fill_one_run() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    expect(&sweep(&run, &[&SHORT[..], &["--limit", "1ms"]].concat()).output().unwrap(), 0);
    let lock = OpenOptions::new().write(true).open(run.join("locks/1-of-1.lock")).unwrap();
    lock.lock().unwrap();
    let error = expect(&sweep(&run, &["--resume"]).output().unwrap(), 1);
    assert!(error.contains("run: process ") && error.contains(" is filling it"), "{error}");
}

#[test]
fn a_limit_stops_a_sweep_and_says_how_to_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let stopped = [&SHORT[..], &["--limit", "1ms"]].concat();
    let error = expect(&sweep(&run, &stopped).output().unwrap(), 0);
    assert!(error.contains("the limit was reached with 12 rows left"), "{error}");
    assert!(error.contains("--resume --output"), "{error}");
    expect(&sweep(&run, &["--resume", "--rows", "12"]).output().unwrap(), 0);
    assert_complete(&run);
}

#[test]
fn rows_of_another_machine_are_not_mixed_in() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    expect(&sweep(&run, &[&SHORT[..], &["--limit", "1ms"]].concat()).output().unwrap(), 0);
    let path = calibration_path(&run);
    let header = fs::read_to_string(&path).unwrap();
    let elsewhere = header.replacen("\"device\":\"", "\"device\":\"another ", 1);
    assert_ne!(elsewhere, header);
    fs::write(&path, elsewhere).unwrap();
    let error = expect(&sweep(&run, &["--resume"]).output().unwrap(), 1);
    assert!(
        error.contains("measured on another machine or with other software: the device is `another "),
        "{error}"
    );
}

#[test]
fn what_cannot_be_measured_is_said_before_a_folder_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let cases: [(&[&str], i32, &str); 6] = [
        (&["--device", "cpu", "--family", "conv"], 3, "nothing to measure: conv: "),
        (&["--device", "cpu", "--scenario", "L1_fit", "--batch", "100000"], 3, "L1_fit is empty: "),
        (&["--device", "cpu", "--engine", "tpu"], 2, "unknown engine `tpu`"),
        (&["--device", "cpu", "--engine", "native,native"], 2, "`native` is given twice"),
        (&["--device", "cpu", "--scenario", "L4_fit"], 2, "unknown scenario `L4_fit`"),
        (&["--resume"], 3, "no sweep to resume"),
    ];
    for (arguments, code, message) in cases {
        let error = expect(&sweep(&run, arguments).output().unwrap(), code);
        assert!(error.contains(message), "{error}");
        assert!(!run.exists(), "{arguments:?}");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_model-calibrate"));
    let error = expect(&command.args(["sweep", "--resume"]).output().unwrap(), 2);
    assert!(error.contains("--resume needs --output"), "{error}");
}

#[test]
fn a_model_from_a_file_is_measured_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let (run, file) = (dir.path().join("run"), dir.path().join("small.onnx"));
    let mlp = MlpSpec { input: 32, hidden: vec![64], output: 10, batch: 4, activation: Activation::Relu };
    let workload = Workload::Mlp(mlp);
    let onnx = to_onnx(&workload.graph().unwrap(), Precision::Fp32, 1).unwrap();
    fs::write(&file, onnx).unwrap();
    let model = ["--device", "cpu", "--row-limit", "5ms", "--model", file.to_str().unwrap()];
    let output = sweep(&run, &model).output().unwrap();
    if output.status.code() == Some(3) {
        let error = text(&output.stderr);
        assert!(error.contains("pip install onnxruntime"), "{error}");
        assert!(!run.exists());
        flopgap_testing::skip("onnxruntime", error);
        return;
    }
    expect(&output, 0);
    let rows = Calibration::read(&calibration_path(&run)).unwrap().rows;
    let Workload::File(spec) = &rows[0].workload else { panic!("{:?}", rows[0].workload) };
    assert_eq!((rows.len(), spec.name.as_str(), spec.batch), (1, "small", 4));
    assert_eq!(spec.steps, workload.steps().unwrap());
    // The file is found again from the plan.
    let error = expect(&sweep(&run, &["--resume"]).output().unwrap(), 0);
    assert!(error.contains("1 of 1 rows are done"), "{error}");

    let native = [&model[..], &["--engine", "native"]].concat();
    let error = expect(&sweep(&dir.path().join("other"), &native).output().unwrap(), 3);
    assert!(error.contains("without small on native: "), "{error}");
}

/// What `estimate --widths` estimates can be measured: networks by their widths, at each batch.
#[test]
fn networks_are_measured_by_their_widths() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let widths = ["--device", "cpu", "--row-limit", "5ms", "--repeats", "0", "--widths", "32,64,10"];
    let more = ["--widths", "16,8", "--batch", "1,4"];
    expect(&sweep(&run, &[&widths[..], &more].concat()).output().unwrap(), 0);
    let rows = Calibration::read(&calibration_path(&run)).unwrap().rows;
    let mut labels: Vec<String> = rows.iter().map(|row| row.workload.label()).collect();
    labels.sort();
    let of = |batch: u64| [format!("mlp 16-8 batch {batch}"), format!("mlp 32-64-10 batch {batch}")];
    let [a, b] = of(1);
    let [c, d] = of(4);
    assert_eq!(labels, [a, c, b, d]);
}

#[test]
fn a_dry_run_measures_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let output = sweep(&run, &["--device", "cpu", "--quick", "--dry-run"]).output().unwrap();
    expect(&output, 0);
    assert!(text(&output.stdout).starts_with("150 rows\n"), "{}", text(&output.stdout));
    assert!(!run.exists());
}
