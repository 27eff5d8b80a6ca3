//! The model of single steps with its intervals, with and without what a library tells of its kernels.

use super::FitError;
use super::experts::Experts;
use super::features::sizes;
use super::forest::Growth;
use super::interval::{Intervals, Residual};
use super::machine::Machine;
use super::point::Point;
use super::regime::Regime;

/// Rows up to which they are cut twice; beyond, one round of parts says enough and costs half.
const TWICE: usize = 1500;

/// A fitted model of steps.
#[derive(Debug)]
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
        let rounds = if points.len() <= TWICE { 2 } else { 1 };
        let growth = Growth { seed, folds: 8, rounds, trees: 8, leaf: 1 };
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
        let lns = self.experts.predict(machine, points)?;
        let of: Vec<(Regime, Vec<f64>)> = points.iter().map(|point| (regime(point), sizes(point))).collect();
        let widths = self.intervals.widths(&of)?;
        Ok(lns.into_iter().zip(widths).map(|(ln, width)| Said { ln, width }).collect())
    }
}

/// The regime of a step.
pub(super) fn regime(point: &Point<'_>) -> Regime {
    Regime::of(point.launch, &point.roof)
}
