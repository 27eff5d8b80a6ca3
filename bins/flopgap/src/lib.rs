#![doc = include_str!("../README.md")]

#[cfg(not(feature = "completions"))]
mod absent;
mod answer;
#[cfg(feature = "completions")]
mod completions;
mod content;
mod doctor;
mod elsewhere;
mod example;
mod gate;
#[cfg(feature = "record")]
mod gpm;
#[cfg(feature = "completions")]
mod man;
#[cfg(feature = "mcp")]
mod mcp;
mod programs;
#[cfg(feature = "record")]
mod record;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use flopgap_cli::{Exit, Failure, Restart};

#[cfg(not(feature = "completions"))]
use absent as completions;
#[cfg(not(feature = "completions"))]
use absent as man;
use elsewhere::Then;

/// The name that errors and warnings begin with.
const PROGRAM: &str = "flopgap";

/// The command of `nsys-analyze` that is one of flopgap's own, too.
const GAP: &str = "gap";

/// What the help says about files, after the options.
const ANSWERS: &str = "\
FILE → answer:
  export of nsys (.sqlite), recording (.nsys-rep)   flopgap gap; with --all flopgap nsys summary
  trace of torch.profiler                           flopgap gap; with --all flopgap nsys summary
  report of ncu (.ncu-rep, CSV), directory of such  flopgap ncu kernels; of two: flopgap ncu diff
  run directory of hyper-profile                    flopgap profile analyze --no-files
  model (.onnx, .pt2 of torch.export)               flopgap calibrate flops, then estimate
  language model (config.json of Hugging Face)      flopgap calibrate estimate
  calibration, or directory of a sweep              flopgap calibrate report
  results of flopgap bench --format json            flopgap bench show; of two: flopgap bench diff
  data set of run-table                             flopgap table query

The content decides, not the name; .gz and .zst are read as they are. A file that is named like a
command: flopgap ./nsys.

Examples:
  flopgap example
  flopgap step.sqlite
  flopgap rank0.json.zst rank1.json.zst
  flopgap before.ncu-rep after.ncu-rep
  flopgap nsys diff before.sqlite after.sqlite --fail-if-slower 5
  source <(flopgap completions bash)";

/// Answer the likeliest question about any trace, report, run or model
///
/// FILE is recognized by its content, and the program that reads it is run. The commands are all
/// programs of flopgap: `flopgap nsys` is `nsys-analyze`, and so on.
#[derive(Parser)]
#[command(name = PROGRAM, version, max_term_width = 110, after_help = ANSWERS)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    arg_required_else_help = true
)]
struct Arguments {
    /// Files and directories of any kind
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print everything about traces instead of one screen (`flopgap nsys summary`)
    #[arg(long)]
    all: bool,
    /// Print answers and errors only, without the equivalent commands
    #[arg(short, long)]
    quiet: bool,
    #[command(subcommand)]
    command: Option<Own>,
}

#[derive(Subcommand)]
enum Own {
    /// Decide whether a change makes a program do more, exactly, or take longer beyond scatter
    Gate(gate::Arguments),
    /// Record what a program and its children do on GPUs, and show where the time of a step goes
    #[cfg(feature = "record")]
    Record(record::Arguments),
    /// Write recordings to try every answer on, and print the commands
    Example(example::Arguments),
    /// Show what is installed, what each part makes possible, and what to do where it is missing
    Doctor(doctor::Arguments),
    /// Serve the answers to language models: the Model Context Protocol on stdin and stdout
    #[cfg(feature = "mcp")]
    Mcp,
    /// Print a script that completes the command lines of flopgap and its programs in a shell
    Completions(completions::Arguments),
    /// Write the man pages of flopgap and its programs
    Man(man::Arguments),
}

/// Runs the program with the arguments of this process and returns its exit code.
///
/// On Unix, a program that is not part of this executable replaces the process.
pub fn main() -> ExitCode {
    run_with(&Restart::default(), Then::Replace, std::env::args_os()).into()
}

/// Runs the program with these arguments; the first is its name.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    run_as(&Restart::default(), arguments)
}

/// As [`run`], in a process that starts this program in another way.
pub fn run_as(restart: &Restart, arguments: impl IntoIterator<Item = OsString>) -> Exit {
    run_with(restart, Then::Wait, arguments)
}

/// Runs one of the programs under its own name, such as `nsys-analyze`: the first argument. `None`
/// if no program has this name.
///
/// `restart` starts `flopgap`.
pub fn run_program(restart: &Restart, arguments: Vec<OsString>) -> Option<Exit> {
    let program =
        programs::ALL.iter().find(|program| arguments.first().is_some_and(|name| *name == *program.name))?;
    Some(program.run(&restart.by(program.subcommand()), Then::Wait, arguments))
}

/// The program's commands and options with those of all its programs: for completions and man
/// pages.
pub fn command() -> clap::Command {
    let gap = nsys_analyze::command().find_subcommand(GAP).cloned();
    let programs = gap.into_iter().chain(programs::ALL.iter().map(programs::Program::as_subcommand));
    let own = Arguments::command();
    // The programs first: they are what the command is used for.
    let (names, rest): (Vec<_>, Vec<_>) = (programs.collect(), own.get_subcommands().cloned().collect());
    names.into_iter().chain(rest).enumerate().fold(
        Arguments::command().subcommand_value_name("PROGRAM"),
        |all, (order, subcommand)| {
            let name = subcommand.get_name().to_owned();
            if all.find_subcommand(&name).is_some() {
                all.mut_subcommand(name, |subcommand| subcommand.display_order(order))
            } else {
                all.subcommand(subcommand.display_order(order))
            }
        },
    )
}

fn run_with(restart: &Restart, then: Then, arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    let named = arguments
        .get(1)
        .and_then(|first| programs::ALL.iter().find(|program| *first == *program.subcommand()));
    if let Some(program) = named {
        // The name of a program within its usage and errors: `flopgap nsys`.
        arguments.splice(..2, [program.within().into()]);
        return program.run(&restart.by(program.subcommand()), then, arguments);
    }
    if arguments.get(1).is_some_and(|first| *first == *GAP) {
        arguments.splice(..1, [PROGRAM.into()]);
        return programs::NSYS.run(restart, then, arguments);
    }
    let parsed =
        command().try_get_matches_from(arguments).and_then(|matches| Arguments::from_arg_matches(&matches));
    let arguments = match parsed {
        Ok(arguments) => arguments,
        Err(error) => {
            // As in clap itself: there is no other place for a message that cannot be printed.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage } else { Exit::Done };
        }
    };
    ended(|| match &arguments.command {
        Some(Own::Gate(arguments)) => gate::run(arguments),
        #[cfg(feature = "record")]
        Some(Own::Record(arguments)) => record::run(arguments, restart),
        Some(Own::Example(arguments)) => example::run(arguments).map(|()| Exit::Done),
        Some(Own::Doctor(arguments)) => doctor::run(arguments).map(|()| Exit::Done),
        #[cfg(feature = "mcp")]
        Some(Own::Mcp) => mcp::run().map(|()| Exit::Done),
        Some(Own::Completions(arguments)) => completions::run(arguments).map(|()| Exit::Done),
        Some(Own::Man(arguments)) => man::run(arguments).map(|()| Exit::Done),
        None => answer::run(&arguments.files, arguments.all, arguments.quiet, restart),
    })
}

/// The exit code of a body that runs other programs, whose failures they have printed.
fn ended(body: impl FnOnce() -> Result<Exit, Failure>) -> Exit {
    let mut exit = Exit::Done;
    let own = flopgap_cli::outcome(PROGRAM, || {
        exit = body()?;
        Ok(())
    });
    if own == Exit::Done { exit } else { own }
}
