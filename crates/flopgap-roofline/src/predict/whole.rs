//! What the steps of a model cost each other.
//!
//! A model takes another time than its steps add up to: launches overlap with kernels, what one step wrote lies in a cache for the
//! next. Measured models say by how much.

use flopgap_flops::Precision;
use flopgap_graph::Mode;

use super::FitError;
use super::forest::{Forest, Growth};
use super::interval::{Intervals, Residual};
use super::machine::{place, place_of};
use super::regime::Regime;
use super::steps::Said;

/// Fewest models that trees are grown from.
const TREES: usize = 24;

/// A model as its correction sees it.
#[derive(Debug, Clone)]
pub(super) struct Whole {
    /// Sum of the predicted steps in nanoseconds.
    pub(super) sum: f64,
    /// Sum of the launches.
    pub(super) launch: f64,
    /// Sum of the compute rooflines.
    pub(super) compute: f64,
    /// Sum of the memory rooflines.
    pub(super) memory: f64,
    /// Bytes of all parameters.
    pub(super) weights: f64,
    /// Bytes of all results.
    pub(super) outputs: f64,
    /// Steps.
    pub(super) steps: f64,
    /// Largest share of one step.
    pub(super) largest: f64,
    pub(super) precision: Precision,
    pub(super) mode: Mode,
}

impl Whole {
    pub(super) fn regime(&self) -> Regime {
        if self.launch >= self.compute.max(self.memory) {
            Regime::Launch
        } else if self.compute >= self.memory {
            Regime::Compute
        } else {
            Regime::Memory
        }
    }

    fn features(&self) -> Vec<f64> {
        let ln = |value: f64| value.max(1e-3).ln();
        vec![
            place(self.precision) as f64,
            place_of(self.mode) as f64,
            ln(self.sum),
            self.launch / self.sum,
            self.compute / self.sum,
            self.memory / self.sum,
            ln(self.weights),
            ln(self.outputs),
            ln(self.weights + self.outputs),
            ln(self.steps),
            ln(self.sum / self.steps),
            self.largest,
        ]
    }
}

/// The fitted correction.
#[derive(Debug)]
pub(super) struct Correction {
    /// The median of all logarithms.
    median: f64,
    trees: Option<Forest>,
    intervals: Intervals,
}

impl Correction {
    /// From models and the logarithms of what they took over what their steps add up to. `None` without models.
    pub(super) fn fit(
        models: &[Whole],
        groups: &[u64],
        targets: &[f64],
        growth: Growth,
        level: f64,
    ) -> Result<Option<Self>, FitError> {
        if models.is_empty() {
            return Ok(None);
        }
        let mut sorted = targets.to_vec();
        sorted.sort_by(f64::total_cmp);
        let median = sorted[sorted.len() / 2];
        let rows: Vec<Vec<f64>> = models.iter().map(Whole::features).collect();
        let mut distinct = groups.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        let trees =
            if distinct.len() >= TREES { Some(Forest::fit(&rows, groups, targets, growth)?) } else { None };
        let said = |row: usize| trees.as_ref().map_or(median, |trees| trees.unseen[row]);
        let residuals: Vec<Residual> = (0..models.len())
            .map(|row| Residual {
                value: targets[row] - said(row),
                regime: models[row].regime(),
                features: models[row].features(),
                group: groups[row],
            })
            .collect();
        let intervals = Intervals::fit(&residuals, level, growth.seed, std::f64::consts::LN_2)?;
        Ok(Some(Self { median, trees, intervals }))
    }

    /// Logarithm of the time over the sum of the steps.
    pub(super) fn predict(&self, model: &Whole) -> Result<Said, FitError> {
        let ln = match &self.trees {
            Some(trees) => trees.predict(&[model.features()])?[0],
            None => self.median,
        };
        let width = self.intervals.widths(&[(model.regime(), model.features())])?[0];
        Ok(Said { ln, width })
    }
}
