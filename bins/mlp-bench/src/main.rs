//! `mlp-bench`: one small MLP in several GPU implementations.

mod check;
mod cpu;
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
mod table;

use std::process::ExitCode;

use clap::Parser as _;
use flopgap_cli::Failure;

/// The name that errors and warnings begin with.
const PROGRAM: &str = "mlp-bench";

fn main() -> ExitCode {
    let arguments = options::Arguments::parse();
    flopgap_cli::run(PROGRAM, || match &arguments.command {
        Some(options::Command::Kernels(arguments)) => kernels::run(arguments),
        Some(options::Command::Diff(arguments)) => diff::run(arguments),
        None => run::run(&arguments.bench),
    })
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
