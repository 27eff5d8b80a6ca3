//! Features of the interaction between the steps of a model.
//!
//! The time of a model differs from the sum of its steps: launches overlap with kernels, and what
//! one step wrote lies in a cache for the next. Measured models say by how much; `correction`
//! learns it from these features.

use crate::predict::inputs::features::alignment;
use crate::predict::inputs::ln;
use crate::predict::inputs::machine::{place, place_of};
use crate::predict::inputs::point::Point;
use crate::predict::inputs::regime::Regime;
use crate::predict::inputs::shape::Family;

/// Sums over the steps of a model, in nanoseconds and bytes.
#[derive(Debug, Clone)]
pub(crate) struct Whole {
    /// The predicted steps.
    pub(crate) sum: f64,
    launch: f64,
    compute: f64,
    memory: f64,
    features: Vec<f64>,
}

impl Whole {
    /// Of the steps of a model, the nanoseconds predicted for each, and those of the work alone,
    /// without launches.
    pub(crate) fn new(points: &[Point<'_>], nanoseconds: &[f64], work: f64) -> Self {
        let over = |of: &dyn Fn(&Point<'_>) -> f64| points.iter().map(of).sum::<f64>();
        let bytes = |point: &Point<'_>, elements: f64| elements * point.precision.element().bytes() as f64;
        let most = |of: &dyn Fn(&Point<'_>) -> f64| points.iter().map(of).fold(0.0, f64::max);
        let least = |of: &dyn Fn(&Point<'_>) -> f64| points.iter().map(of).fold(f64::INFINITY, f64::min);
        let sum: f64 = nanoseconds.iter().sum();
        let divisor = if sum > 0.0 { sum } else { 1.0 };
        let share = |family: Family| {
            let of = points.iter().zip(nanoseconds).filter(|(point, _)| point.shape.family == family);
            of.map(|(_, time)| time).sum::<f64>() / divisor
        };
        let launch = over(&|point| point.launch);
        let compute = over(&|point| point.roof.compute);
        let memory = over(&|point| point.roof.memory);
        let weights = over(&|point| bytes(point, point.shape.weights));
        let outputs = over(&|point| bytes(point, point.shape.outputs));
        let steps = points.len() as f64;
        let largest = nanoseconds.iter().copied().fold(0.0, f64::max);
        let first = points.first();
        let features = vec![
            first.map_or(0.0, |point| place(point.precision) as f64),
            first.map_or(0.0, |point| place_of(point.mode) as f64),
            first.map_or(0.0, |point| ln(point.shape.m)),
            ln(sum),
            launch / divisor,
            compute / divisor,
            memory / divisor,
            ln(weights),
            ln(outputs),
            ln(weights + outputs),
            ln(over(&|point| point.shape.flops)),
            ln(steps),
            ln(sum / steps.max(1.0)),
            largest / divisor,
            share(Family::Gemm),
            share(Family::Conv),
            ln(work / divisor),
            ln(work / steps.max(1.0)),
            over(&|point| point.algorithm.map_or(0.0, |algorithm| algorithm.kernels.len() as f64))
                / steps.max(1.0),
            ln(most(&|point| point.shape.n)),
            ln(most(&|point| point.shape.k)),
            ln(least(&|point| point.shape.n).min(1e30)),
            least(&|point| f64::from(alignment(point.shape.n))).min(8.0),
            least(&|point| f64::from(alignment(point.shape.k))).min(8.0),
        ];
        Self { sum, launch, compute, memory, features }
    }

    /// What bounds most of its time.
    pub(crate) fn regime(&self) -> Regime {
        if self.launch >= self.compute.max(self.memory) {
            Regime::Launch
        } else if self.compute >= self.memory {
            Regime::Compute
        } else {
            Regime::Memory
        }
    }

    /// Equally many for each model.
    pub(crate) fn features(&self) -> &[f64] {
        &self.features
    }
}
