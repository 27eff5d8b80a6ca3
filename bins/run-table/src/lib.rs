#![doc = include_str!("../README.md")]

mod collect;
mod layout;
mod manifest;
mod name;
mod query;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The name that errors and warnings begin with.
const PROGRAM: &str = "run-table";

/// Many reports, traces and runs as one Parquet data set, and questions to it.
#[derive(Parser)]
#[command(version, max_term_width = 110)]
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

/// The whole program: reads the command line, answers, says how it ended.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    flopgap_cli::run(PROGRAM, || match arguments.command {
        Command::Collect(arguments) => collect::run(&arguments),
        Command::Query(arguments) => query::run(&arguments),
    })
}
