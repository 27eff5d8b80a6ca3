//! The accuracy of the estimates: in total, by the bars, and compared with baselines.

use std::collections::BTreeMap;

use flopgap_report::ReportError;
use flopgap_report::html::Block;
use flopgap_report::table::{Cell, Column, Table};
use flopgap_roofline::predict::Baseline;

use super::words::{error_cells, error_columns, percent};
use super::{ReportInput, beats_baselines};
use crate::accuracy::{Accuracy, COVERAGE, Coverage, Errors, coverage};
use crate::judge::{Judged, Pair, WithKernels};

/// The mean error of times below which an estimator meets its target.
const TARGET: f64 = 0.10;

pub(super) fn push(input: &ReportInput<'_>, blocks: &mut Vec<Block>) -> Result<(), ReportError> {
    blocks.push(Block::Heading("Summary".to_owned()));
    blocks.push(Block::List(sentences(input)));
    let mut table =
        Table::new("Errors", [Column::text("quantity", "quantity")].into_iter().chain(error_columns()))?;
    for (name, errors) in quantities(input.judged) {
        table.push(std::iter::once(Cell::text(name)).chain(error_cells(errors)))?;
    }
    for (name, errors) in with_kernels(input.judged).into_iter().flatten() {
        table
            .push(std::iter::once(Cell::text(format!("{name}, with kernels"))).chain(error_cells(errors)))?;
    }
    blocks.push(Block::Table(table));
    blocks.push(Block::Text(
        "† **MAPE**: mean absolute percentage error, the mean of |estimated − measured| ÷ measured. Bias is \
         the mean with its sign: above 0 where estimates are too large."
            .replace("**", ""),
    ));
    if input.own {
        push_baselines(input, blocks)?;
        push_bars(input, blocks)?;
    }
    push_coverage(input, blocks)?;
    push_groups(input, blocks)
}

fn quantities(judged: &[Judged]) -> [(&'static str, Option<Errors>); 4] {
    let of = |pair: fn(&Judged) -> Option<Pair>| Errors::of(judged.iter().filter_map(pair).map(Pair::tuple));
    [
        ("latency", of(|row| Some(row.time))),
        ("memory", of(|row| row.memory)),
        ("FLOPs", of(|row| row.flops)),
        ("energy", of(|row| row.energy)),
    ]
}

/// The same where kernels are known; `None` where those of no row are.
fn with_kernels(judged: &[Judged]) -> Option<[(&'static str, Option<Errors>); 4]> {
    let known = || judged.iter().filter_map(|row| row.with_kernels);
    known().next()?;
    let of = |pair: fn(WithKernels) -> Option<Pair>| Errors::of(known().filter_map(pair).map(Pair::tuple));
    Some([
        ("latency", of(|known| Some(known.time))),
        ("memory", of(|known| known.memory)),
        ("FLOPs", of(|known| known.flops)),
        ("energy", of(|known| known.energy)),
    ])
}

fn said(quantities: &[(&str, Option<Errors>)]) -> String {
    let said: Vec<String> = quantities
        .iter()
        .map(|(name, errors)| match errors {
            Some(errors) => format!("{name} {}", percent(errors.mape)),
            None => format!("{name} not measured"),
        })
        .collect();
    said.join(", ")
}

fn sentences(input: &ReportInput<'_>) -> Vec<String> {
    let judged = input.judged;
    let mut sentences =
        vec![format!("Total configs tested: {}. Estimates: {}.", judged.len(), input.estimator)];
    let (sizes, kernels) = (quantities(judged), with_kernels(judged));
    let met = |quantities: &[(&str, Option<Errors>); 4]| {
        let errors = quantities[0].1?;
        Some(if errors.mape < TARGET { "met" } else { "not met" })
    };
    match &kernels {
        None => sentences.push(format!("MAPE†: {}.", said(&sizes))),
        Some(kernels) => {
            sentences.push(format!("MAPE† from sizes alone, as on any machine: {}.", said(&sizes)));
            let count = judged.iter().filter(|row| row.with_kernels.is_some()).count();
            sentences.push(format!(
                "MAPE† with the recorded kernels, as on the device ({count} rows): {}.",
                said(kernels)
            ));
        }
    }
    match (met(&sizes), kernels.as_ref().and_then(met)) {
        (None, _) => {}
        (Some(word), None) => {
            sentences.push(format!("The target of a latency MAPE below 10% is {word}."));
        }
        (Some(word), Some(with)) => sentences.push(format!(
            "The target of a latency MAPE below 10% is {word} from sizes alone, and {with} with kernels."
        )),
    }
    if input.own {
        match beats_baselines(judged) {
            Some(true) => sentences.push("The predictor beats its baselines.".to_owned()),
            Some(false) => sentences.push(
                "The predictor does not beat its baselines on this calibration: it is not recommended. Use \
                 the best baseline below, or measure more rows."
                    .to_owned(),
            ),
            None => {}
        }
    }
    for (series, repeatability) in &input.repeatability {
        let said = match repeatability {
            Some(distance) => format!("{} between measurements of the same row", percent(*distance)),
            None => "not known, as no row was measured twice".to_owned(),
        };
        sentences.push(format!("Repeatability of {series}: {said}."));
    }
    let spreads: Vec<f64> = judged.iter().filter_map(|row| row.spread).collect();
    if !spreads.is_empty() {
        let mean = spreads.iter().sum::<f64>() / spreads.len() as f64;
        sentences.push(format!(
            "Measured medians are known to ±{} (mean half-width of their 95% intervals).",
            percent(mean)
        ));
    }
    sentences
}

fn push_baselines(input: &ReportInput<'_>, blocks: &mut Vec<Block>) -> Result<(), ReportError> {
    let columns = [Column::text("estimate", "estimate")].into_iter().chain(error_columns());
    let mut table = Table::new("The predictor beside its baselines", columns)?;
    let with: Vec<&Judged> = input.judged.iter().filter(|row| row.baselines.is_some()).collect();
    if with.is_empty() {
        return Ok(());
    }
    let predictor = Errors::of(with.iter().map(|row| row.time.tuple()));
    table.push(std::iter::once(Cell::text("predictor")).chain(error_cells(predictor)))?;
    let known = Errors::of(with.iter().filter_map(|row| row.with_kernels).map(|known| known.time.tuple()));
    if known.is_some() {
        table.push(std::iter::once(Cell::text("predictor, with kernels")).chain(error_cells(known)))?;
    }
    for (index, baseline) in Baseline::ALL.into_iter().enumerate() {
        let pairs = with.iter().filter_map(|row| Some((row.time.measured, row.baselines?[index])));
        table.push(std::iter::once(Cell::text(baseline.name())).chain(error_cells(Errors::of(pairs))))?;
    }
    blocks.push(Block::Table(table));
    Ok(())
}

fn push_bars(input: &ReportInput<'_>, blocks: &mut Vec<Block>) -> Result<(), ReportError> {
    if input.accuracies.is_empty() {
        return Ok(());
    }
    blocks.push(Block::Heading("Accuracy on rows never fitted".to_owned()));
    blocks.push(Block::Text(
        "Rows are divided by a frozen hash of what was run, never by row: all precisions, modes and repetitions \
         of a workload are on one side, and a fit that sees a row of the other side is an error. Each line is judged \
         twice: from sizes alone, as on any machine, and with the kernels that the library chose, as `estimate` does \
         on the device itself, where it asks the library without timing anything. Kernels decide the verdict where \
         `estimate` can ask for them (engine cuda), else sizes do. FLOPs from sizes are those that the product needs; \
         with kernels they are those that the kernels execute, whose tiles reach beyond the edges."
            .to_owned(),
    ));
    for (series, accuracy) in input.accuracies {
        blocks.push(Block::Table(bars(series, accuracy)?));
    }
    Ok(())
}

/// The table of bars of one series: errors and verdicts from sizes alone and with the recorded
/// kernels, and the verdict that counts.
///
/// # Errors
/// [`ReportError`] when the table cannot be made, which would be a defect of this crate.
pub fn bars(series: &str, accuracy: &Accuracy) -> Result<Table, ReportError> {
    let mut table = Table::new(
        format!("Accuracy: {series}"),
        [
            Column::text("what", "what"),
            Column::text("verdict", "verdict").rank(0),
            Column::number("mape_bar", "MAPE† at most").rank(2),
            Column::number("p90_bar", "p90 at most").rank(3),
            Column::number("fitted", "fitted rows").rank(3),
            Column::number("judged", "judged rows").rank(3),
            Column::number("mape", "sizes alone: MAPE†"),
            Column::number("p90", "p90"),
            Column::text("sizes_verdict", "bar").rank(2),
            Column::number("kernels_judged", "with kernels: rows").rank(3),
            Column::number("kernels_mape", "MAPE†"),
            Column::number("kernels_p90", "p90"),
            Column::text("kernels_verdict", "bar").rank(2),
            Column::number("repeatability", "repeatability").rank(2),
            Column::text("note", "note"),
        ],
    )?;
    let word = |met: Option<bool>| match met {
        Some(true) => Cell::text("met"),
        Some(false) => Cell::text("not met"),
        None => Cell::Absent,
    };
    for verdict in &accuracy.verdicts {
        let (bar, sizes, kernels) = (verdict.bar, verdict.errors, verdict.with_kernels);
        let holds = |errors: Option<Errors>| word(errors.map(|errors| bar.holds(&errors)));
        let count = |errors| Cell::optional(errors, |errors: Errors| Cell::from(errors.count as u64));
        let mape = |errors| Cell::optional(errors, |errors: Errors| Cell::percent(errors.mape, 1));
        let p90 = |errors| Cell::optional(errors, |errors: Errors| Cell::percent(errors.p90, 1));
        let fitted = (verdict.fitted > 0 && sizes.is_some()).then_some(verdict.fitted as u64);
        table.push([
            Cell::text(bar.what),
            word(verdict.met()),
            Cell::percent(bar.mape, 0),
            Cell::optional(bar.p90, |p90| Cell::percent(p90, 0)),
            Cell::optional(fitted, Cell::from),
            count(sizes),
            mape(sizes),
            p90(sizes),
            holds(sizes),
            count(kernels),
            mape(kernels),
            p90(kernels),
            holds(kernels),
            Cell::optional(verdict.repeatability, |distance| Cell::percent(distance, 1)),
            if verdict.note.is_empty() { Cell::Absent } else { Cell::text(verdict.note.clone()) },
        ])?;
    }
    Ok(table)
}

fn push_coverage(input: &ReportInput<'_>, blocks: &mut Vec<Block>) -> Result<(), ReportError> {
    let mut table = Table::new(
        "Coverage of the 90% intervals",
        [
            Column::text("series", "series"),
            Column::text("regime", "bound by"),
            Column::number("rows", "rows"),
            Column::number("covered", "covered"),
            Column::number("chance", "± by chance"),
            Column::text("verdict", "between 87% and 93%"),
        ],
    )?;
    let all = [(String::new(), coverage(input.judged))];
    let by_series: Vec<(String, Vec<(String, Coverage)>)> = if input.accuracies.is_empty() {
        all.to_vec()
    } else {
        input.accuracies.iter().map(|(name, accuracy)| (name.clone(), accuracy.coverage.clone())).collect()
    };
    for (series, regimes) in by_series {
        for (regime, coverage) in regimes {
            let share = coverage.share();
            let word = match share {
                Some(share) if (COVERAGE.0..=COVERAGE.1).contains(&share) => "met",
                Some(_) => "not met",
                None => "-",
            };
            table.push([
                Cell::text(series.clone()),
                Cell::text(regime),
                Cell::from(coverage.count as u64),
                Cell::optional(share, |share| Cell::percent(share, 1)),
                Cell::optional(coverage.standard_error(0.9), |error| Cell::percent(error, 1)),
                Cell::text(word),
            ])?;
        }
    }
    if !table.is_empty() {
        blocks.push(Block::Table(table));
    }
    Ok(())
}

/// Errors by kind of workload, engine, mode and precision.
fn push_groups(input: &ReportInput<'_>, blocks: &mut Vec<Block>) -> Result<(), ReportError> {
    let mut groups = BTreeMap::<[&str; 4], Vec<(f64, f64)>>::new();
    for row in input.judged {
        let key = [row.family.as_str(), row.engine.as_str(), row.mode.as_str(), row.precision.as_str()];
        groups.entry(key).or_default().push(row.time.tuple());
    }
    if groups.len() < 2 {
        return Ok(());
    }
    let columns = ["family", "engine", "mode", "precision"].map(|name| Column::text(name, name));
    let mut table = Table::new("Latency errors by kind", columns.into_iter().chain(error_columns()))?;
    for (key, pairs) in groups {
        let cell = |text: &str| if text.is_empty() { Cell::Absent } else { Cell::text(text) };
        table.push(key.map(cell).into_iter().chain(error_cells(Errors::of(pairs))))?;
    }
    blocks.push(Block::Table(table));
    Ok(())
}
