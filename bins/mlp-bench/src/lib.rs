#![doc = include_str!("../README.md")]

mod answer;
mod check;
mod cpu;
mod device;
mod diff;
mod floor;
mod gpu;
mod kernels;
mod memory;
mod models;
mod networks;
mod options;
mod pass;
mod peers;
mod plot;
mod results;
mod run;
mod show;
mod table;
mod vulkan;

use std::ffi::OsString;
use std::process::ExitCode;

use flopgap_cli::{Exit, Failure};

/// The name that errors and warnings begin with.
const PROGRAM: &str = "mlp-bench";

/// Runs the program with the arguments of this process and returns its exit code.
pub fn main() -> ExitCode {
    run(std::env::args_os()).into()
}

/// Runs the program with these arguments; the first is its name.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    flopgap_cli::program(PROGRAM, arguments, |arguments: options::Arguments, console| {
        match &arguments.command {
            Some(options::Command::Kernels(arguments)) => kernels::run(arguments, console),
            Some(options::Command::Show(arguments)) => show::run(arguments, console),
            Some(options::Command::Diff(arguments)) => diff::run(arguments, console),
            None => run::run(&arguments.bench, console),
        }
    })
}

/// The program's commands and options: for completions and man pages.
pub fn command() -> clap::Command {
    flopgap_cli::command::<options::Arguments>()
}

/// Converts any other error.
fn failed<E: std::error::Error + 'static>(error: E) -> Failure {
    Failure::from_error(&error)
}

/// Removes duplicates, keeping the order.
fn unique<T: PartialEq>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut once = Vec::new();
    for entry in all {
        if !once.contains(&entry) {
            once.push(entry);
        }
    }
    once
}
