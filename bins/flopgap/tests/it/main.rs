//! The built program, over one file of each kind.

mod action;
mod doctor;
mod errors;
mod example;
mod files;
#[cfg(feature = "calibrate")]
mod gate;
#[cfg(all(feature = "bench", feature = "calibrate", feature = "profile", feature = "validate"))]
mod heads;
#[cfg(all(feature = "bench", feature = "calibrate", feature = "profile", feature = "validate"))]
mod json;
#[cfg(not(any(feature = "completions", feature = "pages", feature = "tables")))]
mod left_out;
#[cfg(feature = "mcp")]
mod mcp;
mod programs;
#[cfg(feature = "record")]
mod record;
#[cfg(all(feature = "bench", feature = "calibrate", feature = "profile", feature = "validate"))]
mod width;

use std::path::Path;
use std::process::Command;

use assert_cmd::cargo::cargo_bin;
use flopgap_testing::Ended;

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(cargo_bin("flopgap"));
    // Names in what is printed are those of the repository.
    command.args(arguments).current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    command
}

/// Runs the program with its caches in a directory that goes.
fn flopgap(arguments: &[&str]) -> Ended {
    let cache = tempfile::tempdir().unwrap();
    Ended::of(command(arguments).env("XDG_CACHE_HOME", cache.path()))
}
