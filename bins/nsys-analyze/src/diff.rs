//! `flopgap nsys diff BEFORE AFTER`: what got slower and what faster.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::ValueEnum;
use flopgap_cli::{Exit, Failure, OutputArgs};
use flopgap_kernels::Classifier;
use flopgap_report::ReportError;
use flopgap_report::table::{Cell, Column, Table};
use flopgap_timings::compare::scopes;
use flopgap_timings::diff::{
    self, By, Change, Diff, Judged, Measure, PlaceDiff, Quantity, RangeChange, Side, Verdict, diff,
};
use flopgap_timings::{RangePattern, Ranges};
use serde::Serialize;

use crate::answer::{Answer, ms, report, unanswered};
use crate::kernels::Names;
use crate::opening::Opener;
use crate::scope::{ScopeArguments, named};
use crate::{PROGRAM, sentences};

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
struct Data<'a> {
    #[serde(flatten)]
    diff: &'a Diff,
    same_work: bool,
    slower: &'a [Judged],
    /// Whether there was too little to judge by; absent without a gate.
    undecided: Option<bool>,
}

pub(crate) fn run(arguments: &Arguments, opener: &Opener) -> Result<(), Failure> {
    let classifier = Classifier::new();
    let (before, after) = (opener.open(&arguments.before)?, opener.open(&arguments.after)?);
    let scope = |ranges: Ranges| arguments.scope.scope(ranges);
    let scope = match named(&arguments.range) {
        Some(ranges) => scope(ranges),
        None if arguments.all => scope(Ranges::All),
        None => scopes(before.recording(), after.recording(), &scope(Ranges::Steps))
            .map_err(|error| unanswered(&error))?,
    };
    let options = diff::Options { keep_layers: arguments.keep_layers };
    let mut found = diff((before.recording(), &scope), (after.recording(), &scope), options, &classifier)
        .map_err(|error| unanswered(&error))?;
    before.warn_all();
    after.warn_all();

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
    let mut tables = Vec::new();
    if !found.judged.is_empty() {
        tables.push(steps(&found));
    }
    for place in &found.places {
        tables.push(times(&found, place));
    }
    tables.extend([kernels(arguments, &found), ranges(arguments, &found)]);
    let tables =
        tables.into_iter().collect::<Result<Vec<_>, ReportError>>().map_err(|error| report(&error))?;
    let same_work = found.same_work();
    let data = Data {
        diff: &found,
        same_work,
        slower: gate.as_ref().map(|(_, gate)| gate.slower.as_slice()).unwrap_or_default(),
        undecided: gate.as_ref().map(|(_, gate)| gate.blind),
    };
    let answer = Answer::new(&data, tables, said)?;
    let printed = answer.print(&arguments.output, opener.console());
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

/// Each time of steps and passes, with the interval of its change.
fn steps(found: &Diff) -> Result<Table, ReportError> {
    let mut table = Table::new(
        "Medians of steps and passes; 98% interval of the change",
        [
            Column::text("range", "range"),
            Column::text("time", "time").rank(0),
            Column::number("n_before", "n").rank(3),
            Column::number("n_after", "after").rank(3),
            Column::number("median_before_ms", "before").unit("ms"),
            Column::number("median_after_ms", "after").unit("ms"),
            Column::number("change", "change").rank(0),
            Column::number("low", "from").rank(0),
            Column::number("high", "to").rank(0),
        ],
    )?;
    for judged in &found.judged {
        let [before, after] = &judged.samples;
        let medians = Quantity { before: Some(before.median_ns), after: Some(after.median_ns) };
        let change = judged.shift.map_or(medians.fraction(), |shift| Some(shift.change));
        table.push([
            Cell::text(judged.pass.as_ref().unwrap_or(&found.scope[1])),
            Cell::text(match judged.by {
                Measure::Period => "period",
                Measure::Wall => "wall",
                Measure::Projected => "GPU projected",
                _ => "GPU busy",
            }),
            Cell::from(before.count),
            Cell::from(after.count),
            ms(before.median_ns),
            ms(after.median_ns),
            changed(change),
            changed(judged.shift.map(|shift| shift.low)),
            changed(judged.shift.map(|shift| shift.high)),
        ])?;
    }
    Ok(table)
}

fn us(ns: f64) -> Cell {
    Cell::float(ns / 1e3, 3)
}

fn changed(fraction: Option<f64>) -> Cell {
    Cell::optional(fraction, |fraction| Cell::signed_percent(fraction, 2))
}

/// The times and the work of the scope in one place.
fn times(found: &Diff, place: &PlaceDiff) -> Result<Table, ReportError> {
    let scope = match (&found.instances, &found.scope) {
        ([None, None], _) => "Everything recorded".to_owned(),
        (_, [before, after]) if before == after => format!("One `{after}`"),
        (_, [before, after]) => format!("One `{before}` before, one `{after}` after"),
    };
    let title = match place.place {
        [Some(before), Some(after)] if before == after => format!("{scope}, {after}"),
        [Some(before), Some(after)] => format!("{scope}, {before} before, {after} after"),
        _ => scope,
    };
    let mut table = Table::new(
        title,
        [
            Column::text("what", "what"),
            Column::number("before", "before"),
            Column::number("after", "after"),
            Column::number("difference", "difference").rank(2),
            Column::number("change", "change").rank(0),
        ],
    )?;
    let mut row = |what: &str, quantity: Quantity, cell: &dyn Fn(f64) -> Cell| {
        table.push([
            Cell::text(what),
            Cell::optional(quantity.before, cell),
            Cell::optional(quantity.after, cell),
            Cell::optional(quantity.difference(), cell),
            changed(quantity.fraction()),
        ])
    };
    for (what, quantity) in [
        ("wall time (µs)", place.wall_ns),
        ("GPU projected (µs)", place.projected_ns),
        ("GPU busy (µs)", place.busy_ns),
        ("own gaps (µs)", place.gaps_ns),
        ("GPU overlap (µs)", place.overlap_ns),
        ("durations of operations (µs)", place.operations_ns),
    ] {
        row(what, quantity, &us)?;
    }
    for (what, quantity) in [
        ("kernel launches", place.kernels),
        ("copies", place.copies),
        ("copied bytes", place.copied_bytes),
        ("sets", place.sets),
        ("set bytes", place.set_bytes),
    ] {
        row(what, quantity, &|count| Cell::float(count, usize::from(count.fract() != 0.0)))?;
    }
    Ok(table)
}

/// What the place of a row is, where there are several.
fn place_of(found: &Diff, at: usize) -> Cell {
    let [before, after] = found.places[at].place;
    Cell::optional(after.or(before), |place| Cell::text(place.to_string()))
}

fn kernels(arguments: &Arguments, found: &Diff) -> Result<Table, ReportError> {
    let several = found.places.len() > 1;
    let mut columns = vec![Column::text("kernel", "kernel"), Column::text("class", "class").rank(2)];
    columns.extend(several.then(|| Column::text("place", "place").rank(0)));
    columns.extend([
        Column::number("launches_before", "launches before").rank(3),
        Column::number("launches_after", "after").rank(3),
        Column::number("each_before_us", "time before").unit("µs"),
        Column::number("each_after_us", "after").unit("µs"),
        Column::number("difference_us", "difference").unit("µs").rank(0),
        Column::number("change", "change").rank(0),
        Column::number("per_launch", "per launch").rank(2),
        Column::number("per_byte", "per byte").rank(2),
    ]);
    let of = if found.instances == [None, None] { "everything recorded" } else { "one instance" };
    let mut table = Table::new(format!("Kernels before and after, of {of}"), columns)?;
    let launches = |side: Side| Cell::float(side.each_calls, usize::from(side.each_calls.fract() != 0.0));
    let shown = &found.kernels[..arguments.top.unwrap_or(usize::MAX).min(found.kernels.len())];
    // A kernel has a row for each place, under one name.
    let names: BTreeSet<(&str, &str)> =
        shown.iter().map(|kernel| (kernel.name.as_str(), kernel.short.as_str())).collect();
    let names: Vec<_> = names.into_iter().collect();
    let called: BTreeMap<&str, String> =
        names.iter().map(|(name, _)| *name).zip(Names::of(arguments.output.format()).shown(&names)).collect();
    for kernel in shown {
        let Change { before, after } = kernel.time;
        let per_byte = |side: Side| Some(side.each_ns / side.each_bytes.filter(|bytes| *bytes > 0.0)?);
        let bytes = Quantity { before: before.and_then(per_byte), after: after.and_then(per_byte) };
        let change = match (before, after) {
            (None, _) => Cell::text("new"),
            (_, None) => Cell::text("gone"),
            _ => changed(kernel.time.fraction()),
        };
        let mut row = vec![Cell::text(&called[kernel.name.as_str()]), Cell::text(kernel.class.as_str())];
        row.extend(several.then(|| place_of(found, kernel.place)));
        row.extend([
            Cell::optional(before, launches),
            Cell::optional(after, launches),
            Cell::optional(before, |side| us(side.each_ns)),
            Cell::optional(after, |side| us(side.each_ns)),
            us(kernel.time.difference_ns()),
            change,
            changed(kernel.time.per_call()),
            changed(bytes.fraction()),
        ]);
        table.push(row)?;
    }
    Ok(table)
}

fn ranges(arguments: &Arguments, found: &Diff) -> Result<Table, ReportError> {
    let several = found.ranges.iter().any(|range| range.process != [None, None]);
    let mut columns = vec![Column::text("range", "range")];
    columns.extend(several.then(|| Column::text("process", "process").rank(0)));
    columns.extend([
        Column::text("time", "time").rank(0),
        Column::number("n_before", "n before").rank(2),
        Column::number("n_after", "after").rank(2),
        Column::number("mean_before_us", "mean before").unit("µs"),
        Column::number("mean_after_us", "after").unit("µs"),
        Column::number("difference_us", "difference").unit("µs"),
        Column::number("change", "change").rank(0),
    ]);
    let mut table = Table::new("Ranges before and after: means of n instances", columns)?;
    for range in found.ranges.iter().take(arguments.top.unwrap_or(usize::MAX)) {
        let mut row = |time: &str, change: &Change| {
            let Change { before, after } = *change;
            let difference = match (before, after) {
                (None, None) => return Ok(()),
                (None, _) => Cell::text("new"),
                (_, None) => Cell::text("gone"),
                _ => changed(change.fraction()),
            };
            let mut row = vec![Cell::text(&range.name)];
            let process = range.process[1].or(range.process[0]);
            row.extend(several.then(|| Cell::optional(process, |process| Cell::text(process.to_string()))));
            row.extend([
                Cell::text(time),
                Cell::optional(before, |side| Cell::from(side.calls)),
                Cell::optional(after, |side| Cell::from(side.calls)),
                Cell::optional(before, |side| us(side.each_ns)),
                Cell::optional(after, |side| us(side.each_ns)),
                us(change.difference_ns()),
                difference,
            ]);
            table.push(row)
        };
        row("wall", &range.wall)?;
        for gpu in &range.gpus {
            let number = gpu.gpu[1].or(gpu.gpu[0]).map(|number| format!("GPU {number}"));
            let number = number.as_deref().unwrap_or("GPU");
            row(&format!("{number} projected"), &gpu.projected)?;
            row(&format!("{number} busy"), &gpu.busy)?;
            row(&format!("{number} own gaps"), &gpu.gaps)?;
            let overlaps = |side: Option<Side>| side.is_some_and(|side| side.total_ns != 0);
            if overlaps(gpu.overlap.before) || overlaps(gpu.overlap.after) {
                row(&format!("{number} overlap"), &gpu.overlap)?;
            }
        }
    }
    Ok(table)
}
