#![doc = include_str!("../README.md")]

mod compare;
mod counters;
mod findings;
mod framework;
mod plots;
mod single;
mod sweep;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use flopgap_sweep::Backend;
use hyper_profile::hardware::{Hardware, InProcess};
use hyper_profile::ncu::Ncu;
use hyper_profile::run_one;

/// The name that errors and warnings begin with.
const PROGRAM: &str = "mlp-validate";

/// Compare FLOPs of a square sigmoid MLP: theory, the framework's formula, hardware counters
#[derive(Parser)]
#[command(name = PROGRAM, version, max_term_width = 110)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Compare one network by class and pass, and explain the differences
    Single(single::Arguments),
    /// Compare many networks with theory, as a table and plots over d
    Sweep(sweep::Arguments),
    /// Run one network once, with its phases marked, under Nsight Compute
    #[command(hide = true)]
    RunOne(run_one::Arguments),
}

/// The whole program: parses the command line, counts on `hardware` if requested, and returns the
/// exit code.
pub fn main(hardware: &dyn Hardware) -> ExitCode {
    let arguments = Arguments::parse();
    flopgap_cli::run(PROGRAM, || match arguments.command {
        Command::Single(arguments) => {
            let ncu = || Ncu::find(hardware).map(|ncu| Box::new(ncu) as Box<dyn Backend>);
            single::run(&arguments, &InProcess(hardware), &ncu)
        }
        Command::Sweep(arguments) => sweep::run(&arguments, &InProcess(hardware)),
        Command::RunOne(arguments) => run_one::run(&arguments, hardware),
    })
}
