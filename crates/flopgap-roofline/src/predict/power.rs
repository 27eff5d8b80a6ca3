//! The power that a run draws.

use super::FitError;
use super::features::sizes;
use super::forest::{Forest, Growth};
use super::point::Point;

/// Fewest runs with energy that trees are grown from.
const LEAST: usize = 12;

/// Watts by how near a run comes to each ceiling, and for how long.
#[derive(Debug)]
pub(super) struct Power {
    trees: Forest,
}

/// A run whose energy is known.
pub(super) struct Drawn {
    pub(super) features: Vec<f64>,
    pub(super) watts: f64,
    pub(super) group: u64,
}

impl Power {
    /// `None` where too few runs have energy.
    pub(super) fn fit(rows: &[Drawn], seed: u64) -> Result<Option<Self>, FitError> {
        if rows.len() < LEAST {
            return Ok(None);
        }
        let features: Vec<Vec<f64>> = rows.iter().map(|row| row.features.clone()).collect();
        let groups: Vec<u64> = rows.iter().map(|row| row.group).collect();
        let targets: Vec<f64> = rows.iter().map(|row| row.watts.ln()).collect();
        let growth = Growth { seed, folds: 8, rounds: 1, trees: 12, leaf: 1 };
        Ok(Some(Self { trees: Forest::fit(&features, &groups, &targets, growth)? }))
    }

    pub(super) fn watts(&self, features: Vec<f64>) -> Result<f64, FitError> {
        Ok(self.trees.predict(&[features])?[0].exp())
    }
}

/// What power is predicted from, for a run of so many nanoseconds.
pub(super) fn features(points: &[Point<'_>], nanoseconds: f64) -> Vec<f64> {
    let ln = |value: f64| value.max(1e-6).ln();
    let over = |of: &dyn Fn(&Point<'_>) -> f64| points.iter().map(of).sum::<f64>();
    let compute = over(&|point| point.roof.compute) / nanoseconds;
    let memory = over(&|point| point.roof.memory) / nanoseconds;
    let bytes = over(&|point| point.roof.bytes);
    let mut row = vec![
        ln(compute),
        ln(memory),
        ln(compute / memory.max(1e-6)),
        ln(bytes),
        ln(nanoseconds),
        ln(nanoseconds / points.len() as f64),
    ];
    // The step that takes longest stands for what the others are like.
    if let Some(longest) = points.iter().max_by(|left, right| left.base.total_cmp(&right.base)) {
        row.extend(sizes(longest));
    }
    row
}
