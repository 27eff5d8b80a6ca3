//! `flopgap nsys passes`: how long steps and passes took, on the host, on the GPU and as measured
//! outside.

use std::fs;
use std::path::{Path, PathBuf};

use flopgap_answers::{Answer, ask};
use flopgap_cli::{Exit, Failure, OutputArgs};
use flopgap_timings::passes::Passes;
use flopgap_timings::{RangePattern, measured};
use serde::Serialize;

use crate::answer::print;
use crate::opening::{Opener, ReadAs, warn_all};
use crate::scope::ScopeArguments;
use crate::{PROGRAM, failure};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  flopgap nsys passes fixtures/nsys/small_training_step.sqlite.zst
  flopgap nsys passes fixtures/nsys/small_forward.sqlite.zst --timeit 14.02,13.93 --format json")]
pub(crate) struct Arguments {
    /// Traces: exports of `nsys export --type sqlite`, or traces of `torch.profiler`. Those of
    /// several ranks of one job are answered together; a directory is a job.
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    #[command(flatten)]
    read_as: ReadAs,
    #[command(flatten)]
    measured: Measured,
    /// Only these ranges, such as `forward` or `step_*`, instead of those that are steps or passes
    /// by their names. Can be repeated; `flopgap nsys --help` says how ranges are written.
    #[arg(long, value_name = "RANGE")]
    range: Vec<RangePattern>,
    #[command(flatten)]
    scope: ScopeArguments,
    #[command(flatten)]
    output: OutputArgs,
}

/// What was measured outside of the profiler.
#[derive(clap::Args)]
pub(crate) struct Measured {
    /// The times that were measured outside, such as with Python's timeit: `14.02,13.93` (ms), or a
    /// file with a number a line, a CSV table, JSON, or what timeit printed. Once for all traces,
    /// or once for each, in their order.
    #[arg(long, value_name = "MS,…|FILE")]
    timeit: Vec<String>,
    /// The column or field of the file that holds the times.
    #[arg(long, value_name = "NAME", requires = "timeit")]
    timeit_column: Option<String>,
}

impl Measured {
    /// The times of each of so many traces, in nanoseconds; nothing when none were given.
    pub(crate) fn times(&self, traces: usize) -> Result<Vec<Vec<i64>>, Failure> {
        let given = self.timeit.len();
        if given > 1 && given != traces {
            let message = format!("--timeit is given {given} times for {traces} traces");
            return Err(Failure::new(message).hint("give it once, or once for each trace").exit(Exit::Usage));
        }
        let read = |timeit: &String| times(timeit, self.timeit_column.as_deref());
        match self.timeit.as_slice() {
            [one] => Ok(vec![read(one)?; traces]),
            several => several.iter().map(read).collect(),
        }
    }
}

/// The passes of one of the traces.
#[derive(Serialize)]
struct OfTrace {
    trace: String,
    #[serde(flatten)]
    passes: Passes,
}

#[derive(Serialize)]
struct Data {
    traces: Vec<OfTrace>,
}

pub(crate) fn run(arguments: &Arguments, opener: &Opener) -> Result<(), Failure> {
    let measured = arguments.measured.times(arguments.traces.len())?;
    let mut all = Answer { data: Data { traces: Vec::new() }, tables: Vec::new(), sentences: Vec::new() };
    let jobs = opener.open_jobs(&arguments.traces, arguments.read_as)?;
    let part = arguments.scope.part(&arguments.range);
    for (at, trace) in jobs.iter().enumerate() {
        let measured = measured.get(at).cloned().unwrap_or_default();
        let found = ask::passes(trace, &part, measured).map_err(|error| failure(&error))?;
        warn_all(trace);
        if let Some(reason) = &found.data.no_gpu {
            flopgap_cli::warn(PROGRAM, format!("no GPU times: {reason}"));
        }
        all.tables.extend(found.tables);
        all.sentences.extend((jobs.len() > 1).then(|| format!("{}:", trace.name())));
        all.sentences.extend(found.sentences);
        all.data.traces.push(OfTrace { trace: trace.path().display().to_string(), passes: found.data });
    }
    print(&all, &arguments.output, opener.console())
}

/// A list of milliseconds, or the name of a file with times.
fn times(timeit: &str, column: Option<&str>) -> Result<Vec<i64>, Failure> {
    if let Some(times) = measured::list(timeit) {
        return Ok(times);
    }
    let text = fs::read_to_string(Path::new(timeit)).map_err(|error| {
        Failure::new(format!("{timeit}: {error}"))
            .hint("--timeit takes milliseconds (`14.02,13.93`) or a file with times")
    })?;
    measured::parse(timeit, &text, column).map_err(|error| {
        Failure::from_error(&error)
            .hint("name the column or field with --timeit-column, or write one number a line")
    })
}
