//! `flopgap calibrate sweep`, on this machine's cores.

use std::collections::HashSet;
use std::fs::{self, OpenOptions};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use flopgap_calibration::Calibration;
use flopgap_calibration::run::{RunPlan, calibration_path};
use flopgap_flops::{Activation, Precision};
use flopgap_graph::{MlpSpec, Workload, to_onnx};
use flopgap_testing::Ended;

use crate::support::{SHORT, lines, sweep, swept};

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
    let (_dir, [run]) = flopgap_testing::paths(["run"]);
    let error = swept(&run, &SHORT);
    error.expect(0, &["12 rows in ", "next: flopgap calibrate fit "]).prints(&["native", "gemm"]);
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

    swept(&run, &SHORT).expect(1, &["already holds a sweep", "hint: `--resume` continues a sweep"]);
    // Nothing is left to do.
    swept(&run, &["--resume"]).expect(0, &["12 of 12 rows are done"]);
    swept(&run, &["--resume", "--batch", "3"]).expect(2, &["not `--batch 3`"]);
}

#[test]
fn a_killed_sweep_is_resumed_where_it_was() {
    let (_dir, [run]) = flopgap_testing::paths(["run"]);
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

    swept(&run, &["--resume"]).expect(
        0,
        &[
            "the last row is incomplete and is measured again",
            &format!("{} of 12 rows are done", kept.len() - 1),
        ],
    );
    assert_complete(&run);
    let after = fs::read_to_string(&path).unwrap();
    assert_eq!(after.lines().take(kept.len()).collect::<Vec<_>>(), kept, "measured rows are not touched");
}

#[test]
fn two_sweeps_do_not_fill_one_run() {
    let (_dir, [run]) = flopgap_testing::paths(["run"]);
    swept(&run, &[&SHORT[..], &["--limit", "1ms"]].concat()).expect(0, &[]);
    let lock = OpenOptions::new().write(true).open(run.join("locks/1-of-1.lock")).unwrap();
    lock.lock().unwrap();
    swept(&run, &["--resume"]).expect(1, &["run: process ", " is filling it"]);
}

#[test]
fn a_limit_stops_a_sweep_and_says_how_to_go_on() {
    let (_dir, [run]) = flopgap_testing::paths(["run"]);
    let stopped = [&SHORT[..], &["--limit", "1ms"]].concat();
    swept(&run, &stopped).expect(0, &["the limit was reached with 12 rows left", "--resume --output"]);
    swept(&run, &["--resume", "--rows", "12"]).expect(0, &[]);
    assert_complete(&run);
}

#[test]
fn rows_of_another_machine_are_not_mixed_in() {
    let (_dir, [run]) = flopgap_testing::paths(["run"]);
    swept(&run, &[&SHORT[..], &["--limit", "1ms"]].concat()).expect(0, &[]);
    let path = calibration_path(&run);
    let header = fs::read_to_string(&path).unwrap();
    let elsewhere = header.replacen("\"device\":\"", "\"device\":\"another ", 1);
    assert_ne!(elsewhere, header);
    fs::write(&path, elsewhere).unwrap();
    swept(&run, &["--resume"])
        .expect(1, &["measured on another machine or with other software: the device is `another "]);
}

#[test]
fn what_cannot_be_measured_is_said_before_a_folder_is_made() {
    let (_dir, [run]) = flopgap_testing::paths(["run"]);
    let cases: [(&[&str], i32, &str); 6] = [
        (&["--device", "cpu", "--family", "conv"], 3, "nothing to measure: conv: "),
        (&["--device", "cpu", "--scenario", "L1_fit", "--batch", "100000"], 3, "L1_fit is empty: "),
        (&["--device", "cpu", "--engine", "tpu"], 2, "unknown engine `tpu`"),
        (&["--device", "cpu", "--engine", "native,native"], 2, "`native` is given twice"),
        (&["--device", "cpu", "--scenario", "L4_fit"], 2, "unknown scenario `L4_fit`"),
        (&["--resume"], 3, "no sweep to resume"),
    ];
    for (arguments, code, message) in cases {
        swept(&run, arguments).expect(code, &[message]);
        assert!(!run.exists(), "{arguments:?}");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_model-calibrate"));
    Ended::of(command.args(["sweep", "--resume"])).expect(2, &["--resume needs --output"]);
}

#[test]
fn a_model_from_a_file_is_measured_as_it_is() {
    let (dir, [run, file]) = flopgap_testing::paths(["run", "small.onnx"]);
    let mlp = MlpSpec { input: 32, hidden: vec![64], output: 10, batch: 4, activation: Activation::Relu };
    let workload = Workload::Mlp(mlp);
    let onnx = to_onnx(&workload.graph().unwrap(), Precision::Fp32, 1).unwrap();
    fs::write(&file, onnx).unwrap();
    let model = ["--device", "cpu", "--row-limit", "5ms", "--model", file.to_str().unwrap()];
    let output = swept(&run, &model);
    if output.code == 3 {
        output.says(&["pip install onnxruntime"]);
        assert!(!run.exists());
        flopgap_testing::skip("onnxruntime", output.stderr);
        return;
    }
    output.expect(0, &[]);
    let rows = Calibration::read(&calibration_path(&run)).unwrap().rows;
    let Workload::File(spec) = &rows[0].workload else { panic!("{:?}", rows[0].workload) };
    assert_eq!((rows.len(), spec.name.as_str(), spec.batch), (1, "small", 4));
    assert_eq!(spec.steps, workload.steps().unwrap());
    // The file is found again from the plan.
    swept(&run, &["--resume"]).expect(0, &["1 of 1 rows are done"]);

    let native = [&model[..], &["--engine", "native"]].concat();
    swept(&dir.path().join("other"), &native).expect(3, &["without small on native: "]);
}

/// What `estimate --widths` estimates can be measured: networks by their widths, at each batch.
#[test]
fn networks_are_measured_by_their_widths() {
    let (_dir, [run]) = flopgap_testing::paths(["run"]);
    let widths = ["--device", "cpu", "--row-limit", "5ms", "--repeats", "0", "--widths", "32,64,10"];
    let more = ["--widths", "16,8", "--batch", "1,4"];
    swept(&run, &[&widths[..], &more].concat()).expect(0, &[]);
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
    let (_dir, [run]) = flopgap_testing::paths(["run"]);
    let output = swept(&run, &["--device", "cpu", "--quick", "--dry-run"]);
    assert_eq!(output.code, 0);
    assert!(output.stdout.starts_with("150 rows\n"), "{}", output.stdout);
    assert!(!run.exists());
}
