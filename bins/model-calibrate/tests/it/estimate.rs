//! `flopgap calibrate estimate`.

use std::path::{Path, PathBuf};

use flopgap_flops::{Activation, Precision};
use flopgap_graph::op::Gemm;
use flopgap_graph::{MlpSpec, Op, Step, Workload, to_onnx};
use serde_json::Value;

use crate::support::{calibration, done, fails};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models").join(name)
}

const MLP: [&str; 2] = ["--widths", "784,256,128,10"];

#[test]
fn an_estimate_has_an_interval_and_all_layers() {
    let dir = tempfile::tempdir().unwrap();
    calibration(1.0).write(&dir.path().join("h200.jsonl")).unwrap();
    let how = ["estimate", "--calibration", "h200.jsonl", "--precision", "fp16", "--batch", "32"];
    let table = done(dir.path(), &[&how[..], &MLP].concat());
    assert!(
        table.stdout.starts_with("mlp 784-256-128-10 batch 32 on NVIDIA H200, cuda, fp16, in a CUDA graph\n"),
        "{}",
        table.stdout
    );
    let json = done(dir.path(), &[&how[..], &MLP, &["--format", "json"]].concat());
    let estimate = json.json();
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
    table.prints(&[expected]);
    let json = done(dir.path(), &[&how[..], &MLP, &["--sizes-alone", "--format", "json"]].concat());
    let estimate = json.json();
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
    assert_eq!(first.stdout, without.stdout);
    assert_eq!(files().len(), 2, "what the file has, and the predictor");
    assert_eq!(done(dir.path(), &arguments).stdout, first.stdout);
    for file in files() {
        let bytes = std::fs::read(&file).unwrap();
        std::fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    }
    assert_eq!(done(dir.path(), &arguments).stdout, first.stdout);
    assert_eq!(done(dir.path(), &arguments).stdout, first.stdout);
    // Another file of the same name is another calibration, and a missing one is missing.
    calibration(2.0).write(&dir.path().join("h200.jsonl")).unwrap();
    let time = |text: &str| serde_json::from_str::<Value>(text).unwrap()["time_ms"].as_f64().unwrap();
    let slower = done(dir.path(), &arguments);
    assert!(
        (time(&slower.stdout) / time(&first.stdout) - 2.0).abs() < 0.2,
        "{} {}",
        slower.stdout,
        first.stdout
    );
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
    let estimate = json.json();
    let measured = calibration.rows[calibration.rows.len() - 2].measurement.time.median_ns / 1e6;
    assert_eq!(estimate["measured"], Value::Bool(true));
    assert!((estimate["time_ms"].as_f64().unwrap() / measured - 1.0).abs() < 1e-9, "{estimate}");
}

#[test]
fn sizes_beyond_the_measured_range_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    calibration(1.0).write(&dir.path().join("h200.jsonl")).unwrap();
    let mlp = ["--widths", "65536,65536,65536", "--batch", "65536"];
    done(dir.path(), &[&["estimate", "--calibration", "h200.jsonl"][..], &mlp].concat())
        .says(&["warning: some sizes are outside the measured range"])
        .prints(&["extrapolated"]);
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
    crate::support::run(dir.path(), &[&from[..], &zero].concat()).expect(1, &[]);
}

/// Products alone were measured: of an LSTM, the fully connected layer is known.
#[test]
fn what_was_never_measured_is_not_estimated() {
    let dir = tempfile::tempdir().unwrap();
    calibration(1.0).write(&dir.path().join("h200.jsonl")).unwrap();
    let lstm = fixture("lstm.pt2");
    let how = ["estimate", "--calibration", "h200.jsonl", lstm.to_str().unwrap()];
    let ended = done(dir.path(), &how);
    let reason = "recurrent layer (LSTM) was never measured";
    ended.says(&[&format!("warning: the model is not estimated: {reason}\n")]);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines[0], "lstm.pt2 on NVIDIA H200, cuda, fp32 like the model, in a CUDA graph");
    assert_eq!(lines[2], format!("time    not estimated: {reason}"));
    assert!(lines[3].starts_with("others  ") && lines[3].ends_with(", 1 of 3 steps"), "{}", lines[3]);
    assert_eq!(lines[4..6], ["memory  not estimated", "energy  not estimated"]);
    let json = done(dir.path(), &[&how[..], &["--format", "json"]].concat());
    let estimate = json.json();
    for key in ["time_ms", "time_low_ms", "time_high_ms", "memory_mb", "energy_j"] {
        assert!(estimate[key].is_null(), "{key}: {estimate}");
    }
    assert_eq!(estimate["not_estimated"], serde_json::json!([reason]));
    let layers = estimate["layers"].as_array().unwrap();
    let known = |layer: &Value| (layer["time_ms"].is_number(), layer["source"].is_string());
    assert_eq!(layers.iter().map(known).collect::<Vec<_>>(), [(false, false), (false, false), (true, true)]);
    // Of a transformer, none but its products.
    let bert = fixture("bert.pt2");
    let how = ["estimate", "--calibration", "h200.jsonl", bert.to_str().unwrap(), "--format", "json"];
    let estimate = done(dir.path(), &how).json();
    assert!(estimate["time_ms"].is_null());
    let reason = estimate["not_estimated"][0].as_str().unwrap();
    assert!(reason.contains("attention") && reason.ends_with(" were never measured"), "{reason}");
}

/// Four products with operands of their own, where only single ones were measured.
/// Nothing of what reads where data points is in the time of a model, whatever runs it.
/// A mixture of experts: what routes tokens has no formula, and no table has grouped products.
#[test]
fn a_model_with_an_operator_without_a_formula_is_not_estimated() {
    let dir = tempfile::tempdir().unwrap();
    let model = fixture("dynamic/mixture.pt2");
    let how = ["estimate", model.to_str().unwrap(), "--machine", "h100", "--format", "json"];
    let estimated = |way: &str| {
        let json = done(dir.path(), &[&how[..], &["--as", way]].concat());
        (serde_json::from_str::<Value>(&json.stdout).unwrap(), json.stderr)
    };
    // PyTorch's own calls were measured, but for a loop over the experts; compiled ones, and
    // those of engines, were not.
    for (way, parts) in [
        ("graph", &["grouped products in a loop"][..]),
        ("eager", &["grouped products in a loop"]),
        ("compile", &["topk", "sort", "histc", "grouped product"]),
        ("compile-graph", &["topk", "sort", "histc", "grouped product"]),
        ("own", &["topk", "sort", "histc", "grouped product"]),
    ] {
        let (estimate, err) = estimated(way);
        assert_eq!(estimate["time_ms"], Value::Null, "{way}");
        let reason = estimate["not_estimated"].to_string();
        assert!(parts.iter().all(|part| reason.contains(part)), "{way}: {reason}");
        assert_eq!(reason.contains("topk"), parts.len() > 1, "{way}: {reason}");
        assert!(err.contains("is not estimated"), "{way}: {err}");
    }
    let all = done(dir.path(), &["estimate", how[1], "--machine", "all", "--format", "json"]);
    let found = all.json();
    assert!(found["rows"].as_array().unwrap().iter().all(|machine| machine["time_ms"].is_null()), "{found}");
    // Where there is an H200, its own engine says why, in a line of its own.
    all.says(&["the model is not estimated on NVIDIA H200", "NVIDIA A100-SXM4-80GB, ", "topk"]);
}

/// What is in no step is said with its time, and the parts add up to the whole.
#[test]
fn calls_without_a_formula_are_estimated_beside_the_steps() {
    let dir = tempfile::tempdir().unwrap();
    let model = fixture("dynamic/orders.pt2");
    let how = ["estimate", model.to_str().unwrap(), "--machine", "h200", "--as", "graph"];
    let text = done(dir.path(), &how).stdout;
    let json = done(dir.path(), &[&how[..], &["--format", "json"]].concat()).stdout;
    let estimate: Value = serde_json::from_str(&json).unwrap();
    let steps: f64 =
        estimate["layers"].as_array().unwrap().iter().filter_map(|layer| layer["time_ms"].as_f64()).sum();
    let (count, rest) = {
        let line = text.lines().find(|line| line.contains("without a formula")).unwrap();
        let found = line.split("; ").last().unwrap();
        let time = found.split(" take ").last().unwrap().split(' ').next().unwrap();
        (found.split(' ').next().unwrap().parse::<usize>().unwrap(), time.parse::<f64>().unwrap())
    };
    assert_eq!(count, estimate["unknown"].as_array().unwrap().len());
    let whole = estimate["time_ms"].as_f64().unwrap();
    // Between kernels the GPU waits for 0.5 µs, and a replay takes 7 µs.
    assert!((0.0..0.1).contains(&(whole - steps - 1e-3 * rest)), "{whole}, {steps}, {rest}");
}

#[test]
fn bags_are_not_estimated_and_samples_where_they_were_measured() {
    let cells = fixture("dynamic/cells.pt2");
    let cells = cells.to_str().unwrap();
    for (machine, run_as) in [("h100", "eager"), ("h200", "own")] {
        let how = ["estimate", cells, "--machine", machine, "--as", run_as, "--format", "json"];
        let estimate = done(Path::new("."), &how).json();
        assert_eq!(estimate["time_ms"], Value::Null, "{estimate}");
        let reason = estimate["not_estimated"].to_string();
        // The second is what the engine of a GPU says, where there is one.
        let is_said = ["never measured", "no kernel supports this operation"];
        assert!(is_said.iter().any(|it| reason.contains(it)), "{reason}");
        assert!(reason.contains("embedding bag"), "{reason}");
        assert_eq!(reason.contains("grid sample"), run_as == "own", "{reason}");
    }
}

#[test]
fn another_kind_is_from_its_floor() {
    let dir = tempfile::tempdir().unwrap();
    calibration(1.0).write(&dir.path().join("h200.jsonl")).unwrap();
    let step = Step::plain(Op::Gemm(Gemm { batch: 4, m: 512, n: 512, k: 512 }));
    let onnx = to_onnx(&Workload::Step(step).graph().unwrap(), Precision::Fp16, 1).unwrap();
    std::fs::write(dir.path().join("four.onnx"), onnx).unwrap();
    let how = ["estimate", "--calibration", "h200.jsonl", "four.onnx"];
    let ended = done(dir.path(), &how);
    let floor = "batched product was not measured in fp16 as graph: between 1 and 10 times the floor";
    ended
        .says(&[&format!("warning: {floor}\n")])
        .prints(&[&format!("floor   {floor}\n"), "floor, 1 to 10 times"]);
    let json = done(dir.path(), &[&how[..], &["--format", "json"]].concat());
    let estimate = json.json();
    let number = |key: &str| estimate[key].as_f64().unwrap() * 1e6;
    // A launch of nothing takes 500 ns; the rest at the best rate of any row, which is at most the
    // peak of the formula.
    let work = 2.0 * 4.0 * 512f64.powi(3) / 400e3;
    let low = number("time_low_ms");
    assert!(low > 500.0 + work && low < 500.0 + 1.5 * work, "{low} {work}");
    assert!((number("time_high_ms") / low - 10.0).abs() < 1e-6);
    assert!((number("time_ms") / low - 10f64.sqrt()).abs() < 1e-6);
    assert_eq!(estimate["from_floor"], serde_json::json!(["batched product"]));
}

#[test]
fn the_precision_is_that_of_the_model_unless_another_is_requested() {
    let dir = tempfile::tempdir().unwrap();
    calibration(1.0).write(&dir.path().join("h200.jsonl")).unwrap();
    let spec =
        MlpSpec { input: 784, hidden: vec![256, 128], output: 10, batch: 4, activation: Activation::Relu };
    let graph = Workload::Mlp(spec).graph().unwrap();
    for precision in [Precision::Fp32, Precision::Fp16, Precision::Int8] {
        let onnx = to_onnx(&graph, precision, 1).unwrap();
        std::fs::write(dir.path().join(format!("{precision}.onnx")), onnx).unwrap();
    }
    let how = ["estimate", "--calibration", "h200.jsonl", "--format"];
    let time = |more: &[&str]| {
        let json = done(dir.path(), &[&how[..], &["json"], more].concat());
        serde_json::from_str::<Value>(&json.stdout).unwrap()["time_ms"].as_f64().unwrap()
    };
    let mlp = ["--widths", "784,256,128,10", "--batch", "4", "--precision"];
    for (name, precision) in [("fp32.onnx", "fp32"), ("fp16.onnx", "fp16")] {
        assert_eq!(time(&[name]).to_bits(), time(&[&mlp[..], &[precision]].concat()).to_bits(), "{name}");
    }
    let first = |more: &[&str]| {
        let ended = done(dir.path(), &[&how[..], &["table"], more].concat());
        ended.stdout.lines().next().unwrap().to_owned()
    };
    let on = "on NVIDIA H200, cuda,";
    assert_eq!(first(&["fp16.onnx"]), format!("fp16.onnx {on} fp16 like the model, in a CUDA graph"));
    assert_eq!(
        first(&["fp16.onnx", "--precision", "fp32"]),
        format!("fp16.onnx {on} fp32 (the model: fp16), in a CUDA graph")
    );
    let from = ["estimate", "--calibration", "h200.jsonl"];
    let message = "the calibration of NVIDIA H200 has no row in int8\n  hint: it has cuda (fp16, fp32)\n  \
                   hint: `--precision PRECISION` estimates the model in another one";
    fails(dir.path(), &[&from[..], &["int8.onnx"]].concat(), 3, message);
}

#[test]
fn a_model_that_does_not_fit_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let mut small = calibration(1.0);
    small.header.origin.properties.insert("memory_bytes".to_owned(), "1000000".to_owned());
    small.write(&dir.path().join("small.jsonl")).unwrap();
    let how = ["estimate", "--calibration", "small.jsonl", "--precision", "fp16", "--format"];
    for (widths, fits) in [("4096,4096,4096", false), ("64,64,64", true)] {
        let json = done(dir.path(), &[&how[..], &["json", "--widths", widths]].concat());
        let estimate = json.json();
        assert_eq!(estimate["fits"], Value::Bool(fits), "{estimate}");
        let ended = done(dir.path(), &[&how[..], &["table", "--widths", widths]].concat());
        let said = " do not fit in the 1.00 MB of NVIDIA H200\n";
        assert_eq!(
            (ended.stdout.contains(said), ended.stderr.contains(said)),
            (!fits, !fits),
            "{}",
            ended.stdout
        );
        // All parameters, 4,096 rows and columns and biases of two layers, are 67 MB.
        let megabytes = estimate["memory_mb"].as_f64().unwrap();
        assert_eq!(megabytes > 67.0, !fits, "{megabytes}");
    }
}

#[test]
fn a_model_of_operators_without_formulas_names_them() {
    let dir = tempfile::tempdir().unwrap();
    calibration(1.0).write(&dir.path().join("h200.jsonl")).unwrap();
    let tall = fixture("dynamic/causal_tall.pt2");
    let message = "causal_tall.pt2: nothing to estimate: no formula for \
                   aten.scaled_dot_product_attention.default `scaled_dot_product_attention` [2, 3, 9, 8]";
    let how = ["estimate", "--calibration", "h200.jsonl", tall.to_str().unwrap()];
    fails(dir.path(), &how, 1, message);
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
    crate::support::run(dir.path(), &[&from[..], &MLP].concat()).expect(
        1,
        &[
            "cpu.jsonl: measured on another machine: the device is `Difference Engine` there and `",
            "estimate for the other with --machine \"Difference Engine\"",
        ],
    );
    done(dir.path(), &[&from[..], &MLP, &["--machine", "Difference Engine"]].concat());
}

#[test]
fn a_model_from_a_file_is_what_it_is_without_one() {
    let dir = tempfile::tempdir().unwrap();
    calibration(1.0).write(&dir.path().join("h200.jsonl")).unwrap();
    let spec =
        MlpSpec { input: 784, hidden: vec![256, 128], output: 10, batch: 4, activation: Activation::Relu };
    let onnx = to_onnx(&Workload::Mlp(spec).graph().unwrap(), Precision::Fp32, 1).unwrap();
    std::fs::write(dir.path().join("mlp.onnx"), onnx).unwrap();
    let how = ["estimate", "--calibration", "h200.jsonl", "--format", "json"];
    let of = |model: &[&str]| -> Value { done(dir.path(), &[&how[..], model].concat()).json() };
    let (file, sizes) = (of(&["mlp.onnx"]), of(&[&MLP[..], &["--batch", "4"]].concat()));
    for key in ["time_ms", "time_low_ms", "time_high_ms", "flops", "memory_mb", "energy_j"] {
        assert_eq!(file[key], sizes[key], "{key}");
    }
    crate::support::run(dir.path(), &[&how[..], &["missing.onnx"]].concat()).expect(3, &[]);
    crate::support::run(dir.path(), &[&how[..], &["mlp.onnx"], &MLP].concat()).expect(2, &[]);
}

#[test]
fn machines_that_are_built_in_answer_anywhere() {
    let dir = tempfile::tempdir().unwrap();
    let mlp = ["--widths", "900,768,384,24", "--batch", "48"];
    for (device, precision) in [("h200", "fp16"), ("xeon-ort", "fp32"), ("xeon-native", "fp32")] {
        let how = ["estimate", "--machine", device, "--precision", precision, "--format", "json"];
        let ended = done(dir.path(), &[&how[..], &mlp].concat());
        let estimate = ended.json();
        let number =
            |key: &str| estimate[key].as_f64().unwrap_or_else(|| panic!("{device} {key}: {estimate}"));
        assert_eq!(estimate["measured"], Value::Bool(false), "{device}");
        assert!(number("time_low_ms") < number("time_ms") && number("time_ms") < number("time_high_ms"));
        assert!(number("memory_mb") > 1.0, "{device}: parameters alone are more");
        assert_eq!(estimate["layers"].as_array().map(Vec::len), Some(3), "{device}");
    }
    let unknown = [&["estimate", "--machine", "abacus"][..], &mlp].concat();
    crate::support::run(dir.path(), &unknown).expect(3, &["h200, xeon-ort, xeon-native"]);
}

#[test]
fn pytorch_runs_a_model_as_it_is_asked() {
    let dir = tempfile::tempdir().unwrap();
    let resnet = fixture("resnet18.pt2").display().to_string();
    let json = |arguments: &[&str]| -> Value {
        let asked = [&["estimate", &resnet, "--format", "json"], arguments].concat();
        done(dir.path(), &asked).json()
    };
    let number = |of: &Value, key: &str| of[key].as_f64().unwrap_or_else(|| panic!("{key}: {of}"));
    for machine in ["h100", "h200"] {
        let eager = json(&["--machine", machine]);
        assert_eq!((&eager["as"], &eager["mode"]), (&Value::from("eager"), &Value::from("stream")));
        let longer = number(&eager, "gpu_ms").max(number(&eager, "host_ms"));
        assert!((number(&eager, "time_ms") - longer).abs() < 1e-9);
        let graph = json(&["--machine", machine, "--as", "graph"]);
        let compiled = json(&["--machine", machine, "--as", "compile"]);
        let replayed = json(&["--machine", machine, "--as", "compile-graph"]);
        assert_eq!((&compiled["as"], &replayed["as"]), (&"compile".into(), &"compile-graph".into()));
        let longer = number(&compiled, "gpu_ms").max(number(&compiled, "host_ms"));
        assert!((number(&compiled, "time_ms") - longer).abs() < 1e-9);
        assert!((number(&compiled, "gpu_ms") - number(&replayed, "time_ms")).abs() < 1e-9);
        assert!(replayed["host_ms"].is_null());
        // The layers in one kernel share its time, so that the sum is that of all kernels.
        let sum: f64 =
            replayed["layers"].as_array().unwrap().iter().map(|layer| number(layer, "time_ms")).sum();
        assert!(sum < number(&replayed, "time_ms"));
        assert_eq!((&graph["as"], &graph["mode"]), (&Value::from("graph"), &Value::from("graph")));
        assert!(graph["host_ms"].is_null() && graph["memory_mb"].is_null());
        assert!((number(&graph, "time_ms") - number(&eager, "gpu_ms")).abs() < 1e-9);
        assert!(number(&graph, "time_low_ms") < number(&graph, "time_ms"));
        assert!(number(&graph, "time_ms") < number(&graph, "time_high_ms"));
        // Nothing is fused: 20 convolutions and norms, 17 activations, 8 sums, 2 pools, a product.
        assert_eq!(graph["layers"].as_array().unwrap().len(), 68);
        // By default, convolutions are on tensor cores, and only the last layer is not.
        let time = |precision| {
            number(&json(&["--machine", machine, "--as", "graph", "--precision", precision]), "time_ms")
        };
        let [fp32, tf32] = ["fp32", "tf32"].map(time);
        let default = number(&graph, "time_ms");
        assert!((default / tf32 - 1.0).abs() < 0.02 && default < 0.7 * fp32, "{tf32} {default} {fp32}");
    }
    // In 16 bits, what only moves bytes moves half as many.
    let layer = |of: &Value, step: &str| -> Value {
        let layers = of["layers"].as_array().unwrap();
        layers.iter().find(|layer| layer["step"].as_str().unwrap().starts_with(step)).unwrap().clone()
    };
    let [fp32, fp16] = ["fp32", "fp16"].map(|precision| {
        layer(&json(&["--machine", "h100", "--as", "graph", "--precision", precision]), "relu ")
    });
    assert_eq!(fp32["bytes"].as_u64().unwrap(), 2 * fp16["bytes"].as_u64().unwrap());
    assert!(number(&fp16, "time_ms") < number(&fp32, "time_ms"));
    let own = json(&["--machine", "h200", "--as", "own"]);
    assert_eq!((&own["as"], &own["engine"]), (&Value::from("own"), &Value::from("cuda")));
    assert!(own["gpu_ms"].is_null());
    // What asks for a mode of the engine asks for the engine.
    assert_eq!(json(&["--machine", "h200", "--mode", "graph"])["as"], "own");
    // Nor was PyTorch measured in 8 bits.
    assert_eq!(json(&["--machine", "h200", "--precision", "int8"])["as"], "own");
    // ONNX is not PyTorch's, unless it is asked for.
    let onnx = fixture("resnet18.onnx").display().to_string();
    let text = done(dir.path(), &["estimate", &onnx, "--machine", "h200"]).stdout;
    assert!(text.starts_with("resnet18.onnx on NVIDIA H200, cuda, "), "{text}");

    let text = done(dir.path(), &["estimate", &resnet, "--machine", "h100"]).stdout;
    let mut lines = text.lines();
    let first = "resnet18.pt2 on NVIDIA H100 80GB HBM3, PyTorch 2.11.0, cuDNN 9.19, fp32 like the model, \
        convolutions in tf32, eager";
    assert_eq!(lines.next(), Some(first));
    let host = text.lines().find(|line| line.starts_with("host    ")).unwrap();
    assert!(host.ends_with("; the longer of both is the time"), "{host}");

    for (arguments, code, message) in [
        (
            &["--machine", "a100", "--as", "eager"][..],
            3,
            "PyTorch was not measured on this machine\n  hint: `--machine` of PyTorch: h100, h200; `--as own` estimates for others",
        ),
        (
            &["--machine", "h100", "--as", "graph", "--mode", "graph"],
            2,
            "--mode, --engine, --threads, --sizes-alone and --ceilings are for --as own\n  hint: omit them, or pass `--as own`",
        ),
        (
            &["--machine", "h100", "--as", "graph", "--precision", "int8"],
            3,
            "PyTorch was not measured in int8\n  hint: `--precision` of PyTorch: fp32, tf32, fp16 or bf16; `--as own` has others",
        ),
    ] {
        fails(dir.path(), &[&["estimate", &resnet], arguments].concat(), code, message);
    }
    let message = "resnet18.onnx: PyTorch is estimated from what torch.export wrote\n  hint: export the model with \
        torch.export.save, or pass `--as own`";
    fails(dir.path(), &["estimate", &onnx, "--machine", "h100", "--as", "graph"], 2, message);
}

#[test]
fn pytorch_trains_a_model() {
    let dir = tempfile::tempdir().unwrap();
    let resnet = fixture("resnet18.pt2").display().to_string();
    let json = |arguments: &[&str]| -> Value {
        let asked = [&["estimate", &resnet, "--format", "json", "--machine"], arguments].concat();
        done(dir.path(), &asked).json()
    };
    let number = |of: &Value, key: &str| of[key].as_f64().unwrap_or_else(|| panic!("{key}: {of}"));
    for machine in ["h100", "h200"] {
        let inference = json(&[machine, "--as", "graph"]);
        assert!(inference["training"].is_null());
        let graph = json(&[machine, "--train", "--as", "graph"]);
        let eager = json(&[machine, "--train"]);
        assert_eq!((&graph["as"], &eager["as"]), (&Value::from("graph"), &Value::from("eager")));
        let part = |key: &str| number(&graph["training"], key);
        let parts = part("forward_ms") + part("backward_ms") + part("optimizer_ms");
        // What a replay costs besides is in the whole alone.
        let rest = number(&graph, "time_ms") - parts;
        assert!((0.0..0.1).contains(&rest), "{graph}");
        assert!(part("backward_ms") > part("forward_ms"));
        assert!(number(&graph, "time_low_ms") < number(&graph, "time_ms"));
        assert!(number(&graph, "time_ms") < number(&graph, "time_high_ms"));
        let longer = number(&eager, "gpu_ms").max(number(&eager, "host_ms"));
        assert!((number(&eager, "time_ms") - longer).abs() < 1e-9);
        assert!((number(&eager, "gpu_ms") - number(&graph, "time_ms")).abs() < 1e-9);
        // Times of layers are forward and backward; the optimizer is in none of them.
        let layers = graph["layers"].as_array().unwrap();
        assert_eq!(layers.len(), 68);
        let sum: f64 = layers.iter().map(|layer| number(layer, "time_ms")).sum();
        assert!(sum < part("forward_ms") + part("backward_ms"), "nodes lie between kernels");
        // Activations are not counted, so that it may fit or not.
        assert!(graph["fits"].is_null() && graph["memory_mb"].is_null());
        // Norms take their statistics from the batch.
        assert!(graph["flops"].as_u64() > inference["flops"].as_u64());
    }
    let text =
        done(dir.path(), &["estimate", &resnet, "--machine", "h100", "--train", "--as", "graph"]).stdout;
    assert!(text.lines().next().unwrap().ends_with(", in a CUDA graph, a training step"), "{text}");
    let parts = text.lines().find(|line| line.starts_with("parts   forward ")).unwrap();
    assert!(parts.contains(", backward ") && parts.contains(", AdamW (fused) "), "{parts}");

    let onnx = fixture("resnet18.onnx").display().to_string();
    for (model, arguments, code, message) in [
        (
            &resnet,
            &["--machine", "h100", "--as", "own"][..],
            2,
            "--train is for --as eager and graph: others were not measured\n  hint: omit `--as own`",
        ),
        (
            &resnet,
            &["--machine", "a100"],
            3,
            "PyTorch was not measured on this machine\n  hint: `--machine` of PyTorch: h100, h200",
        ),
        (
            &onnx,
            &["--machine", "h100"],
            2,
            "resnet18.onnx: PyTorch is estimated from what torch.export wrote\n  hint: export the model with \
             torch.export.save",
        ),
    ] {
        fails(dir.path(), &[&["estimate", model, "--train"], arguments].concat(), code, message);
    }
    // Convolutions were measured as PyTorch computes them by default, in TF32.
    let fp32 = json(&["h100", "--train", "--precision", "fp32"]);
    assert!(fp32["time_ms"].is_null() && fp32["training"]["forward_ms"].is_null());
    let missing = fp32["not_estimated"].as_array().unwrap();
    assert!(missing.contains(&Value::from("convolutions of 2-D images were never measured")), "{missing:?}");
}
