//! The model of single steps with its intervals, with and without what a library reports about its
//! kernels.

use crate::predict::FitError;
use crate::predict::inputs::features::sizes;
use crate::predict::inputs::machine::Machine;
use crate::predict::inputs::point::Point;
use crate::predict::inputs::regime::Regime;
use crate::predict::inputs::shape::Family;
use crate::predict::models::experts::Experts;
use crate::predict::trees::forest::Growth;
use crate::predict::trees::interval::{Intervals, Residual};

/// Parts and rounds of a fit, by the rows: the more there are, the less more trees add, and the
/// more each costs.
const fn growth(rows: usize, seed: u64) -> Growth {
    let (folds, rounds) = match rows {
        0..=1500 => (8, 2),
        1501..=3000 => (8, 1),
        _ => (5, 1),
    };
    Growth { seed, folds, rounds, trees: 8, leaf: 1 }
}

/// A fitted model of steps.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Steps {
    experts: Experts,
    intervals: Intervals,
}

/// A predicted step: ln of its nanoseconds and the half-width of the interval around that.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Predicted {
    pub(crate) ln: f64,
    pub(crate) width: f64,
}

impl Steps {
    pub(crate) fn fit(
        machine: &Machine,
        points: &[Point<'_>],
        times: &[f64],
        groups: &[u64],
        (seed, level): (u64, f64),
        with_kernels: bool,
    ) -> Result<Self, FitError> {
        let growth = growth(points.len(), seed);
        let experts = Experts::fit(machine, points, times, groups, growth, with_kernels)?;
        let residuals: Vec<Residual> = points
            .iter()
            .enumerate()
            .map(|(row, point)| Residual {
                value: times[row].ln() - experts.unseen[row],
                regime: regime(point),
                features: sizes(point),
                group: groups[row],
            })
            .collect();
        let intervals = Intervals::fit(&residuals, level, seed, std::f64::consts::LN_2)?;
        Ok(Self { experts, intervals })
    }

    pub(crate) fn predict(
        &self,
        machine: &Machine,
        points: &[Point<'_>],
    ) -> Result<Vec<Predicted>, FitError> {
        let mut lns = self.experts.predict(machine, points)?;
        // An empty launch takes as long as measured empty launches.
        for (ln, point) in lns.iter_mut().zip(points) {
            if point.shape.family == Family::Empty {
                *ln = point.base.ln();
            }
        }
        let of: Vec<(Regime, Vec<f64>)> = points.iter().map(|point| (regime(point), sizes(point))).collect();
        let widths = self.intervals.widths(&of)?;
        Ok(lns.into_iter().zip(widths).map(|(ln, width)| Predicted { ln, width }).collect())
    }
}

/// The regime of a step.
pub(crate) fn regime(point: &Point<'_>) -> Regime {
    Regime::new(point.launch, &point.roof)
}
