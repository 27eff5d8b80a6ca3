//! `flopgap nsys attention TRACE`: the parts of attention, their time against their FLOPs.

use std::path::PathBuf;

use flopgap_cli::{Failure, OutputArgs};
use flopgap_flops::{Attention, AttentionMask};
use flopgap_kernels::Classifier;
use flopgap_report::ReportError;
use flopgap_report::table::{Cell, Column, Table};
use flopgap_timings::RangePattern;
use flopgap_timings::attention::{AttentionTimes, Names, Options, attention};

use crate::answer::{Answer, report, unanswered};
use crate::opening::Opener;
use crate::scope::ScopeArguments;
use crate::sentences;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  flopgap nsys attention fixtures/nsys/small_forward.sqlite.zst --batch 4 --heads 12 --seq 512 --head-dim 64")]
pub(crate) struct Arguments {
    /// A trace: an export of `nsys export --type sqlite`, a trace of `torch.profiler`, or a
    /// directory with those of all ranks of a job.
    trace: PathBuf,
    /// Samples in a batch, each a sequence.
    #[arg(long, value_name = "SAMPLES", value_parser = clap::value_parser!(u64).range(1..))]
    batch: u64,
    /// Attention heads.
    #[arg(long, value_name = "H", value_parser = clap::value_parser!(u64).range(1..))]
    heads: u64,
    /// Attention heads of keys and values, if fewer.
    #[arg(long, value_name = "H", value_parser = clap::value_parser!(u64).range(1..))]
    kv_heads: Option<u64>,
    /// Positions of a sequence.
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..))]
    seq: u64,
    /// Width of a head.
    #[arg(long, value_name = "D", value_parser = clap::value_parser!(u64).range(1..))]
    head_dim: u64,
    /// The range around the scores; `flopgap nsys --help` says how ranges are written.
    #[arg(long, value_name = "RANGE", default_value_t = Names::default().scores)]
    qk: RangePattern,
    /// The range around softmax.
    #[arg(long, value_name = "RANGE", default_value_t = Names::default().softmax)]
    softmax: RangePattern,
    /// The range around the weighted sum of the values.
    #[arg(long, value_name = "RANGE", default_value_t = Names::default().weighted_sum)]
    av: RangePattern,
    #[command(flatten)]
    scope: ScopeArguments,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn run(arguments: &Arguments, opener: &Opener) -> Result<(), Failure> {
    let trace = opener.open(&arguments.trace)?;
    let options = Options {
        sizes: Attention {
            batch: arguments.batch,
            heads: arguments.heads,
            kv_heads: arguments.kv_heads.unwrap_or(arguments.heads),
            queries: arguments.seq,
            keys: arguments.seq,
            head_width: arguments.head_dim,
            mask: AttentionMask::Full,
        },
        names: Names {
            scores: arguments.qk.clone(),
            softmax: arguments.softmax.clone(),
            weighted_sum: arguments.av.clone(),
        },
        warm_up: arguments.scope.warm_up(),
        attribution: arguments.scope.attribution(),
        pool: arguments.scope.pool(),
    };
    let found =
        attention(trace.recording(), &options, &Classifier::new()).map_err(|error| unanswered(&error))?;
    trace.warn_all();
    let tables = [parts(&found), ratios(&found), contents(&found)];
    let tables =
        tables.into_iter().collect::<Result<Vec<_>, ReportError>>().map_err(|error| report(&error))?;
    Answer::new(&found, tables, sentences::attention(&found))?.print(&arguments.output, opener.console())
}

/// Microseconds to the nanosecond.
fn us(ns: f64) -> Cell {
    Cell::float(ns / 1e3, 3)
}

/// Each part's time and FLOPs.
pub(crate) fn parts(found: &AttentionTimes) -> Result<Table, ReportError> {
    let mut table = Table::new(
        "Attention, one layer (means)",
        [
            Column::text("part", "part"),
            Column::text("range", "range").rank(2),
            Column::number("n", "n").rank(3),
            Column::number("flops", "FLOPs"),
            Column::number("range_us", "range").unit("µs").rank(2),
            Column::number("own_us", "own kernels").unit("µs").rank(0),
            Column::number("own_tflops", "achieved").unit("TFLOP/s").rank(0),
            Column::number("range_tflops", "over the range").unit("TFLOP/s").rank(2),
        ],
    )?;
    for (name, part) in found.parts() {
        let tera = |rate: f64| Cell::float(rate / 1e12, 3);
        table.push([
            Cell::text(name),
            Cell::text(&part.range),
            Cell::optional(part.shares.instances, Cell::from),
            Cell::from(part.flops),
            us(part.range_ns),
            Cell::optional(part.own_ns, us),
            Cell::optional(part.flops_per_second(), tera),
            Cell::optional(part.range_flops_per_second(), tera),
        ])?;
    }
    Ok(table)
}

/// The products against softmax.
pub(crate) fn ratios(found: &AttentionTimes) -> Result<Table, ReportError> {
    let mut table = Table::new(
        "Both products over softmax",
        [Column::text("of", "of"), Column::number("ratio", "ratio")],
    )?;
    for (name, ratio) in [
        ("FLOPs", found.flop_ratio()),
        ("time of their own kernels", found.time_ratio()),
        ("time of the ranges", found.range_time_ratio()),
    ] {
        table.push([Cell::text(name), Cell::optional(ratio, |ratio| Cell::float(ratio, 2))])?;
    }
    Ok(table)
}

/// What runs in each range, so that a reader sees when it is more than its name says.
pub(crate) fn contents(found: &AttentionTimes) -> Result<Table, ReportError> {
    let mut table = Table::new(
        "What runs in the ranges (one instance)",
        [
            Column::text("part", "part"),
            Column::text("work", "work").rank(0),
            Column::number("calls", "calls").rank(2),
            Column::number("time_us", "time").unit("µs"),
            Column::number("share", "share").rank(0),
        ],
    )?;
    for (name, part) in found.parts() {
        for share in &part.shares.shares {
            table.push([
                Cell::text(name),
                Cell::text(share.work.as_str()),
                Cell::float(part.shares.each(i128::from(share.calls)), 1),
                us(part.shares.each(share.total_ns)),
                Cell::percent(share.share, 2),
            ])?;
        }
    }
    Ok(table)
}
