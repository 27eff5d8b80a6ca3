//! The model of single steps with its intervals, with and without what a library reports about its
//! kernels.

use super::FitError;
use super::experts::Experts;
use super::features::sizes;
use super::forest::Growth;
use super::interval::{Intervals, Residual};
use super::machine::Machine;
use super::point::Point;
use super::regime::Regime;
use super::shape::Family;

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
pub(super) struct Steps {
    experts: Experts,
    intervals: Intervals,
}

/// A predicted step: ln of its nanoseconds and the half-width of the interval around that.
#[derive(Debug, Clone, Copy)]
pub(super) struct Said {
    pub(super) ln: f64,
    pub(super) width: f64,
}

impl Steps {
    pub(super) fn fit(
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

    pub(super) fn predict(&self, machine: &Machine, points: &[Point<'_>]) -> Result<Vec<Said>, FitError> {
        let mut lns = self.experts.predict(machine, points)?;
        // An empty launch takes as long as measured empty launches.
        for (ln, point) in lns.iter_mut().zip(points) {
            if point.shape.family == Family::Empty {
                *ln = point.base.ln();
            }
        }
        let of: Vec<(Regime, Vec<f64>)> = points.iter().map(|point| (regime(point), sizes(point))).collect();
        let widths = self.intervals.widths(&of)?;
        Ok(lns.into_iter().zip(widths).map(|(ln, width)| Said { ln, width }).collect())
    }
}

/// The regime of a step.
pub(super) fn regime(point: &Point<'_>) -> Regime {
    Regime::of(point.launch, &point.roof)
}
