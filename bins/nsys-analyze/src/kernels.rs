//! `flopgap nsys kernels TRACE [TRACE2]`: where the GPU time of a trace or a range went, by kernel;
//! or of two traces side by side.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use flopgap_cli::{Exit, Failure, FormatArg, OutputArgs};
use flopgap_kernels::{Classifier, KernelClass, distinct_names};
use flopgap_report::ReportError;
use flopgap_report::table::{Cell, Column, Table};
use flopgap_timings::kernels::{KernelTimes, Kernels, Pair, PlaceKernels, kernels, side_by_side};
use flopgap_timings::{RangePattern, Ranges};
use serde::Serialize;

use crate::answer::{Answer, name_of, report, unanswered};
use crate::opening::Opener;
use crate::scope::{ScopeArguments, named};
use crate::sentences;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  flopgap nsys kernels fixtures/nsys/small_forward.sqlite.zst --range forward --top 5
  flopgap nsys kernels fixtures/nsys/small_forward.sqlite.zst fixtures/nsys/small_forward_backward.sqlite.zst
  flopgap nsys kernels fixtures/kineto/ddp_rank0.json.gz --range 'ProfilerStep#*' -o kernels.csv")]
pub(crate) struct Arguments {
    /// A trace: an export of `nsys export --type sqlite`, a trace of `torch.profiler`, or a
    /// directory with those of all ranks of a job; or two of them, to be shown side by side.
    #[arg(required = true, num_args = 1..=2, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Only these ranges, such as `forward` or `step_*`: kernels launched within them. Can be
    /// repeated; `flopgap nsys --help` says how ranges are written.
    #[arg(long, value_name = "RANGE")]
    range: Vec<RangePattern>,
    /// Leave out kernels of these classes, such as `matmul,copy`.
    #[arg(long, value_delimiter = ',', value_name = "CLASS")]
    exclude: Vec<KernelClass>,
    /// Show only the first N kernels.
    #[arg(long, value_name = "N")]
    top: Option<NonZeroUsize>,
    #[command(flatten)]
    scope: ScopeArguments,
    #[command(flatten)]
    output: OutputArgs,
}

/// What JSON prints of two traces.
#[derive(Serialize)]
struct SideBySide<'a> {
    a: &'a str,
    b: &'a str,
    kernels: &'a [Pair],
}

pub(crate) fn run(arguments: &Arguments, opener: &Opener) -> Result<(), Failure> {
    let classifier = Classifier::new();
    let scope = arguments.scope.scope(named(&arguments.range).unwrap_or(Ranges::All));
    let mut found: Vec<Kernels> = Vec::new();
    for path in &arguments.traces {
        let trace = opener.open(path)?;
        found.push(kernels(trace.recording(), &scope, &classifier).map_err(|error| unanswered(&error))?);
        trace.warn_all();
    }
    let names: Vec<String> = arguments.traces.iter().map(|path| name_of(path)).collect();
    match found.as_slice() {
        [one, other] => two(arguments, [one, other], [&names[0], &names[1]], opener),
        _ => one(arguments, &found[0], opener),
    }
}

impl Arguments {
    /// The first of the kernels that are not of an excluded class; shares stay those of everything.
    fn shown<T: Clone>(&self, kernels: &[T], class: impl Fn(&T) -> KernelClass) -> Result<Vec<T>, Failure> {
        let shown = kernels.iter().filter(|kernel| !self.exclude.contains(&class(kernel)));
        let shown: Vec<T> = shown.take(self.top.map_or(usize::MAX, NonZeroUsize::get)).cloned().collect();
        if shown.is_empty() {
            return Err(Failure::new(format!("{}: no kernel is left to show", self.traces[0].display()))
                .hint("all are of an excluded class")
                .exit(Exit::Absent));
        }
        Ok(shown)
    }
}

fn one(arguments: &Arguments, found: &Kernels, opener: &Opener) -> Result<(), Failure> {
    let shown = arguments.shown(&found.kernels, |kernel| kernel.class)?;
    let table = titled(&title(arguments, found), Names::of(arguments.output.format()), found, &shown)
        .map_err(|error| report(&error))?;
    let shown = Kernels { kernels: shown, ..found.clone() };
    let said = if arguments.exclude.is_empty() {
        sentences::kernels(&shown)
    } else {
        sentences::other_kernels(&shown)
    };
    Answer::new(&shown, vec![table], said)?.print(&arguments.output, opener.console())
}

fn title(arguments: &Arguments, found: &Kernels) -> String {
    match found.instances {
        Some(instances) => {
            let by = if arguments.scope.by_process() { ", by process" } else { "" };
            format!("Kernels launched within `{}`{by} ({instances} instances)", found.scope)
        }
        None => "Kernels".to_owned(),
    }
}

/// How the kernels of a table are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// So that a row fits in a line, with what distinguishes rows whose short name is the same.
    Short,
    /// As recorded: for CSV, which programs read.
    Full,
}

impl Names {
    pub(crate) fn of(format: FormatArg) -> Names {
        if format.is_csv() { Names::Full } else { Names::Short }
    }

    /// The names of some kernels, given their full and their short ones.
    pub(crate) fn shown(self, kernels: &[(&str, &str)]) -> Vec<String> {
        match self {
            Names::Short => distinct_names(kernels),
            Names::Full => kernels.iter().map(|(name, _)| (*name).to_owned()).collect(),
        }
    }

    fn of_kernels(self, kernels: &[KernelTimes]) -> Vec<String> {
        let both: Vec<_> =
            kernels.iter().map(|kernel| (kernel.name.as_str(), kernel.short.as_str())).collect();
        self.shown(&both)
    }
}

/// Some kernels with their times. Where several processes or GPUs ran them, their least, middle and
/// largest time, and which is the slowest.
pub(crate) fn titled(
    title: &str,
    names: Names,
    found: &Kernels,
    shown: &[KernelTimes],
) -> Result<Table, ReportError> {
    if found.places.is_empty() {
        return together(title, names, shown);
    }
    let mut table = Table::new(
        format!("{title}: each of {} places", found.places.len()),
        [
            Column::text("kernel", "kernel"),
            Column::text("class", "class").rank(2),
            Column::number("calls_least", "calls, least").rank(3),
            Column::number("calls_most", "most").rank(3),
            Column::number("total_least_ns", "total, least").unit("ns").rank(2),
            Column::number("total_median_ns", "median").unit("ns").rank(2),
            Column::number("total_most_ns", "most").unit("ns").rank(1),
            Column::number("share", "share").rank(0),
            Column::text("slowest", "slowest").rank(0),
        ],
    )?;
    for (kernel, name) in shown.iter().zip(names.of_kernels(shown)) {
        let Some(spread) = found.spread(Some(&kernel.name)) else { continue };
        let calls = || {
            let own = |place: &PlaceKernels| {
                let found = place.kernels.iter().find(|own| own.name == kernel.name);
                found.map_or(0, |own| own.times.count)
            };
            found.places.iter().map(own)
        };
        table.push([
            Cell::text(name),
            Cell::text(kernel.class.as_str()),
            Cell::optional(calls().min(), Cell::from),
            Cell::optional(calls().max(), Cell::from),
            Cell::float(spread.min_ns, 0),
            Cell::float(spread.median_ns, usize::from(spread.median_ns.fract() != 0.0)),
            Cell::float(spread.max_ns, 0),
            Cell::percent(kernel.share, 2),
            Cell::optional(spread.straggler(), |place| Cell::text(place.to_string())),
        ])?;
    }
    Ok(table)
}

/// Kernels with their times, wherever they ran.
fn together(title: &str, names: Names, shown: &[KernelTimes]) -> Result<Table, ReportError> {
    let mut table = Table::new(
        title,
        [
            Column::text("kernel", "kernel"),
            Column::text("class", "class"),
            Column::number("calls", "calls"),
            Column::number("total_ns", "total").unit("ns").rank(0),
            Column::number("mean_ns", "mean").unit("ns").rank(2),
            Column::number("median_ns", "median").unit("ns").rank(3),
            Column::number("share", "share").rank(0),
        ],
    )?;
    for (kernel, name) in shown.iter().zip(names.of_kernels(shown)) {
        table.push([
            Cell::text(name),
            Cell::text(kernel.class.as_str()),
            Cell::from(kernel.times.count),
            Cell::from(kernel.times.total_ns),
            Cell::float(kernel.times.mean_ns, 1),
            Cell::float(kernel.times.median_ns, 1),
            Cell::percent(kernel.share, 2),
        ])?;
    }
    Ok(table)
}

fn two(
    arguments: &Arguments,
    found: [&Kernels; 2],
    names: [&str; 2],
    opener: &Opener,
) -> Result<(), Failure> {
    let pairs = arguments.shown(&side_by_side(found[0], found[1]), |pair| pair.class)?;
    let table = pairs_table(&pairs, Names::of(arguments.output.format())).map_err(|error| report(&error))?;
    let mut said = vec![format!("A is {}, B is {}.", names[0], names[1])];
    said.extend(sentences::kernels_of_both(found));
    let data = SideBySide { a: names[0], b: names[1], kernels: &pairs };
    Answer::new(&data, vec![table], said)?.print(&arguments.output, opener.console())
}

fn pairs_table(pairs: &[Pair], names: Names) -> Result<Table, ReportError> {
    let mut table = Table::new(
        "Kernels of A and B",
        [
            Column::text("kernel", "kernel"),
            Column::text("class", "class").rank(2),
            Column::number("calls_a", "calls A").rank(3),
            Column::number("calls_b", "calls B").rank(3),
            Column::number("total_a_ns", "total A").unit("ns"),
            Column::number("total_b_ns", "total B").unit("ns"),
            Column::number("mean_a_ns", "mean A").unit("ns").rank(2),
            Column::number("mean_b_ns", "mean B").unit("ns").rank(2),
            Column::number("share_a", "share A").rank(0),
            Column::number("share_b", "share B").rank(0),
        ],
    )?;
    let both: Vec<_> = pairs.iter().map(|pair| (pair.name.as_str(), pair.short.as_str())).collect();
    for (pair, name) in pairs.iter().zip(names.shown(&both)) {
        let sides = [pair.a.as_ref(), pair.b.as_ref()];
        let [calls_a, calls_b] = sides.map(|side| Cell::optional(side, |side| Cell::from(side.times.count)));
        let [total_a, total_b] =
            sides.map(|side| Cell::optional(side, |side| Cell::from(side.times.total_ns)));
        let [mean_a, mean_b] =
            sides.map(|side| Cell::optional(side, |side| Cell::float(side.times.mean_ns, 1)));
        let [share_a, share_b] = sides.map(|side| Cell::optional(side, |side| Cell::percent(side.share, 2)));
        table.push([
            Cell::text(name),
            Cell::text(pair.class.as_str()),
            calls_a,
            calls_b,
            total_a,
            total_b,
            mean_a,
            mean_b,
            share_a,
            share_b,
        ])?;
    }
    Ok(table)
}
