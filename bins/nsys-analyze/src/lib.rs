#![doc = include_str!("../README.md")]

#[cfg(not(feature = "pages"))]
mod absent;
mod answer;
mod attention;
mod attribution;
#[cfg(feature = "pages")]
mod batch;
#[cfg(feature = "pages")]
mod capture;
#[cfg(feature = "ceilings")]
mod ceilings;
mod compare;
mod diff;
mod export;
mod filter;
pub mod find;
mod gap;
mod kernels;
mod opening;
mod output;
mod passes;
mod rules;
mod scope;
mod stats;
#[cfg(feature = "pages")]
mod summary;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use flopgap_answers::Error;
use flopgap_cli::{Exit, Failure};
use flopgap_nsys::{Error as NsysError, Found};

#[cfg(not(feature = "pages"))]
use absent as batch;
#[cfg(not(feature = "pages"))]
use absent as capture;
#[cfg(not(feature = "pages"))]
use absent as summary;
use opening::{ExportTo, Opener};

/// The prefix of errors and warnings.
const PROGRAM: &str = "nsys-analyze";

/// Answers from Nsight Systems exports (`nsys export --type sqlite`), also compressed (.gz, .zst).
#[derive(Parser)]
#[command(version, max_term_width = 110, after_help = scope::AFTER_HELP)]
struct Arguments {
    /// Export recordings (.nsys-rep) with nsys first.
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "WHERE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "temporary"
    )]
    export: Option<ExportTo>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The reports of `nsys stats`: same names, columns, rows, order and digits.
    Stats(stats::Arguments),
    /// The expert rules of `nsys analyze`, which suggest what could be faster.
    Rules(rules::Arguments),
    /// Times of steps and passes: on the host, on the GPU, and compared with outside measurements.
    Passes(passes::Arguments),
    /// GPU time of a trace or a range by kernel: class, calls, time, share; two traces are shown
    /// side by side.
    Kernels(kernels::Arguments),
    /// GPU time of two traces by kind of work, for example inference and training.
    Compare(compare::Arguments),
    /// Attention: times and FLOPs of its products and its softmax.
    Attention(attention::Arguments),
    /// What became slower or faster between two traces; for CI with --fail-if-slower.
    Diff(diff::Arguments),
    /// What a step consists of, why the GPU does nothing, and what to change first.
    Gap(gap::Arguments),
    /// Everything on one page: passes, kernels, shares, attention, memory, idle times.
    Summary(summary::Arguments),
    /// A summary page and CSV reports of every trace below a directory, with an index.
    Batch(batch::Arguments),
    /// Record a program with nsys, export the trace and summarize it.
    Capture(capture::Arguments),
    /// Convert the trace for other tools: a timeline for Perfetto, or plain CSV tables.
    Export(export::Arguments),
}

/// Runs the program with the arguments of this process and returns its exit code.
pub fn main() -> ExitCode {
    run(std::env::args_os()).into()
}

/// Runs the program with these arguments; the first is its name.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let (Arguments { export, command }, console) = match flopgap_cli::start(PROGRAM, arguments) {
        Ok(started) => started,
        Err(exit) => return exit,
    };
    flopgap_cli::outcome(PROGRAM, || {
        let opener = Opener::new(export, console);
        console.timed("total", || match command {
            Command::Stats(arguments) => stats::run(&arguments, &opener),
            Command::Rules(arguments) => rules::run(&arguments, &opener),
            Command::Kernels(arguments) => kernels::run(&arguments, &opener),
            Command::Passes(arguments) => passes::run(&arguments, &opener),
            Command::Compare(arguments) => compare::run(&arguments, &opener),
            Command::Attention(arguments) => attention::run(&arguments, &opener),
            Command::Diff(arguments) => diff::run(&arguments, &opener),
            Command::Gap(arguments) => gap::run(&arguments, &opener),
            Command::Summary(arguments) => summary::run(&arguments, &opener),
            Command::Batch(arguments) => batch::run(&arguments, &opener),
            Command::Capture(arguments) => capture::run(&arguments, &opener),
            Command::Export(arguments) => export::run(&arguments, &opener),
        })
    })
}

/// The program's commands and options: for completions and man pages.
pub fn command() -> clap::Command {
    flopgap_cli::command::<Arguments>()
}

/// What to do about a range that is not there.
const NO_RANGE: &str = "`flopgap nsys stats TRACE --report nvtx_sum` lists the ranges as DOMAIN:RANGE; give that, or RANGE alone \
                        in the default domain (for --filter-nvtx, RANGE@DOMAIN)";

/// The exit code and message for an error, with the options that help.
fn failure(error: &Error) -> Failure {
    match error {
        Error::Nsys(error) => of_nsys(error),
        Error::Timings(error) => answer::unanswered(error),
        Error::NoRanges { .. } => {
            Failure::of(error).hint("without --range, the summary lists the ranges of the trace")
        }
        _ => Failure::of(error),
    }
}

/// [`failure`] of the reader of exports.
fn of_nsys(error: &NsysError) -> Failure {
    let failure = Failure::of(error);
    match error {
        NsysError::NoRange { .. } => failure.hint(NO_RANGE),
        NsysError::NotADatabase { found: Found::ComputeReport, .. } => {
            failure.hint("read it with `flopgap ncu`")
        }
        _ => failure,
    }
}
