//! `hyper-profile`: MLP profiling runs over (n, d, m) grids.

mod analyze;
mod metric;
mod page;
mod plots;
mod tables;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The name that errors and warnings begin with.
const PROGRAM: &str = "hyper-profile";

/// MLP profiling runs over (n, d, m) grids: counted against theoretical FLOPs, tables, surfaces, report.
#[derive(Parser)]
#[command(version, max_term_width = 110)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Turn the raw counters of a run into metrics.csv, 3D surfaces and report.html.
    Analyze(analyze::Arguments),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    flopgap_cli::run(PROGRAM, || match arguments.command {
        Command::Analyze(arguments) => analyze::run(&arguments),
    })
}
