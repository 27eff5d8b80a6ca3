//! `flopgap calibrate estimate`.

use serde_json::Value;

use crate::support::{calibration, done, fails};

const MLP: [&str; 2] = ["--widths", "784,256,128,10"];

#[test]
fn an_estimate_has_an_interval_and_all_layers() {
    let dir = tempfile::tempdir().unwrap();
    calibration(1.0).write(&dir.path().join("h200.jsonl")).unwrap();
    let how = ["estimate", "--calibration", "h200.jsonl", "--precision", "fp16", "--batch", "32"];
    let table = done(dir.path(), &[&how[..], &MLP].concat());
    assert!(
        table.out.starts_with("mlp 784-256-128-10 batch 32 on NVIDIA H200, cuda, fp16, in a CUDA graph\n"),
        "{}",
        table.out
    );
    let json = done(dir.path(), &[&how[..], &MLP, &["--format", "json"]].concat());
    let estimate: Value = serde_json::from_str(&json.out).unwrap();
    let number = |key: &str| estimate[key].as_f64().unwrap_or_else(|| panic!("{key}: {estimate}"));
    assert!(number("time_low_ms") < number("time_ms") && number("time_ms") < number("time_high_ms"));
    // Three steps of half a microsecond and a little: the formula that the rows were made by.
    assert!((number("time_ms") - 0.0016).abs() < 0.0003, "{estimate}");
    assert!((number("energy_j") / (400.0 * number("time_ms") / 1e3) - 1.0).abs() < 0.05, "{estimate}");
    assert!(number("memory_mb") > 0.4, "{estimate}");
    let layers = estimate["layers"].as_array().unwrap();
    assert_eq!(layers.len(), 3);
    let flops: u64 = layers.iter().map(|layer| layer["flops"].as_u64().unwrap()).sum();
    assert_eq!(estimate["flops"].as_u64(), Some(flops));
    let products = 2 * 32 * (784 * 256 + 256 * 128 + 128 * 10);
    assert!(flops >= products && flops < products + 32 * 3 * (256 + 128 + 10), "{flops}");
}

#[test]
fn what_is_known_of_kernels_is_said() {
    let dir = tempfile::tempdir().unwrap();
    calibration(1.0).write(&dir.path().join("h200.jsonl")).unwrap();
    let how = ["estimate", "--calibration", "h200.jsonl", "--precision", "fp16", "--batch", "32"];
    let table = done(dir.path(), &[&how[..], &MLP].concat());
    let expected = "kernels not asked, sizes alone: the calibration does not have enough rows with kernels\n";
    assert!(table.out.contains(expected), "{}", table.out);
    let json = done(dir.path(), &[&how[..], &MLP, &["--sizes-alone", "--format", "json"]].concat());
    let estimate: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(estimate["kernels_asked"], Value::Bool(false));
    assert_eq!(estimate["kernels"], "not asked, sizes alone: as requested by --sizes-alone");
}

#[test]
fn a_fit_is_kept_and_a_damaged_one_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    calibration(1.0).write(&dir.path().join("h200.jsonl")).unwrap();
    let how = ["estimate", "--calibration", "h200.jsonl", "--precision", "fp16", "--format", "json"];
    let arguments = [&how[..], &MLP].concat();
    let fits = dir.path().join(".cache/flopgap/fits");
    let files = || -> Vec<std::path::PathBuf> {
        let found = std::fs::read_dir(&fits).into_iter().flatten();
        found.map(|file| file.unwrap().path()).collect()
    };
    let without = done(dir.path(), &[&arguments[..], &["--no-cache"]].concat());
    assert!(files().is_empty(), "--no-cache keeps nothing");
    let first = done(dir.path(), &arguments);
    assert_eq!(first.out, without.out);
    assert_eq!(files().len(), 2, "what the file has, and the predictor");
    assert_eq!(done(dir.path(), &arguments).out, first.out);
    for file in files() {
        let bytes = std::fs::read(&file).unwrap();
        std::fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    }
    assert_eq!(done(dir.path(), &arguments).out, first.out);
    assert_eq!(done(dir.path(), &arguments).out, first.out);
    // Another file of the same name is another calibration, and a missing one is missing.
    calibration(2.0).write(&dir.path().join("h200.jsonl")).unwrap();
    let time = |text: &str| serde_json::from_str::<Value>(text).unwrap()["time_ms"].as_f64().unwrap();
    let slower = done(dir.path(), &arguments);
    assert!((time(&slower.out) / time(&first.out) - 2.0).abs() < 0.2, "{} {}", slower.out, first.out);
    std::fs::remove_file(dir.path().join("h200.jsonl")).unwrap();
    let code = crate::support::run(dir.path(), &arguments).code;
    assert_eq!(code, 3);
}

#[test]
fn what_was_measured_comes_back_as_measured() {
    let dir = tempfile::tempdir().unwrap();
    let calibration = calibration(1.0);
    calibration.write(&dir.path().join("h200.jsonl")).unwrap();
    let mlp = ["--widths", "784,512,512,10", "--batch", "8"];
    let how = ["estimate", "--calibration", "h200.jsonl", "--precision", "fp16", "--format", "json"];
    let json = done(dir.path(), &[&how[..], &mlp].concat());
    let estimate: Value = serde_json::from_str(&json.out).unwrap();
    let measured = calibration.rows[calibration.rows.len() - 2].measurement.time.median_ns / 1e6;
    assert_eq!(estimate["measured"], Value::Bool(true));
    assert!((estimate["time_ms"].as_f64().unwrap() / measured - 1.0).abs() < 1e-9, "{estimate}");
}

#[test]
fn sizes_beyond_the_measured_range_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    calibration(1.0).write(&dir.path().join("h200.jsonl")).unwrap();
    let mlp = ["--widths", "65536,65536,65536", "--batch", "65536"];
    let ended = done(dir.path(), &[&["estimate", "--calibration", "h200.jsonl"][..], &mlp].concat());
    assert!(ended.err.contains("warning: some sizes are outside the measured range"), "{}", ended.err);
    assert!(ended.out.contains("extrapolated"), "{}", ended.out);
}

#[test]
fn what_cannot_be_estimated_is_said() {
    let dir = tempfile::tempdir().unwrap();
    calibration(1.0).write(&dir.path().join("h200.jsonl")).unwrap();
    let from = ["estimate", "--calibration", "h200.jsonl"];
    let message = "the calibration of NVIDIA H200 has no row in int8\n  hint: it has cuda (fp16, fp32)";
    fails(dir.path(), &[&from[..], &MLP, &["--precision", "int8"]].concat(), 3, message);
    let message =
        "the calibration of NVIDIA H200 has no row in fp32 as stream\n  hint: it has cuda (fp16, fp32)";
    fails(dir.path(), &[&from[..], &MLP, &["--mode", "stream"]].concat(), 3, message);
    let message = "h200.jsonl: a calibration of NVIDIA H200, not of `l40s`\n  \
                   hint: omit `--machine`, or pass another file";
    fails(dir.path(), &[&from[..], &MLP, &["--machine", "l40s"]].concat(), 3, message);
    done(dir.path(), &[&from[..], &MLP, &["--machine", "h200"]].concat());
    let message = "no model to estimate\n  hint: pass MODEL.onnx, MODEL.pt2, or a network as --widths \
                   INPUTS,HIDDEN,HIDDEN,OUTPUTS";
    fails(dir.path(), &from, 2, message);
    let zero = ["--widths", "0,10"];
    let ended = crate::support::run(dir.path(), &[&from[..], &zero].concat());
    assert_eq!(ended.code, 1, "{}", ended.err);
}

#[test]
fn a_calibration_of_another_cpu_is_refused_unless_it_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut other = calibration(1.0);
    let origin = &mut other.header.origin;
    "Difference Engine".clone_into(&mut origin.device);
    "cpu".clone_into(&mut origin.kind);
    other.write(&dir.path().join("cpu.jsonl")).unwrap();
    let from = ["estimate", "--calibration", "cpu.jsonl"];
    let ended = crate::support::run(dir.path(), &[&from[..], &MLP].concat());
    assert_eq!(ended.code, 1);
    assert!(
        ended.err.contains(
            "cpu.jsonl: measured on another machine: the device is `Difference Engine` there and `"
        ) && ended.err.contains("estimate for the other with --machine \"Difference Engine\""),
        "{}",
        ended.err
    );
    done(dir.path(), &[&from[..], &MLP, &["--machine", "Difference Engine"]].concat());
}

#[test]
fn a_model_from_a_file_is_what_it_is_without_one() {
    use flopgap_flops::{Activation, Precision};
    use flopgap_graph::{MlpSpec, Workload, to_onnx};

    let dir = tempfile::tempdir().unwrap();
    calibration(1.0).write(&dir.path().join("h200.jsonl")).unwrap();
    let spec =
        MlpSpec { input: 784, hidden: vec![256, 128], output: 10, batch: 4, activation: Activation::Relu };
    let onnx = to_onnx(&Workload::Mlp(spec).graph().unwrap(), Precision::Fp32, 1).unwrap();
    std::fs::write(dir.path().join("mlp.onnx"), onnx).unwrap();
    let how = ["estimate", "--calibration", "h200.jsonl", "--format", "json"];
    let of = |model: &[&str]| -> Value {
        serde_json::from_str(&done(dir.path(), &[&how[..], model].concat()).out).unwrap()
    };
    let (file, sizes) = (of(&["mlp.onnx"]), of(&[&MLP[..], &["--batch", "4"]].concat()));
    for key in ["time_ms", "time_low_ms", "time_high_ms", "flops", "memory_mb", "energy_j"] {
        assert_eq!(file[key], sizes[key], "{key}");
    }
    let ended = crate::support::run(dir.path(), &[&how[..], &["missing.onnx"]].concat());
    assert_eq!(ended.code, 3, "{}", ended.err);
    let both = crate::support::run(dir.path(), &[&how[..], &["mlp.onnx"], &MLP].concat());
    assert_eq!(both.code, 2, "{}", both.err);
}

#[test]
fn machines_that_are_built_in_answer_anywhere() {
    let dir = tempfile::tempdir().unwrap();
    let mlp = ["--widths", "900,768,384,24", "--batch", "48"];
    for (device, precision) in [("h200", "fp16"), ("xeon-ort", "fp32"), ("xeon-native", "fp32")] {
        let how = ["estimate", "--machine", device, "--precision", precision, "--format", "json"];
        let ended = done(dir.path(), &[&how[..], &mlp].concat());
        let estimate: Value = serde_json::from_str(&ended.out).unwrap();
        let number =
            |key: &str| estimate[key].as_f64().unwrap_or_else(|| panic!("{device} {key}: {estimate}"));
        assert_eq!(estimate["measured"], Value::Bool(false), "{device}");
        assert!(number("time_low_ms") < number("time_ms") && number("time_ms") < number("time_high_ms"));
        assert!(number("memory_mb") > 1.0, "{device}: parameters alone are more");
        assert_eq!(estimate["layers"].as_array().map(Vec::len), Some(3), "{device}");
    }
    let unknown = [&["estimate", "--machine", "abacus"][..], &mlp].concat();
    let ended = crate::support::run(dir.path(), &unknown);
    assert_eq!(ended.code, 3, "{}", ended.err);
    assert!(ended.err.contains("h200, xeon-ort, xeon-native"), "{}", ended.err);
}
