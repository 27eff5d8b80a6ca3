//! `flopgap nsys diff BEFORE AFTER`: what got slower and what faster.

use std::path::PathBuf;

use clap::ValueEnum;
use flopgap_answers::{Answer, ask, sentences, tables};
use flopgap_cli::{Exit, Failure, OutputArgs};
use flopgap_kernels::Classifier;
use flopgap_timings::RangePattern;
use flopgap_timings::diff::{self, By, Diff, Judged, RangeChange, Verdict, diff};
use serde::Serialize;

use crate::answer::{print, unanswered};
use crate::kernels::names_for;
use crate::opening::{Opener, warn_all};
use crate::scope::ScopeArguments;
use crate::{PROGRAM, failure};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  flopgap nsys diff before.sqlite after.sqlite --fail-if-slower 5
  flopgap nsys diff fixtures/nsys/small_forward_backward.sqlite.zst fixtures/nsys/small_training_step.sqlite.zst --top 3")]
pub(crate) struct Arguments {
    /// An export of `nsys export --type sqlite`, before the change.
    before: PathBuf,
    /// One after the change.
    after: PathBuf,
    /// Exit with code 1 if a step or pass is slower beyond scatter, by this percentage; with 4 if
    /// that cannot be known.
    #[arg(long, value_name = "PERCENT", value_parser = flopgap_cli::percentage)]
    fail_if_slower: Option<f64>,
    /// The time by which --fail-if-slower judges.
    #[arg(long, value_enum, value_name = "TIME", default_value_t, requires = "fail_if_slower")]
    judge_by: ByArg,
    /// Exit with code 1 if the traces do not hold the same work: other kernels, launches or bytes.
    #[arg(long)]
    fail_if_work_differs: bool,
    /// Show only kernels and ranges whose total is at least this many microseconds in one
    /// of the traces.
    #[arg(long, value_name = "US", default_value_t = 100)]
    min_total_us: u64,
    /// Only these ranges: kernels launched within them, for each instance [default: whole steps if
    /// both traces mark steps, otherwise all kernels]. Can be repeated; `flopgap nsys --help` says
    /// how ranges are written.
    #[arg(long, value_name = "RANGE")]
    range: Vec<RangePattern>,
    /// Compare everything that was recorded, also where steps are marked.
    #[arg(long, conflicts_with = "range")]
    all: bool,
    /// A row for each layer: without, `blocks.7` and `blocks.21` are `blocks.*`.
    #[arg(long)]
    keep_layers: bool,
    /// Show only the first N kernels, and as many ranges.
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    #[command(flatten)]
    scope: ScopeArguments,
    #[command(flatten)]
    output: OutputArgs,
}

/// By which time a gate judges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum ByArg {
    /// From the beginning of a step to that of the next one.
    Period,
    /// Time on the host, from the beginning to the end.
    Wall,
    /// From the first to the last GPU operation.
    Gpu,
    /// The time in which the GPU was busy.
    Busy,
    /// What is slower by any of them.
    #[default]
    Any,
}

impl From<ByArg> for By {
    fn from(by: ByArg) -> By {
        match by {
            ByArg::Period => By::Period,
            ByArg::Wall => By::Wall,
            ByArg::Gpu => By::Gpu,
            ByArg::Busy => By::Busy,
            ByArg::Any => By::Any,
        }
    }
}

#[derive(Serialize)]
struct Data<'a, P> {
    #[serde(flatten)]
    diff: &'a Diff,
    same_work: bool,
    slower: &'a [Judged],
    /// Whether there was too little to judge by; absent without a gate.
    undecided: Option<bool>,
    /// The difference by the causes of the time of a step; absent where steps do not compare.
    #[serde(skip_serializing_if = "Option::is_none")]
    partition: Option<P>,
}

pub(crate) fn run(arguments: &Arguments, opener: &Opener) -> Result<(), Failure> {
    let classifier = Classifier::new();
    let (before, after) = (opener.open(&arguments.before)?, opener.open(&arguments.after)?);
    let part = arguments.scope.part(&arguments.range);
    let scope = if arguments.all {
        part.scope()
    } else {
        part.of_both(before.recording(), after.recording()).map_err(|error| unanswered(&error))?
    };
    let options = diff::Options { keep_layers: arguments.keep_layers };
    let mut found = diff((before.recording(), &scope), (after.recording(), &scope), options, &classifier)
        .map_err(|error| unanswered(&error))?;
    warn_all(&before);
    warn_all(&after);

    let least = i128::from(arguments.min_total_us) * 1000;
    let gate = arguments.fail_if_slower.map(|percent| {
        let by = By::from(arguments.judge_by);
        (percent, found.gate(percent / 100.0, by))
    });
    let mut said = vec![sentences::diff_scope(&found)];
    said.extend(sentences::diff(&found));
    found.kernels.retain(|kernel| kernel.time.most_ns() >= least);
    let most = |range: &RangeChange| {
        let busy = range.gpus.iter().map(|gpu| gpu.busy.most_ns().max(gpu.projected.most_ns()));
        busy.fold(range.wall.most_ns(), i128::max)
    };
    found.ranges.retain(|range| most(range) >= least);
    let (names, top) = (names_for(arguments.output.format()), arguments.top.unwrap_or(usize::MAX));
    let mut tables = tables::diff(&found, names, top)?;
    // What was recorded outside of steps is not taken apart.
    let partition = if arguments.all {
        None
    } else {
        ask::difference([&before, &after], &part).map_err(|error| failure(&error))?
    };
    if let Some(partition) = &partition {
        tables.extend_from_slice(&partition.tables);
        said.extend_from_slice(&partition.sentences);
    }
    let same_work = found.same_work();
    let data = Data {
        diff: &found,
        same_work,
        slower: gate.as_ref().map(|(_, gate)| gate.slower.as_slice()).unwrap_or_default(),
        undecided: gate.as_ref().map(|(_, gate)| gate.blind),
        partition: partition.map(|answer| answer.data),
    };
    let answer = Answer { data, tables, sentences: said };
    let printed = print(&answer, &arguments.output, opener.console());
    // Also where nobody reads the tables to their end (`| head`): the exit code is what CI asked
    // for.
    match ended(&found, gate.as_ref(), arguments.fail_if_work_differs) {
        Some(failure) => Err(failure),
        None => printed,
    }
}

/// How the gates end the program, which warns of what does not.
fn ended(found: &Diff, gate: Option<&(f64, Verdict)>, same_work: bool) -> Option<Failure> {
    let mut failures = Vec::new();
    if let Some((percent, gate)) = gate {
        flopgap_cli::warn_all(PROGRAM, sentences::other_gpus(found));
        if !gate.slower.is_empty() {
            failures.push(sentences::slower(found, &gate.slower, *percent));
        }
        if !gate.blind && *percent > 0.0 {
            flopgap_cli::warn_all(PROGRAM, sentences::open(found, &gate.open, *percent));
        }
    }
    match (found.same_work(), same_work) {
        (false, true) => failures.push(sentences::verdict(found)),
        (false, false) if gate.is_some() => flopgap_cli::warn(PROGRAM, sentences::verdict(found)),
        _ => {}
    }
    if !failures.is_empty() {
        return Some(Failure::new(failures.join("\n")));
    }
    let (_, gate) = gate.filter(|(_, gate)| gate.blind)?;
    let failure = Failure::new(sentences::undecided(found, gate)).exit(Exit::Undecided);
    Some(failure.hint(if found.judged.is_empty() {
        "mark steps with NVTX ranges or torch.profiler's `step()`, or name ranges that repeat with --range"
    } else {
        "record more steps: 6 or more after warming up, 20 where they scatter by 2 %"
    }))
}
