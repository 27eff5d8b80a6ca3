//! How much memory an engine holds for a model.

use flopgap_flops::Precision;
use flopgap_graph::{Algorithm, Step};

use super::shape::Shape;

/// Terms of the model.
const TERMS: usize = 7;

/// Bytes held at most: parameters, what lives between the steps, workspace, and a constant, each times a fitted factor that is not
/// negative.
#[derive(Debug, Clone)]
pub(super) struct Memory {
    factors: [f64; TERMS],
}

impl Memory {
    /// `None` where there are no observations of memory.
    pub(super) fn fit(rows: &[([f64; TERMS], f64)]) -> Option<Self> {
        if rows.is_empty() {
            return None;
        }
        // Least squares of relative errors: each row is divided by what was measured.
        let mut normal = [[0.0; TERMS]; TERMS];
        let mut right = [0.0; TERMS];
        for (terms, measured) in rows {
            for i in 0..TERMS {
                right[i] += terms[i] / measured;
                for j in 0..TERMS {
                    normal[i][j] += terms[i] * terms[j] / (measured * measured);
                }
            }
        }
        Some(Self { factors: descend(&normal, &right) })
    }

    pub(super) fn bytes(&self, terms: &[f64; TERMS]) -> f64 {
        self.factors.iter().zip(terms).map(|(factor, term)| factor * term).sum()
    }
}

/// Terms of a run.
pub(super) fn terms(
    steps: &[Step],
    shapes: &[Shape],
    precision: Precision,
    algorithms: &[Algorithm],
) -> [f64; TERMS] {
    let element = precision.element().bytes() as f64;
    let weights: f64 = shapes.iter().map(|shape| shape.weights).sum();
    let between: f64 = shapes.iter().map(|shape| shape.outputs).sum();
    let together = shapes.iter().map(|shape| shape.inputs + shape.outputs).fold(0.0, f64::max);
    let first = shapes.first().map_or(0.0, |shape| shape.inputs);
    let last = shapes.last().map_or(0.0, |shape| shape.outputs);
    let workspace = algorithms.iter().filter_map(|algorithm| algorithm.workspace).max().unwrap_or(0) as f64;
    let count = steps.len() as f64;
    // A constant in kilobytes keeps the factors of like magnitude.
    [
        weights * element,
        between * element,
        together * element,
        first * element,
        last * element,
        workspace,
        1024.0 * count,
    ]
}

/// Minimises `x' N x / 2 - r' x` over `x >= 0` by coordinate descent.
fn descend(normal: &[[f64; TERMS]; TERMS], right: &[f64; TERMS]) -> [f64; TERMS] {
    let mut x = [0.0; TERMS];
    for _ in 0..5000 {
        let mut moved: f64 = 0.0;
        for i in 0..TERMS {
            if normal[i][i] <= 0.0 {
                continue;
            }
            let others: f64 = (0..TERMS).filter(|&j| j != i).map(|j| normal[i][j] * x[j]).sum();
            let next = ((right[i] - others) / normal[i][i]).max(0.0);
            moved = moved.max((next - x[i]).abs());
            x[i] = next;
        }
        if moved < 1e-12 {
            break;
        }
    }
    x
}
