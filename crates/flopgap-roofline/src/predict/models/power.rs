//! Predicts the power that a run draws.

use crate::predict::FitError;
use crate::predict::formula::nonnegative;
use crate::predict::inputs::features::sizes;
use crate::predict::inputs::point::Point;
use crate::predict::inputs::regime::Regime;
use crate::predict::trees::correction::{Correction, CorrectionRow};
use crate::predict::trees::forest::Growth;

/// Fewest runs with energy that watts are predicted from.
const LEAST: usize = 12;

/// Watts by how near a run comes to each ceiling, and for how long: a sum of what is always drawn
/// and what arithmetic and bytes draw, and trees upon it as far as they help.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Power {
    factors: Vec<f64>,
    correction: Option<Correction>,
}

/// A run whose energy is known.
pub(crate) struct Drawn {
    pub(crate) features: Vec<f64>,
    pub(crate) watts: f64,
    pub(crate) group: u64,
}

impl Power {
    /// `None` where too few runs have energy.
    pub(crate) fn fit(rows: &[Drawn], seed: u64) -> Result<Option<Self>, FitError> {
        if rows.len() < LEAST {
            return Ok(None);
        }
        let terms: Vec<Vec<f64>> = rows.iter().map(|row| terms(&row.features)).collect();
        let watts: Vec<f64> = rows.iter().map(|row| row.watts).collect();
        let mut start = vec![0.0; TERMS];
        start[0] = watts.iter().copied().fold(f64::INFINITY, f64::min);
        let factors = nonnegative::factors(&terms, &watts, &start, nonnegative::MANY);
        let correction_rows: Vec<CorrectionRow> = rows
            .iter()
            .zip(&terms)
            .map(|(row, terms)| CorrectionRow {
                target: (row.watts / nonnegative::sum(&factors, terms)).ln(),
                features: row.features.clone(),
                regime: Regime::Compute,
                group: row.group,
            })
            .collect();
        let growth = Growth { seed, folds: 8, rounds: 1, trees: 12, leaf: 1 };
        let correction = Correction::fit(&correction_rows, growth, (0.9, std::f64::consts::LN_2))?;
        Ok(Some(Self { factors, correction }))
    }

    pub(crate) fn watts(&self, features: &[f64]) -> Result<f64, FitError> {
        let predicted =
            self.correction.as_ref().map(|correction| correction.predict(features, Regime::Compute));
        let factor = predicted.transpose()?.map_or(1.0, |predicted| predicted.ln.exp());
        Ok(nonnegative::sum(&self.factors, &terms(features)) * factor)
    }
}

/// Terms of the sum of watts.
const TERMS: usize = 7;

/// Of the features, the first two are logarithms of how much of each ceiling is reached.
fn terms(features: &[f64]) -> Vec<f64> {
    let [compute, memory] = [features[0].exp(), features[1].exp()].map(|share| share.min(2.0));
    vec![1.0, compute, memory, compute.sqrt(), memory.sqrt(), compute.max(memory), compute.max(memory).sqrt()]
}

/// The features of power, for a run of this many nanoseconds.
pub(crate) fn features(points: &[Point<'_>], nanoseconds: f64) -> Vec<f64> {
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
    row.extend(kernels(points, nanoseconds).map(ln));
    // The step that takes longest stands for what the others are like.
    if let Some(longest) = points.iter().max_by(|left, right| left.base.total_cmp(&right.base)) {
        row.extend(sizes(longest));
    }
    row
}

/// What the kernels keep busy, in units of the time that the run takes: launches a microsecond,
/// arithmetic with what tiles pad, what tiles load, multiprocessors that have a tile. Where kernels
/// are not known, what the sizes say.
fn kernels(points: &[Point<'_>], nanoseconds: f64) -> [f64; 4] {
    let mut sums = [0.0; 4];
    for point in points {
        let launches = point.algorithm.map_or(1, |algorithm| algorithm.kernels.len().max(1));
        let of = match &point.work {
            Some(work) => [work.spread, work.loaded, work.time * work.tiles.min(1.0)],
            None => [point.roof.compute, point.roof.memory, point.base],
        };
        for (sum, value) in sums.iter_mut().zip([launches as f64 * 1000.0].into_iter().chain(of)) {
            *sum += value / nanoseconds;
        }
    }
    sums
}
