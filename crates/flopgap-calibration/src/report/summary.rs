//! The accuracy of the estimates: in total, by kind, and compared with baselines.

use std::collections::BTreeMap;

use flopgap_report::ReportError;
use flopgap_report::html::Block;
use flopgap_report::table::{Cell, Column, Table};
use flopgap_roofline::predict::Baseline;

use super::words::{error_cells, error_columns, percent};
use super::{ReportInput, beats_baselines};
use crate::accuracy::Errors;
use crate::judge::{Judged, Pair, WithKernels};

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

fn mapes(quantities: &[(&str, Option<Errors>)]) -> String {
    let mapes: Vec<String> = quantities
        .iter()
        .map(|(name, errors)| match errors {
            Some(errors) => format!("{name} {}", percent(errors.mape)),
            None => format!("{name} not measured"),
        })
        .collect();
    mapes.join(", ")
}

fn sentences(input: &ReportInput<'_>) -> Vec<String> {
    let judged = input.judged;
    let mut sentences =
        vec![format!("Total configs tested: {}. Estimates: {}.", judged.len(), input.estimator)];
    let sizes = mapes(&quantities(judged));
    match with_kernels(judged) {
        None => sentences.push(format!("MAPE†: {sizes}.")),
        Some(kernels) => {
            sentences.push(format!("MAPE† from sizes alone, as on any machine: {sizes}."));
            let count = judged.iter().filter(|row| row.with_kernels.is_some()).count();
            sentences.push(format!(
                "MAPE† with the recorded kernels, as on the device ({count} rows): {}.",
                mapes(&kernels)
            ));
        }
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
        let distance = match repeatability {
            Some(distance) => format!("{} between measurements of the same row", percent(*distance)),
            None => "not known, as no row was measured twice".to_owned(),
        };
        sentences.push(format!("Repeatability of {series}: {distance}."));
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

fn push_coverage(input: &ReportInput<'_>, blocks: &mut Vec<Block>) -> Result<(), ReportError> {
    let mut table = Table::new(
        "Coverage of the 90% intervals",
        [
            Column::text("series", "series"),
            Column::text("regime", "bound by"),
            Column::number("rows", "rows"),
            Column::number("covered", "covered"),
            Column::number("chance", "± by chance"),
        ],
    )?;
    for (series, regimes) in &input.coverage {
        for (regime, coverage) in regimes {
            table.push([
                Cell::text(series.clone()),
                Cell::text(regime.clone()),
                Cell::from(coverage.count as u64),
                Cell::optional(coverage.share(), |share| Cell::percent(share, 1)),
                Cell::optional(coverage.standard_error(0.9), |error| Cell::percent(error, 1)),
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
