//! Every `--format json` is one object that says what it is; its keys are listed in `keys.txt`,
//! with the numbers whose names have no unit. With `FLOPGAP_WRITE_KEYS` set, the list is written.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::flopgap;

const STEP: &str = "fixtures/nsys/small_training_step.sqlite.zst";
const FORWARD: &str = "fixtures/nsys/small_forward_backward.sqlite.zst";
const REPORT: &str = "fixtures/ncu/n10_d1024_m128_forward.csv.zst";
const MODEL: &str = "fixtures/models/resnet18.pt2";

/// Each document, and a command that prints it.
const COMMANDS: [(&str, &[&str]); 17] = [
    ("flopgap-nsys-gap", &["gap", STEP]),
    ("flopgap-nsys-gap", &["gap", "fixtures/record/h100_counted.sqlite.zst"]),
    ("flopgap-nsys-summary", &["nsys", "summary", STEP]),
    ("flopgap-nsys-kernels", &["nsys", "kernels", STEP]),
    ("flopgap-nsys-passes", &["nsys", "passes", STEP]),
    ("flopgap-nsys-compare", &["nsys", "compare", FORWARD, STEP]),
    (
        "flopgap-nsys-attention",
        &["nsys", "attention", STEP, "--batch", "8", "--heads", "8", "--seq", "256", "--head-dim", "64"],
    ),
    ("flopgap-nsys-diff", &["nsys", "diff", FORWARD, STEP, "--fail-if-slower", "900"]),
    ("flopgap-ncu-kernels", &["ncu", "kernels", REPORT]),
    ("flopgap-ncu-diff", &["ncu", "diff", REPORT, REPORT]),
    ("flopgap-gate", &["gate", FORWARD, FORWARD]),
    ("flopgap-profile-analyze", &["profile", "analyze", "--no-files", "fixtures/runs/h200-default"]),
    ("flopgap-calibrate-machines", &["calibrate", "machines"]),
    ("flopgap-calibrate-flops", &["calibrate", "flops", MODEL]),
    ("flopgap-calibrate-estimate", &["calibrate", "estimate", MODEL, "--machine", "h200", "--as", "own"]),
    ("flopgap-calibrate-estimate", &["calibrate", "estimate", MODEL, "--machine", "h100"]),
    (
        "flopgap-language-estimate",
        &["calibrate", "estimate", "fixtures/language/llama-3-8b.json", "--machine", "h100"],
    ),
];

/// How the name of a number with a unit ends.
const UNITS: &[&str] =
    &["ns", "us", "ms", "bytes", "flops", "flop", "hz", "percent", "tflops", "gbps", "j", "w"];

#[test]
fn every_document_says_what_it_is_and_its_keys_are_known() {
    let mut keys = BTreeSet::new();
    for (format, command) in COMMANDS {
        let ended = flopgap(&[command, &["--format", "json"]].concat());
        let document = ended.json();
        assert_eq!((document["format"].as_str(), document["version"].as_u64()), (Some(format), Some(1)));
        walk(&document, format, &mut keys);
    }
    let listed = keys.into_iter().collect::<Vec<String>>().join("\n") + "\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/keys.txt");
    if std::env::var_os("FLOPGAP_WRITE_KEYS").is_some() {
        fs::write(&path, &listed).unwrap();
    }
    assert_eq!(fs::read_to_string(path).unwrap(), listed, "a key changed: readers of these documents break");
}

/// The paths of all values with their types; lists are `[]`.
fn walk(value: &Value, path: &str, keys: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (key, inner) in fields {
                walk(inner, &format!("{path} {key}"), keys);
            }
        }
        Value::Array(items) => {
            for item in items {
                walk(item, &format!("{path}[]"), keys);
            }
        }
        Value::Number(_) => {
            let name = path.trim_end_matches("[]").rsplit(' ').next().unwrap_or_default();
            let has_unit = UNITS.iter().any(|unit| name.ends_with(unit));
            keys.insert(format!("{path}: number{}", if has_unit { "" } else { " without a unit" }));
        }
        Value::String(_) => drop(keys.insert(format!("{path}: text"))),
        Value::Bool(_) => drop(keys.insert(format!("{path}: bool"))),
        // What is not known in this file may be in another.
        Value::Null => {}
    }
}
