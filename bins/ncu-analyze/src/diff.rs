//! `ncu-analyze diff A B`: compares the kernels of two reports.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use flopgap_cli::{Console, Failure, OutputArgs};
use flopgap_kernels::{Classifier, KernelClass};
use flopgap_phases::Totals;
use flopgap_report::ReportError;
use flopgap_report::table::{Cell, Column, Table};

use crate::input::Input;
use crate::{PROGRAM, failure, gaps};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  ncu-analyze diff before.ncu-rep after.ncu-rep --changed
  ncu-analyze diff fixtures/ncu/lm_raw.csv.zst fixtures/ncu/lm_raw_base.csv.zst -o kernels.csv")]
pub(crate) struct Arguments {
    /// Report to compare with
    a: PathBuf,
    /// Report to compare
    b: PathBuf,
    /// Show only changes: leave out kernels whose launches and FLOPs are equal
    #[arg(long)]
    changed: bool,
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    output: OutputArgs,
}

/// Kernels are matched by class and display name: full names are shortened differently from report
/// to report.
type Key = (KernelClass, String);

pub(crate) fn run(arguments: &Arguments, console: Console) -> Result<(), Failure> {
    Input::at_most_one_stdin([arguments.a.as_path(), arguments.b.as_path()])?;
    let classifier = Classifier::new();
    let load = |path: &Path| -> Result<(BTreeMap<Key, Totals>, Option<u64>), Failure> {
        let read = || arguments.input.profile(path, &classifier);
        let profile =
            console.timed(format!("{}: read", path.display()), read).map_err(|error| failure(&error))?;
        flopgap_cli::warn_all(PROGRAM, &profile.warnings);
        gaps::warn(path, &profile);
        let groups = profile.group(|kernel| (kernel.info.class, kernel.info.short.clone()));
        let groups = groups?;
        Ok((groups.into_iter().collect(), profile.lost_at))
    };
    let ((a, a_lost), (b, b_lost)) = (load(&arguments.a)?, load(&arguments.b)?);
    let table = compare(&a, &b, arguments.changed)?;
    let text = table.render(arguments.output.format().into(), &arguments.output.text());
    arguments.output.write(console, &text?)?;
    gaps::require_whole(&arguments.a, a_lost)?;
    gaps::require_whole(&arguments.b, b_lost)
}

/// A kernel in A and in B.
struct Row<'a> {
    key: &'a Key,
    launches: [u64; 2],
    /// FLOPs, where all launches were measured.
    work: [Option<u64>; 2],
    difference: Option<i128>,
}

fn compare(
    a: &BTreeMap<Key, Totals>,
    b: &BTreeMap<Key, Totals>,
    changed: bool,
) -> Result<Table, ReportError> {
    let mut table = Table::new(
        "Kernels of A and B",
        [
            Column::text("kernel", "kernel"),
            Column::text("class", "class"),
            Column::number("launches_a", "launches A"),
            Column::number("launches_b", "launches B"),
            Column::number("flops_a", "work A").unit("FLOP"),
            Column::number("flops_b", "work B").unit("FLOP"),
            Column::number("flops_difference", "B - A").unit("FLOP"),
            Column::number("flops_change", "change"),
        ],
    )?;
    // A kernel missing on one side was launched 0 times there with 0 FLOPs: that is known, not
    // missing.
    let flops = |totals: Option<&Totals>| match totals {
        None => Some(0),
        Some(totals) => totals.complete(totals.flops),
    };
    let launches = |totals: Option<&Totals>| totals.map_or(0, |totals| totals.launches);
    let mut rows: Vec<Row<'_>> = Vec::new();
    let mut keys: Vec<&Key> = a.keys().chain(b.keys()).collect();
    keys.sort();
    keys.dedup();
    for key in keys {
        let (one, other) = (a.get(key), b.get(key));
        let counts = [launches(one), launches(other)];
        let work = [flops(one), flops(other)];
        let difference = work[0].zip(work[1]).map(|(a, b)| i128::from(b) - i128::from(a));
        if !changed || counts[0] != counts[1] || difference != Some(0) {
            rows.push(Row { key, launches: counts, work, difference });
        }
    }
    rows.sort_by_key(|row| Reverse((row.difference.map(i128::unsigned_abs), row.work[0].max(row.work[1]))));
    for Row { key: (class, name), launches: counts, work, difference } in rows {
        let change = match (work[0], difference) {
            (Some(before), Some(difference)) if before > 0 => {
                Cell::signed_percent(difference as f64 / before as f64, 2)
            }
            _ => Cell::Absent,
        };
        table.push([
            Cell::text(name),
            Cell::text(class.as_str()),
            Cell::from(counts[0]),
            Cell::from(counts[1]),
            Cell::optional(work[0], Cell::from),
            Cell::optional(work[1], Cell::from),
            Cell::optional(difference, Cell::Signed),
            change,
        ])?;
    }
    Ok(table)
}
