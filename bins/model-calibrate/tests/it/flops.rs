//! `flops`: what models compute.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::support::{done, fails, run};

fn models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models")
}

#[test]
fn residual_networks_have_the_counts_that_everyone_knows() {
    for (model, macs) in [
        ("resnet18.pt2", "1,814,073,344"),
        ("resnet18.onnx", "1,814,073,344"),
        ("resnet50.pt2", "4,089,184,256"),
    ] {
        let ended = done(&models(), &["flops", model]);
        let total = ended.stdout.lines().last().unwrap();
        assert!(total.starts_with("total") && total.contains(macs), "{total}");
        assert_eq!(ended.stderr, "", "{model}");
    }
}

#[test]
fn modules_are_added_up() {
    let ended =
        done(&models(), &["flops", "resnet18.pt2", "--by", "module", "--depth", "1", "--format", "csv"]);
    let rows: Vec<Vec<&str>> = ended.stdout.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows[0][..5], ["module", "layers", "unknown", "parameters", "macs"]);
    let macs = |name: &str| -> u64 {
        rows.iter().find(|row| row[0] == name).unwrap_or_else(|| panic!("{name}"))[4].parse().unwrap()
    };
    assert_eq!(macs("(model)"), 1_814_073_344);
    assert_eq!(macs("fc"), 512_000);
    let parts: u64 = rows[2..].iter().map(|row| row[4].parse::<u64>().unwrap()).sum();
    assert_eq!(parts, 1_814_073_344);
    fails(&models(), &["flops", "resnet18.pt2", "--depth", "1"], 2, "--depth requires --by module");
}

#[test]
fn json_has_every_layer_with_its_operation() {
    let ended = done(&models(), &["flops", "gpt2.pt2", "--format", "json"]);
    let document = ended.json();
    let layers = document["layers"].as_array().unwrap();
    let sum: u64 = layers.iter().filter_map(|layer| layer["work"]["flops"].as_u64()).sum();
    assert_eq!(document["total"]["work"]["flops"].as_u64().unwrap(), sum);
    let attention = layers.iter().find(|layer| layer["op"]["op"] == "attention").unwrap();
    assert_eq!(attention["op"]["head_width"], 64);
    assert_eq!(document["unknown"].as_array().unwrap().len(), 0);
    assert_eq!(document["modules"][0]["macs"], document["total"]["macs"]);
}

#[test]
fn open_sizes_are_specified_as_the_hint_says() {
    let message = "mlp_old.onnx: the file leaves the sizes of `batch` open\n  hint: specify the sizes, such as `input=1x784`\n  hint: `--shape NAME=SIZES` specifies sizes";
    fails(&models(), &["flops", "mlp_old.onnx"], 1, message);
    for (shape, macs) in [("input=1x784", "535,040"), ("batch=32", "17,121,280")] {
        let ended = done(&models(), &["flops", "mlp_old.onnx", "--shape", shape]);
        assert!(ended.stdout.lines().last().unwrap().contains(macs), "{}", ended.stdout);
    }
    let message = "mlp_old.onnx: no input or dimension `bath`; the model has `batch`, `input`\n  hint: `--shape NAME=SIZES` specifies sizes";
    fails(&models(), &["flops", "mlp_old.onnx", "--shape", "batch=1", "--shape", "bath=1"], 3, message);
    run(&models(), &["flops", "mlp_old.onnx", "--shape", "batch"])
        .expect(2, &["invalid shape `batch`: `=` is missing"]);
}

#[test]
fn files_that_are_not_models_are_refused() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    std::fs::write(path.join("rows.csv"), "a,b\n1,2\n").unwrap();
    let whole = std::fs::read(models().join("resnet18.pt2")).unwrap();
    std::fs::write(path.join("cut.pt2"), &whole[..whole.len() / 2]).unwrap();
    run(path, &["flops", "rows.csv"])
        .expect(1, &["rows.csv: neither an ONNX model nor a `.pt2` archive of `torch.export`"]);
    run(path, &["flops", "cut.pt2"]).expect(1, &["the file is truncated or damaged"]);
    run(path, &["flops", "none.onnx"]).expect(3, &["none.onnx: cannot be read\n  caused by: No such file"]);
}
