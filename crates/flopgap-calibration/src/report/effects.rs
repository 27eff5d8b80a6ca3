//! The effect of batch size and precision.

use std::collections::BTreeMap;

use flopgap_report::ReportError;
use flopgap_report::html::Block;
use flopgap_report::table::{Cell, Column, Table};

use super::ReportInput;
use crate::accuracy::{median, quantile};
use crate::judge::Judged;

pub(super) fn push(input: &ReportInput<'_>, blocks: &mut Vec<Block>) -> Result<(), ReportError> {
    push_batches(input, blocks)?;
    push_precisions(input, blocks)
}

/// Single steps have sizes drawn at random, not batches of one model.
fn is_model(row: &Judged) -> bool {
    matches!(row.family.as_str(), "mlp" | "resnet" | "file" | "")
}

type Samples = Vec<(f64, f64)>;

/// Time for each sample, relative to the smallest batch of the same model, engine, mode and
/// precision.
fn push_batches(input: &ReportInput<'_>, blocks: &mut Vec<Block>) -> Result<(), ReportError> {
    let mut groups = BTreeMap::<[&str; 5], Vec<(u64, &Judged)>>::new();
    for row in input.judged.iter().filter(|row| is_model(row)) {
        if let Some(batch) = row.batch {
            let key = [&row.model, &row.family, &row.engine, &row.mode, &row.precision].map(String::as_str);
            groups.entry(key).or_default().push((batch, row));
        }
    }
    // Models that were not run with the smallest batch have nothing to be compared with.
    let Some(least) = groups.values().flatten().map(|(batch, _)| *batch).min() else { return Ok(()) };
    let mut batches = BTreeMap::<u64, (Samples, Samples)>::new();
    for group in groups.values() {
        let first = |time: fn(&Judged) -> f64| {
            median(group.iter().filter(|(batch, _)| *batch == least).map(|(_, row)| time(row)).collect())
        };
        let firsts = first(|row| row.time.measured).zip(first(|row| row.time.estimated));
        let Some((measured, estimated)) = firsts else { continue };
        if group.iter().all(|(batch, _)| *batch == least) {
            continue;
        }
        for (batch, row) in group {
            let samples = *batch as f64 / least as f64;
            let (total, per_sample) = batches.entry(*batch).or_default();
            total.push((row.time.measured / measured, row.time.estimated / estimated));
            per_sample
                .push((row.time.measured / measured / samples, row.time.estimated / estimated / samples));
        }
    }
    if batches.len() < 2 {
        return Ok(());
    }
    blocks.push(Block::Heading("Batch size effects".to_owned()));
    let mut table = Table::new(
        format!("Time relative to batch {least} of the same model (medians)"),
        [
            Column::number("batch", "batch"),
            Column::number("rows", "rows"),
            Column::number("time", "time"),
            Column::number("time_estimated", "time estimated"),
            Column::number("per_sample", "time per sample"),
            Column::number("per_sample_estimated", "per sample estimated"),
        ],
    )?;
    for (batch, (total, per_sample)) in batches {
        let of = |samples: &Samples, side: fn(&(f64, f64)) -> f64| {
            Cell::optional(median(samples.iter().map(side).collect()), |ratio| Cell::float(ratio, 3))
        };
        table.push([
            Cell::from(batch),
            Cell::from(total.len() as u64),
            of(&total, |pair| pair.0),
            of(&total, |pair| pair.1),
            of(&per_sample, |pair| pair.0),
            of(&per_sample, |pair| pair.1),
        ])?;
    }
    blocks.push(Block::Table(table));
    Ok(())
}

/// Speed relative to fp32 of the same run.
fn push_precisions(input: &ReportInput<'_>, blocks: &mut Vec<Block>) -> Result<(), ReportError> {
    let mut runs = BTreeMap::<[&str; 3], BTreeMap<&str, Vec<&Judged>>>::new();
    for row in input.judged {
        let key = [&row.label, &row.engine, &row.mode].map(String::as_str);
        runs.entry(key).or_default().entry(&row.precision).or_default().push(row);
    }
    let mut speeds = BTreeMap::<(&str, &str), Vec<(f64, f64)>>::new();
    for ([_, engine, _], precisions) in &runs {
        let mean = |rows: &[&Judged], time: fn(&Judged) -> f64| {
            rows.iter().map(|row| time(row)).sum::<f64>() / rows.len() as f64
        };
        let Some(single) = precisions.get("fp32") else { continue };
        for (precision, rows) in precisions {
            let speed = |time: fn(&Judged) -> f64| mean(single, time) / mean(rows, time);
            let pair = (speed(|row| row.time.measured), speed(|row| row.time.estimated));
            speeds.entry((engine, precision)).or_default().push(pair);
        }
    }
    speeds.retain(|(_, precision), _| *precision != "fp32");
    if speeds.is_empty() {
        return Ok(());
    }
    blocks.push(Block::Heading("Precision effects".to_owned()));
    let mut table = Table::new(
        "Speed relative to fp32 of the same run",
        [
            Column::text("engine", "engine"),
            Column::text("precision", "precision"),
            Column::number("rows", "runs"),
            Column::number("speed", "median"),
            Column::number("low", "10th percentile"),
            Column::number("high", "90th percentile"),
            Column::number("estimated", "median estimated"),
        ],
    )?;
    for ((engine, precision), pairs) in speeds {
        let mut measured: Vec<f64> = pairs.iter().map(|pair| pair.0).collect();
        measured.sort_unstable_by(f64::total_cmp);
        let at = |share| Cell::optional(quantile(&measured, share), |speed| Cell::float(speed, 2));
        let estimated = median(pairs.iter().map(|pair| pair.1).collect());
        table.push([
            if engine.is_empty() { Cell::Absent } else { Cell::text(engine) },
            Cell::text(precision),
            Cell::from(pairs.len() as u64),
            at(0.5),
            at(0.1),
            at(0.9),
            Cell::optional(estimated, |speed| Cell::float(speed, 2)),
        ])?;
    }
    blocks.push(Block::Table(table));
    Ok(())
}
