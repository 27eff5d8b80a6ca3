#![doc = include_str!("../../docs/validate.md")]

mod compare;
mod counters;
mod findings;
mod framework;
mod plots;
mod single;
mod sweep;

use std::ffi::OsString;
use std::process::ExitCode;

use crate::gpu::Gpu;
use crate::hardware::{Counted, Hardware, InProcess};
use crate::ncu::Ncu;
use crate::run_one;
use clap::{Parser, Subcommand};
use flopgap_cli::{Exit, Restart};
use flopgap_phases::sweep::Backend;

/// The name that errors and warnings begin with.
const PROGRAM: &str = "mlp-validate";

/// Compare FLOPs of a square sigmoid MLP: theory, the framework's formula, hardware counters
#[derive(Parser)]
#[command(name = PROGRAM, version, max_term_width = 110)]
#[command(after_help = "\
Examples:
  flopgap validate single -n 4 -d 512 -m 64 --counters fixtures/runs/h200-default
  flopgap validate sweep fixtures/runs/h200-pytorch")]
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

/// Runs the program with the arguments of this process and returns its exit code.
pub fn main() -> ExitCode {
    run(std::env::args_os()).into()
}

/// Runs the program with these arguments; the first is its name.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    run_as(&Restart::default(), arguments)
}

/// As [`run`], in a process that starts this program in another way.
pub fn run_as(restart: &Restart, arguments: impl IntoIterator<Item = OsString>) -> Exit {
    run_on(&Gpu, restart, arguments)
}

/// As [`run_as`], on other hardware if it is to count.
pub fn run_on(
    hardware: &dyn Hardware,
    restart: &Restart,
    arguments: impl IntoIterator<Item = OsString>,
) -> Exit {
    let counters = InProcess { hardware, counted: Counted::All };
    flopgap_cli::program(PROGRAM, arguments, |Arguments { command }, console| match command {
        Command::Single(arguments) => {
            let ncu = || Ncu::find(hardware, restart).map(|ncu| Box::new(ncu) as Box<dyn Backend>);
            single::run(&arguments, &counters, &ncu, console)
        }
        Command::Sweep(arguments) => sweep::run(&arguments, &counters, console),
        Command::RunOne(arguments) => run_one::run(&arguments, hardware),
    })
}

/// The program's commands and options: for completions and man pages.
pub fn command() -> clap::Command {
    flopgap_cli::command::<Arguments>()
}
