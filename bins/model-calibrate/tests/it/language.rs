//! `flopgap calibrate estimate config.json`, and machines that others measured.

use std::path::Path;

use flopgap_calibration::Calibration;
use flopgap_flops::Precision;
use flopgap_graph::language::{Format, Kernel};
use flopgap_graph::op::NormFunction;
use flopgap_graph::{Mode, Op, Workload};
use flopgap_roofline::machines::{NAMES, named};
use serde_json::Value;

use crate::support::{done, fails};

fn config(name: &str) -> String {
    format!("{}/../../fixtures/language/{name}.json", env!("CARGO_MANIFEST_DIR"))
}

/// Where fits are kept for the next test.
fn here() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

fn json(arguments: &[&str]) -> Value {
    let arguments = [&["estimate"], arguments, &["--format", "json"]].concat();
    done(here(), &arguments).json()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

#[test]
fn prefill_and_decode_have_intervals_and_their_parts_add_up() {
    let config = config("llama-3-8b");
    let answer =
        json(&[&config, "--machine", "h100", "--batch", "4", "--prompt", "512", "--context", "2048"]);
    assert_eq!((&answer["format"], &answer["version"]), (&"flopgap-language-estimate".into(), &1.into()));
    assert_eq!(answer["parameters"], 8_030_261_248_u64);
    for (phase, tokens) in [("prefill", 4.0 * 512.0), ("decode", 4.0)] {
        let run = &answer[phase];
        let [time, low, high] = ["time_ms", "time_low_ms", "time_high_ms"].map(|key| number(&run[key]));
        assert!(low < time && time < high, "{run}");
        let parts = run["parts"].as_array().unwrap();
        let sum: f64 = parts.iter().map(|part| number(&part["time_ms"])).sum();
        assert!((sum / time - 1.0).abs() < 1e-9, "{run}");
        assert!((number(&run["tokens_per_second"]) / (tokens / time * 1e3) - 1.0).abs() < 1e-9);
        // Not faster than the peaks: 989 TFLOP/s, and all weights but the first matrix once.
        let weights = 2.0 * (8_030_261_248.0 - 128_256.0 * 4096.0);
        let floor = (number(&run["flops"]) / 989e12).max(weights / 3.35e12) * 1e3;
        assert!(time > floor && time < 4.0 * floor, "{time} ms, floor {floor} ms");
    }
    assert_eq!(answer["time_ms"], answer["decode"]["time_ms"]);
    let cache = 32 * 2 * 1024 * 2 * 2048 * 4;
    assert_eq!(
        (&answer["cache_bytes"], &answer["weights_bytes"]),
        (&cache.into(), &16_060_522_496_u64.into())
    );
    assert_eq!(answer["fits"], true);
    let curve = answer["curve"].as_array().unwrap();
    assert_eq!(curve[2]["time_ms"], answer["time_ms"]);
    assert!(number(&curve[9]["tokens_per_second"]) > 10.0 * number(&curve[0]["tokens_per_second"]));
}

#[test]
fn one_of_both_can_be_asked_for() {
    let config = config("gpt-oss-20b");
    let answer = json(&[&config, "--machine", "b200", "--prompt", "300"]);
    assert!(answer["decode"].is_null());
    assert_eq!(answer["time_ms"], answer["prefill"]["time_ms"]);
    assert_eq!((&answer["weights"], &answer["experts"]), (&"bf16".into(), &"mxfp4".into()));
    let answer = json(&[&config, "--machine", "b200", "--context", "300"]);
    assert!(answer["prefill"].is_null());
}

#[test]
fn what_does_not_fit_is_said_with_how_many_would() {
    let config = config("llama-3-8b");
    let arguments = ["estimate", &config, "--machine", "l40s", "--context", "131072", "--batch", "4"];
    let ended = done(here(), &arguments);
    let expected = "84.8 GB do not fit in the 48.3 GB of each NVIDIA L40S; 2 would be enough";
    ended.says(&[expected]).prints(&[expected]);
    let config = self::config("deepseek-v3");
    let answer = json(&[&config, "--machine", "l40s", "--context", "1024"]);
    assert_eq!((&answer["fits"], &answer["gpus_that_fit"]), (&false.into(), &Value::Null));
    let answer = json(&[&config, "--machine", "h200", "--context", "1024"]);
    assert_eq!(answer["gpus_that_fit"], 8);
}

#[test]
fn arithmetic_that_a_machine_lacks_is_not_estimated() {
    let config = config("deepseek-v3");
    let arguments = [&config, "--machine", "a100", "--tensor-parallel", "8"];
    let answer = json(&arguments);
    assert!(
        answer["time_ms"].is_null() && answer["time_low_ms"].is_null() && answer["time_high_ms"].is_null()
    );
    let why = "NVIDIA A100-SXM4-80GB has no arithmetic for products in fp8-block, experts in fp8-block";
    assert_eq!(answer["decode"]["not_estimated"], why);
    done(here(), &[&["estimate"], &arguments[..]].concat()).prints(&[&format!("not estimated: {why}")]);
}

#[test]
fn wrong_requests_are_refused() {
    let config = config("llama-3-8b");
    let machines = "h200, a100, h100, l40s, b200, gb200, gb300, rtx-pro-6000";
    let hint = format!("hint: language models are estimated for {machines}, all");
    let of = |more: &[&'static str]| [&["estimate", config.as_str()][..], more].concat();
    fails(here(), &of(&[]), 2, &format!("no machine to estimate for: pass --machine NAME\n  {hint}"));
    fails(here(), &of(&["--machine", "v100"]), 3, &format!("no table of `v100` is built in\n  {hint}"));
    let message = "language models are not estimated in fp32\n  \
        hint: `--precision` of language models: bf16, fp8, fp8-block, nvfp4, int4, mxfp4, mxfp4-fp8";
    fails(here(), &of(&["--machine", "h100", "--precision", "fp32"]), 3, message);
    let message = "32 heads of attention cannot be divided over 3 GPUs";
    fails(here(), &of(&["--machine", "h100", "--tensor-parallel", "3"]), 1, message);
    let widths = ["estimate", "--widths", "8,8", "--machine", "h100"];
    let message = "--prompt is for language models\n  hint: pass the config.json of a language model";
    fails(here(), &[&widths[..], &["--prompt", "8"]].concat(), 2, message);
    let message =
        "nvfp4 is for language models\n  hint: `--precision` of other models: fp32, tf32, fp16, bf16 or int8";
    fails(here(), &[&widths[..], &["--precision", "nvfp4"]].concat(), 2, message);
    let message =
        "other machines were measured in CUDA graphs only\n  hint: omit `--mode`, or pass `--mode graph`";
    fails(here(), &[&widths[..], &["--mode", "stream"]].concat(), 3, message);
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("config.json"), r#"{"model_type": "mamba", "architectures": []}"#)
        .unwrap();
    let message = "config.json: the architecture `mamba` is not known\n  hint: known: llama, mistral, mixtral, qwen2, \
        qwen2_moe, qwen3, qwen3_moe, gemma, gemma2, gemma3_text, gemma3, phi3, deepseek_v2, deepseek_v3, gpt_oss";
    fails(dir.path(), &["estimate", "config.json", "--machine", "h100"], 1, message);
}

#[test]
fn all_machines_are_one_table() {
    let config = config("llama-3-8b");
    let table = done(here(), &["estimate", &config, "--machine", "all", "--format", "json"]);
    let mut document = table.json();
    let rows: Vec<Value> = serde_json::from_value(document["rows"].take()).unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["machine"].as_str().unwrap()).collect();
    assert_eq!(names, NAMES);
    for row in &rows {
        let one = json(&[&config, "--machine", row["machine"].as_str().unwrap()]);
        assert!((number(&row["decode_ms"]) - number(&one["time_ms"])).abs() < 1e-3, "{row}");
    }
}

/// A product is that of the machine's table, and everything else is named as transferred.
#[test]
fn other_models_are_moved_by_tables_and_transfers() {
    let widths = ["--widths", "4096,4096", "--batch", "512", "--precision", "bf16", "--machine", "l40s"];
    let answer = json(&widths);
    let product = Kernel::Product { m: 512, n: 4096, k: 4096, format: Format::Bf16 };
    let expected = named("l40s").unwrap().estimate(&product).unwrap();
    let layer = &answer["layers"][0];
    assert_eq!((&answer["device"], &layer["source"]), (&"NVIDIA L40S".into(), &"table".into()));
    for (key, time) in
        [("time_ms", expected.nanoseconds), ("time_low_ms", expected.low), ("time_high_ms", expected.high)]
    {
        assert!((number(&answer[key]) * 1e6 / time - 1.0).abs() < 1e-9, "{answer}");
    }
    // In 32 bits no table has it; the data sheet of a GB200 is not known.
    let answer =
        json(&["--widths", "4096,4096", "--batch", "512", "--precision", "fp32", "--machine", "l40s"]);
    assert_eq!(answer["layers"][0]["source"], "transferred");
    let answer =
        json(&["--widths", "4096,4096", "--batch", "512", "--precision", "fp32", "--machine", "gb200"]);
    assert!(answer["time_ms"].is_null());
    assert_eq!(answer["not_estimated"][0], "FLOP/s in fp32 of NVIDIA GB200 are not known");
}

/// The machine with a calibration is beside those that were measured in graphs, so in one, too.
#[test]
fn all_machines_run_another_model_in_a_graph() {
    let widths = ["--widths", "1024,1024", "--batch", "64", "--precision", "bf16"];
    let table =
        done(here(), &[&["estimate"], &widths[..], &["--machine", "all", "--format", "json"]].concat());
    let mut document = table.json();
    let rows: Vec<Value> = serde_json::from_value(document["rows"].take()).unwrap();
    assert_eq!(rows.len(), NAMES.len());
    let graph = json(&[&widths[..], &["--machine", "h200", "--mode", "graph"]].concat());
    for (row, device) in rows.iter().zip(["H200", "A100-SXM4-80GB"]) {
        assert_eq!(row["device"], format!("NVIDIA {device}"));
    }
    assert!((number(&rows[0]["time_ms"]) - number(&graph["time_ms"])).abs() < 1e-4, "{rows:?}");
}

/// Norms and element-wise kernels of a language model take what such kernels took on the H200.
#[test]
fn bytes_move_as_in_the_calibration() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/calibration/h200.jsonl.zst");
    let calibration = Calibration::parse(&std::fs::read(&path).unwrap(), &path).unwrap();
    let floor = |bytes: u64| 1e3 + bytes as f64 / 4800.0;
    let mut ratios: Vec<f64> = Vec::new();
    for row in &calibration.rows {
        let Workload::Step(step) = &row.workload else { continue };
        if row.mode != Mode::Graph || !matches!(row.precision, Precision::Fp16 | Precision::Bf16) {
            continue;
        }
        let bytes = match &step.op {
            Op::Elementwise(sizes) => 2 * (sizes.read + sizes.elements),
            Op::Norm(norm) if matches!(norm.function, NormFunction::Layer | NormFunction::Rms) => {
                4 * norm.rows * norm.columns
            }
            Op::Gather { rows, width } => 4 * rows * width,
            Op::Copy { elements } => 4 * elements,
            _ => continue,
        };
        ratios.push(row.measurement.time.median_ns / floor(bytes));
    }
    ratios.sort_by(f64::total_cmp);
    let quantile = |at: f64| {
        let place = at * (ratios.len() - 1) as f64;
        let below = ratios[..ratios.len() - 1].iter().zip(&ratios[1..]).enumerate();
        let within = below.filter(|(index, _)| (0.0..1.0).contains(&(place - *index as f64)));
        within.map(|(index, (low, high))| low + (high - low) * (place - index as f64)).next().unwrap()
    };
    assert_eq!(ratios.len(), 265);
    let bytes = 123_456_789;
    let estimate = named("h200").unwrap().estimate(&Kernel::Memory { bytes }).unwrap();
    for (found, at) in [(estimate.nanoseconds, 0.5), (estimate.low, 0.05), (estimate.high, 0.95)] {
        assert!((found / floor(bytes) / quantile(at) - 1.0).abs() < 1e-3, "{at}: {estimate:?}");
    }
}

#[test]
fn machines_are_listed_with_their_errors() {
    let table = done(here(), &["machines", "--format", "csv"]);
    let lines: Vec<&str> = table.stdout.lines().collect();
    let tables: usize = NAMES.iter().map(|name| named(name).unwrap().tables().count()).sum();
    assert_eq!(lines.len(), 1 + tables);
    assert!(lines[0].starts_with("machine,device,software,kind,variant,rows,mape"), "{}", lines[0]);
    let text = done(here(), &["machines"]).stdout;
    assert!(
        text.contains("Measured by NVIDIA in vLLM's kernels (ai-dynamo/aiconfigurator 095f58a"),
        "{text}"
    );
    // Eager steps that nobody timed have no error of another GPU's.
    for (device, is_timed) in [("H100", false), ("H200", true)] {
        let has_calls = |line: &&str| line.contains("calls of") && line.contains(device);
        let line = text.lines().find(has_calls).unwrap();
        assert_eq!(line.ends_with(", eager not timed."), !is_timed, "{line}");
        assert_eq!(line.contains(", eager MAPE "), is_timed, "{line}");
    }
}
