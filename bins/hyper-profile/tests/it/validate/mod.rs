//! The built `mlp-validate` on recorded traces and counters. Expected numbers are products of
//! sizes, written out, and counts as the recorded reports add up to.

mod messages;
mod single;
mod sweep;

use std::path::{Path, PathBuf};

use std::process::Command;

use assert_cmd::cargo::cargo_bin;
use flopgap_testing::Ended;

/// `2 · 1024 · 1024 · 128`: one product of the network with d=1024, m=128.
const PRODUCT: u64 = 268_435_456;

fn fixture(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name).to_str().unwrap().to_owned()
}

fn trace() -> String {
    fixture("kineto/mlp_n10_d1024_m128.json.gz")
}

fn run_directory() -> String {
    fixture("runs/h200-pytorch")
}

fn run(arguments: &[&str]) -> Ended {
    run_in(Path::new(env!("CARGO_MANIFEST_DIR")), arguments)
}

/// Runs the program as on a machine without a GPU.
fn run_in(folder: &Path, arguments: &[&str]) -> Ended {
    let mut command = Command::new(cargo_bin("mlp-validate"));
    Ended::of(command.current_dir(folder).env("CUDA_VISIBLE_DEVICES", "").args(arguments))
}

/// The rows of a CSV text by column.
fn rows(csv: &str) -> Vec<std::collections::BTreeMap<String, String>> {
    csv::Reader::from_reader(csv.as_bytes()).deserialize().map(Result::unwrap).collect()
}

/// A directory to write to.
fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    (folder, path)
}
