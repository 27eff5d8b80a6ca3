//! `flopgap calibrate compare OLD NEW`: two calibrations of one machine, point by point.

use std::path::PathBuf;

use flopgap_calibration::compare::{Change, Comparison};
use flopgap_cli::{Console, Exit, Failure, OutputArgs};
use flopgap_report::ReportError;
use flopgap_report::numbers::{percent, signed_percent};
use flopgap_report::table::{Cell, Column, Format, Table};

use crate::PROGRAM;
use crate::load;

/// Rows of a table for readers.
const SHOWN: usize = 20;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  flopgap calibrate compare monday/calibration.jsonl tuesday/calibration.jsonl --fail-if-changed 5")]
pub(crate) struct Arguments {
    /// Earlier calibration: a file or run directory
    old: PathBuf,
    /// Later calibration
    new: PathBuf,
    /// Exit with code 1 if the time of a point changes by more than this, in either direction
    #[arg(long, value_name = "PERCENT", default_value = "10%", value_parser = flopgap_cli::percentage)]
    fail_if_changed: f64,
    /// Allow calibrations of different machines
    #[arg(long)]
    across_machines: bool,
    /// Show only the first N rows, of the points that changed most; 0 shows all [default: 20, in
    /// JSON and CSV all]
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn run(arguments: &Arguments, console: Console) -> Result<(), Failure> {
    let old = load::calibration(&arguments.old, None, console)?;
    let new = load::calibration(&arguments.new, None, console)?;
    let (theirs, ours) = (&old.header.origin, &new.header.origin);
    if let Some(difference) = theirs.machine_differences(ours).first()
        && !arguments.across_machines
    {
        let message = format!(
            "{} and {} are from different machines: {} was `{}` and is `{}`",
            arguments.old.display(),
            arguments.new.display(),
            difference.part,
            difference.theirs.as_deref().unwrap_or("not recorded"),
            difference.ours.as_deref().unwrap_or("not recorded"),
        );
        return Err(Failure::new(message).hint("pass `--across-machines` to compare them anyway"));
    }
    for difference in theirs.version_differences(ours) {
        let [before, after] =
            [&difference.theirs, &difference.ours].map(|value| value.as_deref().unwrap_or("not recorded"));
        console.note(format_args!("{}: {before} → {after}", difference.part));
    }
    let comparison = Comparison::of(&old, &new);
    for (rows, which) in [(&comparison.only_old, "old"), (&comparison.only_new, "new")] {
        if let Some(first) = rows.first() {
            flopgap_cli::note(
                PROGRAM,
                format_args!("{} rows are only in the {which} calibration, such as {first}", rows.len()),
            );
        }
    }
    if comparison.changes.is_empty() {
        let message = "the calibrations have no rows in common";
        return Err(Failure::new(message).exit(Exit::Absent).hint("compare sweeps of the same workloads"));
    }
    let format = arguments.output.format();
    let shown = match arguments.top {
        None if !format.is_csv() && format != Format::Json => SHOWN,
        None | Some(0) => comparison.changes.len(),
        Some(top) => top,
    };
    let table = table(&comparison, shown)?;
    let text = table.render(format, &arguments.output.text())?;
    arguments.output.write(console, &text)?;
    judge(&comparison, arguments.fail_if_changed / 100.0, console)
}

/// Says what all points have in common, and fails where some are beyond the threshold.
fn judge(comparison: &Comparison, threshold: f64, console: Console) -> Result<(), Failure> {
    let total = comparison.changes.len();
    let median = comparison.median().unwrap_or(0.0);
    let (mean, p90) = comparison.spread().unwrap_or_default();
    console.note(format_args!(
        "{total} points: median change {}, mean of the magnitudes {}, 90th percentile {}",
        signed_percent(median, 1),
        percent(mean, 1),
        percent(p90, 1)
    ));
    let beyond: Vec<&Change> = comparison.beyond(threshold).collect();
    if beyond.is_empty() {
        return Ok(());
    }
    let slower = beyond.iter().filter(|change| change.relative() > 0.0).count();
    let message = format!(
        "{} of {total} points changed by more than {}: {slower} are slower, {} faster",
        beyond.len(),
        percent(threshold, 1),
        beyond.len() - slower
    );
    Err(Failure::new(message).hint("`--fail-if-changed PERCENT` sets the allowed change"))
}

fn table(comparison: &Comparison, shown: usize) -> Result<Table, ReportError> {
    let total = comparison.changes.len();
    let title = if shown < total {
        format!("The {shown} of {total} points that changed most")
    } else {
        "Points, the largest change first".to_owned()
    };
    let mut table = Table::new(
        title,
        [
            Column::text("config", "config"),
            Column::text("engine", "engine"),
            Column::text("mode", "mode"),
            Column::text("precision", "precision"),
            Column::number("old_ms", "old").unit("ms"),
            Column::number("new_ms", "new").unit("ms"),
            Column::number("change", "change").rank(0),
            Column::number("memory_change", "memory").rank(2),
            Column::text("intervals", "intervals").rank(0),
        ],
    )?;
    for change in comparison.changes.iter().take(shown) {
        table.push([
            Cell::text(change.label.clone()),
            Cell::text(change.engine.clone()),
            Cell::text(change.mode),
            Cell::text(change.precision.clone()),
            Cell::float(change.old_ns / 1e6, 4),
            Cell::float(change.new_ns / 1e6, 4),
            Cell::signed_percent(change.relative(), 1),
            Cell::optional(change.relative_memory(), |memory| Cell::signed_percent(memory, 1)),
            Cell::text(if change.overlaps { "overlap" } else { "apart" }),
        ])?;
    }
    Ok(table)
}
