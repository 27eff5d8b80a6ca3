//! `nsys-analyze diff BEFORE AFTER`: what got slower and what faster.

use std::fmt::Write as _;
use std::path::PathBuf;

use flopgap_cli::{Failure, FormatArg};
use flopgap_kernels::Classifier;
use flopgap_report::ReportError;
use flopgap_report::table::{Cell, Column, Table};
use flopgap_timings::compare::scopes;
use flopgap_timings::diff::{Change, Diff, Slower, diff};
use flopgap_timings::{RangePattern, Ranges};
use serde::Serialize;

use crate::answer::{Answer, report, unanswered};
use crate::scope::{ScopeArguments, named};
use crate::{open, warn_all};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// An export of `nsys export --type sqlite`, before the change.
    before: PathBuf,
    /// One after the change.
    after: PathBuf,
    /// End with exit code 1 when the total GPU time, a kernel or a range is slower by more than this percentage.
    #[arg(long, value_name = "PCT", value_parser = flopgap_cli::percentage)]
    fail_if_slower: Option<f64>,
    /// Judge and show only kernels and ranges whose total is at least this many microseconds in one of the traces.
    #[arg(long, value_name = "US", default_value_t = 100)]
    min_total_us: u64,
    /// Only kernels launched within these NVTX ranges, for each instance; without it, those of whole steps when both traces mark steps,
    /// and else all. `nsys-analyze --help` says how ranges are written; may be given several times.
    #[arg(long, value_name = "RANGE")]
    range: Vec<RangePattern>,
    /// Compare everything that was recorded, also where steps are marked.
    #[arg(long, conflicts_with = "range")]
    all: bool,
    /// Show at most this many kernels, and as many ranges.
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    #[command(flatten)]
    scope: ScopeArguments,
    /// How to print the result.
    #[arg(long, value_enum, default_value_t)]
    format: FormatArg,
}

#[derive(Serialize)]
struct Data<'a> {
    #[serde(flatten)]
    diff: &'a Diff,
    slower: &'a [Slower],
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let classifier = Classifier::new();
    let (before, after) = (open(&arguments.before)?, open(&arguments.after)?);
    let scope = |ranges: Ranges| arguments.scope.of(ranges);
    let scope = match named(&arguments.range) {
        Some(ranges) => scope(ranges),
        None if arguments.all => scope(Ranges::All),
        None => scopes(&before, &after, &scope(Ranges::Steps)).map_err(|error| unanswered(&error))?,
    };
    let mut found =
        diff((&before, &scope), (&after, &scope), &classifier).map_err(|error| unanswered(&error))?;
    warn_all(&before);
    warn_all(&after);

    let least = i128::from(arguments.min_total_us) * 1000;
    let slower =
        arguments.fail_if_slower.map(|percent| found.slower(percent / 100.0, least)).unwrap_or_default();
    let mut sentences = vec![scope_sentence(&found)];
    sentences.extend(found.sentences());
    found.kernels.retain(|kernel| kernel.time.most_ns() >= least);
    found.ranges.retain(|range| range.gpu.most_ns().max(range.host.most_ns()) >= least);
    let tables = [kernels(arguments, &found), ranges(arguments, &found)];
    let tables =
        tables.into_iter().collect::<Result<Vec<_>, ReportError>>().map_err(|error| report(&error))?;
    sentences.extend(found.rule.clone());
    sentences.push(found.attribution.clone());
    let answer = Answer::new(&Data { diff: &found, slower: &slower }, tables, sentences)?;
    let printed = answer.print(arguments.format);
    match (slower.as_slice(), arguments.fail_if_slower) {
        ([], _) | (_, None) => printed,
        // Also where nobody reads the tables to their end (`| head`): the exit code is what CI asked for.
        (slower, Some(percent)) => Err(Failure::new(too_slow(slower, percent))),
    }
}

fn scope_sentence(found: &Diff) -> String {
    let side = |at: usize| match found.instances[at] {
        Some(instances) => format!("one `{}` (mean of {instances})", found.scope[at]),
        None => "everything recorded".to_owned(),
    };
    format!("Kernels are those of {} before and {} after.", side(0), side(1))
}

fn too_slow(slower: &[Slower], percent: f64) -> String {
    let mut text = format!("slower by more than {percent}%:");
    for slower in slower {
        let _ = write!(
            text,
            "\n  {}: {:.3} ms before, {:.3} ms after ({:+.1}%)",
            slower.what,
            slower.before_ns / 1e6,
            slower.after_ns / 1e6,
            slower.fraction * 100.0
        );
    }
    text
}

/// Calls, times and their change, of both traces.
fn cells(change: &Change) -> [Cell; 8] {
    let (before, after) = (change.before, change.after);
    let us = |ns: f64| Cell::float(ns / 1e3, 3);
    let changed = match (before, after) {
        (None, _) => Cell::text("new"),
        (_, None) => Cell::text("gone"),
        _ => Cell::optional(change.fraction(), |fraction| Cell::signed_percent(fraction, 2)),
    };
    [
        Cell::optional(before, |side| Cell::from(side.calls)),
        Cell::optional(after, |side| Cell::from(side.calls)),
        Cell::optional(before, |side| us(side.each_ns)),
        Cell::optional(after, |side| us(side.each_ns)),
        Cell::optional(before, |side| us(side.mean_ns)),
        Cell::optional(after, |side| us(side.mean_ns)),
        us(change.difference_ns()),
        changed,
    ]
}

fn columns(each: &str) -> [Column; 8] {
    [
        Column::number("calls_before", "calls before"),
        Column::number("calls_after", "after"),
        Column::number("each_before_us", format!("{each} before")).unit("µs"),
        Column::number("each_after_us", "after").unit("µs"),
        Column::number("mean_before_us", "mean before").unit("µs"),
        Column::number("mean_after_us", "after").unit("µs"),
        Column::number("difference_us", "difference").unit("µs"),
        Column::number("change", "change"),
    ]
}

fn kernels(arguments: &Arguments, found: &Diff) -> Result<Table, ReportError> {
    let each = if found.instances == [None, None] { "total" } else { "time" };
    let first = [Column::text("kernel", "kernel"), Column::text("class", "class")];
    let mut table = Table::new("Kernels before and after", first.into_iter().chain(columns(each)))?;
    for kernel in found.kernels.iter().take(arguments.top.unwrap_or(usize::MAX)) {
        let first = [Cell::text(&kernel.short), Cell::text(kernel.class.as_str())];
        table.push(first.into_iter().chain(cells(&kernel.time)))?;
    }
    let total = [Cell::text("(all)"), Cell::Absent];
    table.push(total.into_iter().chain(cells(&found.total)))?;
    Ok(table)
}

fn ranges(arguments: &Arguments, found: &Diff) -> Result<Table, ReportError> {
    let mut table = Table::new(
        "Ranges before and after: means of their instances",
        [
            Column::text("range", "range"),
            Column::number("n_before", "n before"),
            Column::number("n_after", "after"),
            Column::number("gpu_before_us", "GPU busy before").unit("µs"),
            Column::number("gpu_after_us", "after").unit("µs"),
            Column::number("gpu_change", "change"),
            Column::number("host_before_us", "host before").unit("µs"),
            Column::number("host_after_us", "after").unit("µs"),
            Column::number("host_change", "change"),
        ],
    )?;
    let us = |ns: f64| Cell::float(ns / 1e3, 3);
    let change = |change: &Change| match (change.before, change.after) {
        (None, None) => Cell::Absent,
        (None, _) => Cell::text("new"),
        (_, None) => Cell::text("gone"),
        _ => Cell::optional(change.fraction(), |fraction| Cell::signed_percent(fraction, 2)),
    };
    for range in found.ranges.iter().take(arguments.top.unwrap_or(usize::MAX)) {
        table.push([
            Cell::text(&range.name),
            Cell::optional(range.host.before, |side| Cell::from(side.calls)),
            Cell::optional(range.host.after, |side| Cell::from(side.calls)),
            Cell::optional(range.gpu.before, |side| us(side.each_ns)),
            Cell::optional(range.gpu.after, |side| us(side.each_ns)),
            change(&range.gpu),
            Cell::optional(range.host.before, |side| us(side.each_ns)),
            Cell::optional(range.host.after, |side| us(side.each_ns)),
            change(&range.host),
        ])?;
    }
    Ok(table)
}
