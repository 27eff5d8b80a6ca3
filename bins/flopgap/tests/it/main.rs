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
use std::process::{Command, Output};

use assert_cmd::cargo::CommandCargoExt as _;

/// How the program ended.
#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::cargo_bin("flopgap").unwrap();
    // Names in what is printed are those of the repository.
    command.args(arguments).current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    command
}

fn ended(command: &mut Command) -> Ended {
    let Output { status, stdout, stderr } = command.output().unwrap();
    Ended {
        code: status.code(),
        stdout: String::from_utf8(stdout).unwrap(),
        stderr: String::from_utf8(stderr).unwrap(),
    }
}

/// Runs the program with its caches in a directory that goes.
fn flopgap(arguments: &[&str]) -> Ended {
    let cache = tempfile::tempdir().unwrap();
    ended(command(arguments).env("XDG_CACHE_HOME", cache.path()))
}

impl Ended {
    /// Fails the test unless the program ended with this code, and printed these.
    #[track_caller]
    fn expect(&self, code: i32, stdout: &[&str], stderr: &[&str]) {
        assert_eq!(self.code, Some(code), "{}", self.stderr);
        for text in stdout {
            assert!(self.stdout.contains(text), "`{text}` is not in\n{}", self.stdout);
        }
        for text in stderr {
            assert!(self.stderr.contains(text), "`{text}` is not in\n{}", self.stderr);
        }
    }
}
