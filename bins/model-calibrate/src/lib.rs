#![doc = include_str!("../README.md")]

mod compare;
mod device;
mod estimate;
mod fit;
mod flops;
mod judging;
mod language;
mod load;
mod machines;
mod probe;
mod recorded;
mod report;
mod sweep;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use flopgap_cli::Exit;

/// The name that errors and warnings begin with.
const PROGRAM: &str = "model-calibrate";

/// Measure networks on this machine, predict any network with an interval, and report the errors
#[derive(Parser)]
#[command(version, max_term_width = 110)]
#[command(after_help = "\
Examples:
  flopgap calibrate sweep --quick -o run
  flopgap calibrate fit run
  flopgap calibrate estimate fixtures/models/resnet50.pt2 --machine h200 --precision fp16")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure the peaks of this machine: arithmetic by precision, bandwidth by working set,
    /// launches
    Probe(probe::Arguments),
    /// Measure networks on this machine into a run directory
    Sweep(Box<sweep::Arguments>),
    /// Fit a predictor to measured rows and report its errors on rows that it has not seen
    Fit(fit::Arguments),
    /// Compare measurements with estimates: errors, bottlenecks, efficiency factors, memory levels
    Report(report::Arguments),
    /// Estimate time, memory, energy and FLOPs of a model, with intervals
    Estimate(estimate::Arguments),
    /// List the machines that are built in, what was measured on each, by whom, and the errors
    Machines(machines::Arguments),
    /// Compare two calibrations of one machine, point by point
    Compare(compare::Arguments),
    /// Count FLOPs and bytes of a model, by layer or module
    Flops(flops::Arguments),
}

/// Runs the program with the arguments of this process and returns its exit code.
pub fn main() -> ExitCode {
    run(std::env::args_os()).into()
}

/// Runs the program with these arguments; the first is its name.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let (Arguments { command }, console) = match flopgap_cli::start(PROGRAM, arguments) {
        Ok(started) => started,
        Err(exit) => return exit,
    };
    flopgap_cli::outcome(PROGRAM, || {
        console.timed("total", || match &command {
            Command::Probe(arguments) => probe::run(arguments, console),
            Command::Sweep(arguments) => sweep::run(arguments, console),
            Command::Fit(arguments) => fit::run(arguments, console),
            Command::Report(arguments) => report::run(arguments, console),
            Command::Estimate(arguments) => estimate::run(arguments, console),
            Command::Machines(arguments) => machines::run(arguments, console),
            Command::Compare(arguments) => compare::run(arguments, console),
            Command::Flops(arguments) => flops::run(arguments, console),
        })
    })
}

/// The program's commands and options: for completions and man pages.
pub fn command() -> clap::Command {
    flopgap_cli::command::<Arguments>()
}
