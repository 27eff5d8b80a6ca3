#![doc = include_str!("../README.md")]

mod answer;
mod attention;
mod attribution;
mod batch;
mod capture;
mod compare;
mod diff;
mod export;
mod filter;
mod kernels;
mod opening;
mod output;
mod passes;
mod rules;
mod scope;
pub mod sentences;
mod stats;
mod summary;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use flopgap_cli::Failure;
use flopgap_nsys::{Error, Found, Trace};

use opening::{ExportTo, Opener};

pub use summary::{PageOptions, page};

/// The name that errors and warnings begin with.
const PROGRAM: &str = "nsys-analyze";

/// Answers from Nsight Systems exports (`nsys export --type sqlite`).
#[derive(Parser)]
#[command(version, max_term_width = 110, after_help = scope::RANGE_GRAMMAR)]
struct Arguments {
    /// Where a recording (.nsys-rep) is given, have nsys export it first.
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
    /// The expert rules of `nsys analyze`: what could be faster.
    Rules(rules::Arguments),
    /// How long steps and passes took: on the host, on the GPU, and against times measured outside.
    Passes(passes::Arguments),
    /// Where the GPU time of a trace or a range went: kernel, class, calls, time, share; or of two
    /// traces side by side.
    Kernels(kernels::Arguments),
    /// The GPU time of two traces by kind of work, such as inference and training.
    Compare(compare::Arguments),
    /// Attention: the time of its products and its softmax against their FLOPs.
    Attention(attention::Arguments),
    /// What got slower and what faster between two traces; for CI with --fail-if-slower.
    Diff(diff::Arguments),
    /// Everything that traces answer, on one page: passes, kernels, shares, attention, memory, idle
    /// times.
    Summary(summary::Arguments),
    /// A summary page and CSV reports of every trace below a folder, with an index.
    Batch(batch::Arguments),
    /// Record a program with nsys, export the trace and summarize it.
    Capture(capture::Arguments),
    /// The trace in a format that other tools open: a timeline for Perfetto, or plain CSV tables.
    Export(export::Arguments),
}

/// The whole program: reads the command line, answers, says how it ended.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let Arguments { export, command } = arguments;
    flopgap_cli::run(PROGRAM, || {
        let opener = Opener::new(export);
        match command {
            Command::Stats(arguments) => stats::run(&arguments, &opener),
            Command::Rules(arguments) => rules::run(&arguments, &opener),
            Command::Kernels(arguments) => kernels::run(&arguments, &opener),
            Command::Passes(arguments) => passes::run(&arguments, &opener),
            Command::Compare(arguments) => compare::run(&arguments, &opener),
            Command::Attention(arguments) => attention::run(&arguments, &opener),
            Command::Diff(arguments) => diff::run(&arguments, &opener),
            Command::Summary(arguments) => summary::run(&arguments, &opener),
            Command::Batch(arguments) => batch::run(&arguments, &opener),
            Command::Capture(arguments) => capture::run(&arguments, &opener),
            Command::Export(arguments) => export::run(&arguments, &opener),
        }
    })
}

/// How an error of the library ends this program, with what its options can do about it.
fn failure(error: &Error) -> Failure {
    let failure = Failure::of(error);
    match error {
        Error::NoRange { .. } => failure.hint(
            "`nsys-analyze stats TRACE --report nvtx_sum` lists the ranges as DOMAIN:RANGE; give that, or \
             RANGE alone in the default domain (for --filter-nvtx, RANGE@DOMAIN)",
        ),
        Error::NotADatabase { found: Found::ComputeReport, .. } => failure.hint("read it with `ncu-analyze`"),
        _ => failure,
    }
}

/// Shows what was odd in a trace.
fn warn_all(trace: &Trace) {
    for warning in trace.warnings() {
        flopgap_cli::warn(PROGRAM, format!("{}: {warning}", trace.path().display()));
    }
}
