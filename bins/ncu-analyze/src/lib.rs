#![doc = include_str!("../README.md")]

mod columns;
mod condition;
mod diff;
mod files;
mod filter;
mod groups;
mod input;
mod kernels;
mod missing;
mod overhead;
mod part;
mod quantity;
mod selection;
mod shorter;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use flopgap_cli::{Exit, Failure};
use flopgap_ncu::{Error, Fault};
use flopgap_phases::PhaseError;

/// The name that errors and warnings begin with.
const PROGRAM: &str = "ncu-analyze";

/// FLOPs, overheads and differences from Nsight Compute reports
///
/// Reads every CSV layout of ncu (also gz, zst, UTF-16, mixed with the program's own output) and
/// .ncu-rep files.
#[derive(Parser)]
#[command(version, max_term_width = 110)]
#[command(after_help = "\
Examples:
  flopgap ncu kernels fixtures/ncu/h200_kernels_graph_nvtx.ncu-rep --by class
  flopgap ncu diff before.ncu-rep after.ncu-rep --changed")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Compare counted with theoretical FLOPs of a square sigmoid MLP, forward and backward
    Overhead(overhead::Arguments),
    /// Show launches, FLOPs by precision, bytes and time of each kernel or kernel class of a report
    Kernels(kernels::Arguments),
    /// Compare the kernels of two reports
    Diff(diff::Arguments),
}

/// Runs the program with the arguments of this process and returns its exit code.
pub fn main() -> ExitCode {
    run(std::env::args_os()).into()
}

/// Runs the program with these arguments; the first is its name.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    flopgap_cli::program(PROGRAM, arguments, |Arguments { command }, console| match command {
        Command::Overhead(arguments) => overhead::run(&arguments, console),
        Command::Kernels(arguments) => kernels::run(&arguments, console),
        Command::Diff(arguments) => diff::run(&arguments, console),
    })
}

/// The program's commands and options: for completions and man pages.
pub fn command() -> clap::Command {
    flopgap_cli::command::<Arguments>()
}

/// Converts an error of the libraries.
fn failure(error: &PhaseError) -> Failure {
    let own = match error {
        PhaseError::Report(Error {
            what: Fault::UndecidableNumber { .. } | Fault::ContradictoryNumber { .. },
            ..
        }) => "or name what separates decimals with --decimal",
        PhaseError::Contradicted { .. } => "--force shows the numbers anyway",
        _ => return Failure::of(error),
    };
    Failure::of(error).hint(own)
}
