//! Recommended updates of an estimator: the efficiency factors that would have been right.

use std::collections::BTreeMap;

use flopgap_report::ReportError;
use flopgap_report::html::Block;
use flopgap_report::table::{Cell, Column, Table};

use super::ReportInput;
use super::words::percent;
use crate::accuracy::Errors;
use crate::judge::Judged;

/// Fewest rows that a factor is recommended from.
const LEAST: usize = 5;

/// A factor that estimated times are divided by.
#[derive(Debug, Clone, PartialEq)]
struct Update {
    precision: String,
    /// `efficiency_factor` of compute-bound runs, `memory_bottleneck_factor` of others.
    factor: &'static str,
    rows: usize,
    now: f64,
    mape_was: f64,
    mape_now: f64,
}

pub(super) fn push(input: &ReportInput<'_>, blocks: &mut Vec<Block>) -> Result<(), ReportError> {
    let updates = updates(input.judged);
    if updates.is_empty() {
        return Ok(());
    }
    blocks.push(Block::Heading("Recommended updates".to_owned()));
    let what = if input.own {
        "Factors are shares of the measured ceilings: 1.00 is the pure roofline."
    } else {
        "Factors are relative to what the estimator has now, which is 1.00: multiply its efficiencies by them."
    };
    blocks.push(Block::Text(format!(
        "{what} Each is the one with the least MAPE on its own rows, so that the last column flatters it."
    )));
    let line = |update: &Update| {
        format!(
            "`Precision.{}: {}={:.2},  # Was: 1.00 → Update to {:.2}`",
            update.precision.to_uppercase(),
            update.factor,
            update.now,
            update.now
        )
    };
    blocks.push(Block::List(updates.iter().map(line).collect()));
    let mut table = Table::new(
        "Updates",
        [
            Column::text("precision", "precision"),
            Column::text("factor", "factor"),
            Column::number("rows", "rows"),
            Column::number("was", "was"),
            Column::number("update", "update to"),
            Column::number("mape_was", "MAPE† was"),
            Column::number("mape_update", "with the update"),
        ],
    )?;
    for update in &updates {
        table.push([
            Cell::text(update.precision.clone()),
            Cell::text(update.factor),
            Cell::from(update.rows as u64),
            Cell::float(1.0, 2),
            Cell::float(update.now, 2),
            Cell::percent(update.mape_was, 1),
            Cell::percent(update.mape_now, 1),
        ])?;
    }
    blocks.push(Block::Table(table));
    if let Some(worst) = updates.iter().map(|update| update.mape_now).reduce(f64::max)
        && worst > 0.10
    {
        blocks.push(Block::Text(format!(
            "One factor leaves up to {}: how much of a ceiling is reached depends on the sizes, which is what the \
             predictor learns.",
            percent(worst)
        )));
    }
    Ok(())
}

fn updates(judged: &[Judged]) -> Vec<Update> {
    let mut groups = BTreeMap::<(&str, &'static str), Vec<(f64, f64)>>::new();
    for row in judged {
        let factor = match row.bottleneck.as_deref() {
            Some("compute") => "efficiency_factor",
            // A launch costs what it costs; no share of a ceiling says that.
            Some("launch") | None => continue,
            Some(_) => "memory_bottleneck_factor",
        };
        let base = row.baselines.map_or(row.time.estimated, |times| times[0]);
        if base > 0.0 && !row.precision.is_empty() {
            groups.entry((&row.precision, factor)).or_default().push((row.time.measured, base));
        }
    }
    let update = |((precision, factor), pairs): ((&str, &'static str), Vec<(f64, f64)>)| {
        if pairs.len() < LEAST {
            return None;
        }
        let now = best_factor(&pairs)?;
        let with = pairs.iter().map(|&(measured, base)| (measured, base / now));
        Some(Update {
            precision: precision.to_owned(),
            factor,
            rows: pairs.len(),
            now,
            mape_was: Errors::of(pairs.iter().copied())?.mape,
            mape_now: Errors::of(with)?.mape,
        })
    };
    groups.into_iter().filter_map(update).collect()
}

/// The factor `f` with the least mean of `|base ÷ f − measured| ÷ measured`: 1 over the median of
/// `measured ÷ base`, weighted by `base ÷ measured`.
fn best_factor(pairs: &[(f64, f64)]) -> Option<f64> {
    let mut ratios: Vec<(f64, f64)> =
        pairs.iter().map(|(measured, base)| (measured / base, base / measured)).collect();
    ratios.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let half = ratios.iter().map(|(_, weight)| weight).sum::<f64>() / 2.0;
    let mut passed = 0.0;
    let median = ratios.iter().find(|(_, weight)| {
        passed += weight;
        passed >= half
    })?;
    Some(1.0 / median.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_other_factor_has_a_smaller_error() {
        let pairs = [(10.0, 5.0), (12.0, 7.0), (9.0, 8.5), (30.0, 11.0), (8.0, 4.5)];
        let mape = |factor: f64| {
            Errors::of(pairs.iter().map(|&(measured, base)| (measured, base / factor))).unwrap().mape
        };
        let best = best_factor(&pairs).unwrap();
        for step in 1..400 {
            assert!(mape(best) <= mape(f64::from(step) / 200.0) + 1e-12, "{best} {step}");
        }
    }
}
