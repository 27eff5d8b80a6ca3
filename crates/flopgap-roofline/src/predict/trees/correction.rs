//! The residuals of measurements relative to a formula: none, one factor, or trees, blended by
//! their errors on rows that they did not see.

use crate::predict::FitError;
use crate::predict::inputs::regime::Regime;
use crate::predict::models::steps::Predicted;
use crate::predict::trees::blend::{Weights, blend, weigh};
use crate::predict::trees::forest::{Forest, Growth};
use crate::predict::trees::interval::{Intervals, Residual};

/// Fewest groups of rows that trees are grown from.
const TREES: usize = 24;
/// Weights of leaving the formula alone, of one factor, and of trees, before any is known.
const START: Weights = [0.0, 1.0, 0.0];

/// A row that is corrected.
#[derive(Debug, Clone)]
pub(crate) struct CorrectionRow {
    /// ln of what was measured over the formula.
    pub(crate) target: f64,
    pub(crate) features: Vec<f64>,
    pub(crate) regime: Regime,
    /// Rows of one group are left out together.
    pub(crate) group: u64,
}

/// The fitted correction.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Correction {
    median: f64,
    trees: Option<Forest>,
    weights: Weights,
    intervals: Intervals,
}

impl Correction {
    /// `None` without rows.
    pub(crate) fn fit(
        rows: &[CorrectionRow],
        growth: Growth,
        (level, without): (f64, f64),
    ) -> Result<Option<Self>, FitError> {
        let mut sorted: Vec<f64> = rows.iter().map(|row| row.target).collect();
        sorted.sort_by(f64::total_cmp);
        let Some(&median) = sorted.get(sorted.len() / 2) else { return Ok(None) };
        let groups: Vec<u64> = rows.iter().map(|row| row.group).collect();
        let targets: Vec<f64> = rows.iter().map(|row| row.target).collect();
        let mut distinct = groups.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let trees = if distinct.len() >= TREES {
            let features: Vec<Vec<f64>> = rows.iter().map(|row| row.features.clone()).collect();
            Some(Forest::fit(&features, &groups, &targets, growth)?)
        } else {
            None
        };
        let predicted = |row: usize| -> Weights {
            [0.0, median, trees.as_ref().map_or(median, |trees| trees.unseen[row])]
        };
        let all: Vec<usize> = (0..rows.len()).collect();
        let unseen: Vec<Weights> = all.iter().map(|&row| predicted(row)).collect();
        let ratios: Vec<f64> = targets.iter().map(|target| target.exp()).collect();
        let weights = blend(&unseen, &ratios, &all, START);
        let residuals: Vec<Residual> = rows
            .iter()
            .zip(&unseen)
            .map(|(row, unseen)| Residual {
                value: row.target - weigh(&weights, unseen),
                regime: row.regime,
                features: row.features.clone(),
                group: row.group,
            })
            .collect();
        let intervals = Intervals::fit(&residuals, level, growth.seed, without)?;
        Ok(Some(Self { median, trees, weights, intervals }))
    }

    /// ln of the factor on the formula, and the half-width of its interval.
    pub(crate) fn predict(&self, features: &[f64], regime: Regime) -> Result<Predicted, FitError> {
        let trees = match &self.trees {
            Some(trees) if self.weights[2] > 0.0 => trees.predict(&[features.to_vec()])?[0],
            _ => self.median,
        };
        let ln = weigh(&self.weights, &[0.0, self.median, trees]);
        let width = self.intervals.widths(&[(regime, features.to_vec())])?[0];
        Ok(Predicted { ln, width })
    }
}
