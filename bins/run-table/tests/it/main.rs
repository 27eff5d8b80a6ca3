//! The built `run-table` over recorded files.

mod collect;
mod duck;
mod engines;
mod gap;
mod identity;
mod installed;
mod loss;
mod messages;
mod query;
mod vocabulary;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use assert_cmd::cargo::cargo_bin;
use flopgap_testing::Ended;

fn fixtures() -> PathBuf {
    flopgap_testing::fixture("")
}

/// Unpacks a recorded trace to a path.
fn trace(name: &str, path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    flopgap_testing::unpack(format!("nsys/{name}.sqlite.zst"), path);
}

fn run(arguments: &[&str]) -> Ended {
    Ended::of(Command::new(cargo_bin("run-table")).args(arguments))
}

/// Runs it and expects success.
fn done(arguments: &[&str]) -> Ended {
    let output = run(arguments);
    assert_eq!(output.code, 0, "{arguments:?}: {output:?}");
    output
}

/// The rows of an answer in CSV, without the header.
fn rows(data_set: &Path, sql: &str) -> Vec<String> {
    let output = done(&["query", data_set.to_str().unwrap(), "--sql", sql, "--format", "csv"]);
    output.stdout.lines().skip(1).map(str::to_owned).collect()
}

/// All files below a directory, relative to it.
fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                found.push(path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}
