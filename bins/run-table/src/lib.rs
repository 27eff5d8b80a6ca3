#![doc = include_str!("../README.md")]

mod collect;
mod layout;
mod manifest;
mod name;
mod query;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use flopgap_cli::Exit;

/// The name that errors and warnings begin with.
const PROGRAM: &str = "run-table";

/// Many reports, traces and runs as one Parquet data set, and questions to it.
#[derive(Parser)]
#[command(version, max_term_width = 110)]
#[command(after_help = "\
Examples:
  flopgap table collect fixtures/nsys fixtures/runs/h200-default -o data
  flopgap table query data --top-kernels 5")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write runs, reports, traces and calibration files into a data set that any engine reads.
    Collect(collect::Arguments),
    /// Ask a data set: SQL, or one of the ready questions.
    Query(Box<query::Arguments>),
}

/// Runs the program with the arguments of this process and returns its exit code.
pub fn main() -> ExitCode {
    run(std::env::args_os()).into()
}

/// Runs the program with these arguments; the first is its name.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    flopgap_cli::program(PROGRAM, arguments, |Arguments { command }, console| match command {
        Command::Collect(arguments) => collect::run(&arguments, console),
        Command::Query(arguments) => query::run(&arguments, console),
    })
}

/// The program's commands and options: for completions and man pages.
pub fn command() -> clap::Command {
    flopgap_cli::command::<Arguments>()
}
