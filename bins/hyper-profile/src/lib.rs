#![doc = include_str!("../README.md")]

mod analyze;
mod compare;
mod failure;
mod fill;
pub mod gpu;
pub mod hardware;
mod metric;
pub mod ncu;
mod page;
mod plots;
mod processes;
pub mod run_one;
pub mod square;
mod tables;
pub mod validate;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use flopgap_cli::{Exit, Restart};

use gpu::Gpu;
use hardware::Hardware;

/// The name that errors and warnings begin with.
const PROGRAM: &str = "hyper-profile";

/// Profile MLPs over (n, d, m) grids: counted and theoretical FLOPs as tables, surfaces and a
/// report
#[derive(Parser)]
#[command(name = PROGRAM, version, max_term_width = 110)]
#[command(after_help = "\
Examples:
  flopgap profile new -n 2 4 8 -d 256..1024:256 -m 32,64,128 -o run
  flopgap profile analyze fixtures/runs/h200-pytorch -o analysis")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure a grid of networks on this machine's GPUs, then analyze it
    New(fill::NewArguments),
    /// Measure what is missing in an interrupted run, or other sizes, then analyze it
    Resume(fill::ResumeArguments),
    /// Analyze the raw counters of a run: metrics.csv, 3D surfaces and report.html
    Analyze(analyze::Arguments),
    /// Compare two runs launch by launch: kernel, grid, block and counts
    Compare(compare::Arguments),
    /// Measure configurations read from stdin, for a process with several devices
    #[command(hide = true)]
    CountOn(processes::Arguments),
    /// Run one network once with its phases marked, for a profiler of this process
    #[command(hide = true)]
    RunOne(run_one::Arguments),
}

/// A count with its noun: `1 configuration`, `1,280 configurations`.
fn configurations(count: usize) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} configuration{plural}", flopgap_report::numbers::group_thousands(count as u64))
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

/// As [`run_as`], on other hardware.
pub fn run_on(
    hardware: &dyn Hardware,
    restart: &Restart,
    arguments: impl IntoIterator<Item = OsString>,
) -> Exit {
    let machine = fill::Machine { hardware, restart };
    flopgap_cli::program(PROGRAM, arguments, |Arguments { command }, console| match command {
        Command::New(arguments) => fill::new(&arguments, machine, console),
        Command::Resume(arguments) => fill::resume(&arguments, machine, console),
        Command::Analyze(arguments) => analyze::run(&arguments, console),
        Command::Compare(arguments) => compare::run(&arguments, console),
        // The processes that are started print errors only, whatever this one is to say.
        Command::CountOn(arguments) => processes::run(&arguments, hardware),
        Command::RunOne(arguments) => run_one::run(&arguments, hardware),
    })
}

/// The program's commands and options: for completions and man pages.
pub fn command() -> clap::Command {
    flopgap_cli::command::<Arguments>()
}
