//! The ten worst estimates, each with its most likely cause.

use std::collections::BTreeMap;

use flopgap_report::ReportError;
use flopgap_report::html::Block;
use flopgap_report::table::{Cell, Column, Table};

use super::ReportInput;
use super::words::{duration, percent};
use crate::judge::Judged;

/// How many are listed.
const SHOWN: usize = 10;
/// The mean error of similar rows above which an error of the same sign is attributed to them.
const SYSTEMATIC: f64 = 0.10;
/// The share of launches above which they are the cause.
const LAUNCHES: f64 = 0.6;

type Group<'a> = (&'a str, &'a str, &'a str);

pub(super) fn push(input: &ReportInput<'_>, blocks: &mut Vec<Block>) -> Result<(), ReportError> {
    let mut rows: Vec<&Judged> = input.judged.iter().collect();
    rows.sort_by(|a, b| b.time.error().abs().total_cmp(&a.time.error().abs()));
    rows.truncate(SHOWN);
    if rows.is_empty() {
        return Ok(());
    }
    let biases = biases(input.judged);
    blocks.push(Block::Heading(format!("Worst {}", rows.len())));
    let mut table = Table::new(
        "Largest latency errors",
        [
            Column::text("config", "config"),
            Column::text("how", "how"),
            Column::text("measured", "measured"),
            Column::text("estimated", "estimated"),
            Column::number("error", "error"),
            Column::text("reason", "reason"),
        ],
    )?;
    for row in rows {
        let how = [&row.engine, &row.mode, &row.precision].map(String::as_str);
        let how: Vec<&str> = how.into_iter().filter(|word| !word.is_empty()).collect();
        table.push([
            Cell::text(row.label.clone()),
            Cell::text(how.join(" ")),
            Cell::text(duration(row.time.measured)),
            Cell::text(duration(row.time.estimated)),
            Cell::signed_percent(row.time.error(), 1),
            Cell::text(reason(row, biases.get(&group(row)).copied(), input.judged)),
        ])?;
    }
    blocks.push(Block::Table(table));
    Ok(())
}

fn group(row: &Judged) -> Group<'_> {
    (&row.family, &row.precision, row.bottleneck.as_deref().unwrap_or_default())
}

/// Mean error with its sign of each kind of rows, and how many they are.
fn biases(judged: &[Judged]) -> BTreeMap<Group<'_>, (f64, usize)> {
    let mut sums = BTreeMap::<Group<'_>, (f64, usize)>::new();
    for row in judged {
        let (sum, count) = sums.entry(group(row)).or_default();
        *sum += row.time.error();
        *count += 1;
    }
    sums.into_iter().map(|(group, (sum, count))| (group, (sum / count as f64, count))).collect()
}

/// How many rows near a row show whether its error is isolated.
const NEIGHBORS: usize = 5;

/// Mean magnitude of the errors of the rows nearest in work and bytes, of the same kind, run in the
/// same way.
fn around(row: &Judged, judged: &[Judged]) -> Option<f64> {
    let place = |row: &Judged| Some((row.work.filter(|work| *work > 0.0)?.ln(), row.bytes?.max(1.0).ln()));
    let (work, bytes) = place(row)?;
    let mut near: Vec<(f64, f64)> = judged
        .iter()
        .filter(|other| other.label != row.label && group(other) == group(row) && other.mode == row.mode)
        .filter_map(|other| {
            let (x, y) = place(other)?;
            Some(((x - work).hypot(y - bytes), other.time.error().abs()))
        })
        .collect();
    near.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    near.truncate(NEIGHBORS);
    let errors = near.iter().map(|(_, error)| error).sum::<f64>();
    (near.len() == NEIGHBORS).then(|| errors / NEIGHBORS as f64)
}

fn reason(row: &Judged, bias: Option<(f64, usize)>, judged: &[Judged]) -> String {
    let mut reasons = Vec::new();
    if row.extrapolated {
        reasons.push("beyond the sizes that were fitted".to_owned());
    }
    reasons.extend(row.doubts.iter().map(ToString::to_string));
    if let Some(launch) = row.launch
        && launch > LAUNCHES * row.time.measured
    {
        reasons.push(format!("launches are {} of it", percent((launch / row.time.measured).min(1.0))));
    }
    if let Some((bias, count)) = bias
        && count > 2
        && bias.abs() > SYSTEMATIC
        && bias.signum() == row.time.error().signum()
    {
        let (_, precision, bottleneck) = group(row);
        let words = [precision, if bottleneck.is_empty() { "" } else { bottleneck }];
        let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
        reasons.push(format!(
            "systematic: {} rows like it ({}) are {} too {} on average",
            count,
            words.join(", "),
            percent(bias.abs()),
            if bias > 0.0 { "slow" } else { "fast" }
        ));
    }
    if let Some(baselines) = row.baselines
        && (baselines[2] - row.time.measured).abs() < 0.5 * (row.time.estimated - row.time.measured).abs()
    {
        reasons.push("the baseline is nearer: few rows like it were fitted".to_owned());
    }
    if let Some((low, high)) = row.interval
        && (low..=high).contains(&row.time.measured)
    {
        reasons.push("within its interval".to_owned());
    }
    if reasons.is_empty()
        && let Some(error) = around(row, judged)
    {
        let others = format!("the {NEIGHBORS} rows nearest in size are off by {}", percent(error));
        reasons.push(if 3.0 * error < row.time.error().abs() {
            format!("stands out: {others}; another algorithm, or a disturbed measurement")
        } else {
            format!("hard to tell here: {others}")
        });
    }
    if reasons.is_empty() { "none found".to_owned() } else { reasons.join("; ") }
}
