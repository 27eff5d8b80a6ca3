//! How much memory an engine holds for a model.

use flopgap_graph::Algorithm;

use super::nonnegative;
use super::point::Point;

/// Allocators hand out multiples of this many bytes.
const ALIGNMENT: f64 = 256.0;
/// Vectors of a CPU, in elements: widths are padded to them.
const LANES: f64 = 16.0;
/// Terms of the model.
const TERMS: usize = 15;

/// Bytes held at most: parameters, what lives between the steps, workspace, and constants, each times a fitted factor that is not negative.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub(super) struct Memory {
    factors: Vec<f64>,
}

impl Memory {
    /// `None` where there are no observations of memory.
    pub(super) fn fit(rows: &[Vec<f64>], bytes: &[f64]) -> Option<Self> {
        if rows.is_empty() {
            return None;
        }
        let mut start = vec![0.0; TERMS];
        start[0] = 1.0;
        start[4] = 1.0;
        start[8] = 1.0;
        Some(Self { factors: nonnegative::factors(rows, bytes, &start, nonnegative::MANY) })
    }

    pub(super) fn bytes(&self, terms: &[f64]) -> f64 {
        nonnegative::sum(&self.factors, terms)
    }
}

/// Terms of a run: parameters as they are, padded, and aligned; activations all together, and those that a chain of steps needs at one time;
/// what goes in and out; workspace as far as the library tells it; a constant and one for each step.
pub(super) fn terms(points: &[Point<'_>]) -> Vec<f64> {
    let of = |point: &Point<'_>, elements: f64| elements * point.precision.element().bytes() as f64;
    let aligned = |bytes: f64| (bytes / ALIGNMENT).ceil() * ALIGNMENT;
    let weights: f64 = points.iter().map(|point| of(point, point.shape.weights)).sum();
    let places: f64 = points.iter().map(|point| aligned(of(point, point.shape.weights))).sum();
    let padded: f64 = points
        .iter()
        .map(|point| {
            let width = (point.shape.n / LANES).ceil() * LANES / point.shape.n.max(1.0);
            of(point, point.shape.weights * width)
        })
        .sum();
    let outputs: f64 = points.iter().map(|point| of(point, point.shape.outputs)).sum();
    let first = points.first().map_or(0.0, |point| aligned(of(point, point.shape.inputs)));
    let last = points.last().map_or(0.0, |point| aligned(of(point, point.shape.outputs)));
    // What the caller gives and gets lives all the time; between the steps, what one reads and writes.
    let between: Vec<f64> = points
        .iter()
        .take(points.len().saturating_sub(1))
        .map(|point| aligned(of(point, point.shape.outputs)))
        .collect();
    let pair = between.windows(2).map(|pair| pair[0] + pair[1]).fold(0.0, f64::max);
    let live = pair.max(between.first().copied().unwrap_or(0.0));
    let together = points
        .iter()
        .map(|point| aligned(of(point, point.shape.inputs)) + aligned(of(point, point.shape.outputs)))
        .fold(0.0, f64::max);
    let widest = points.iter().map(|point| of(point, point.shape.outputs)).fold(0.0, f64::max);
    let told = |algorithm: &Algorithm| algorithm.workspace.unwrap_or(0) as f64;
    let workspace = points.iter().filter_map(|point| point.algorithm).map(told).fold(0.0, f64::max);
    let count = points.len() as f64;
    // A CPU works on so many samples at a time, in panels of the widest layer.
    let panel = |samples: f64| {
        let each =
            |point: &Point<'_>| of(point, point.shape.m.min(samples) * point.shape.n.max(point.shape.k));
        points.iter().map(each).fold(0.0, f64::max)
    };
    vec![
        places,
        weights,
        padded,
        first,
        first + last + live,
        last,
        outputs,
        widest,
        workspace,
        ALIGNMENT,
        ALIGNMENT * count,
        panel(96.0),
        panel(480.0),
        panel(f64::INFINITY),
        together,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engines_rule_is_found_again() {
        // Twice the parameters and what lives at one time, and 1,024 bytes.
        let rows: Vec<Vec<f64>> = (1..60)
            .map(|row| {
                let mut terms = vec![0.0; TERMS];
                terms[0] = 256.0 * f64::from(row * row);
                terms[4] = 512.0 * f64::from(60 - row);
                terms[9] = ALIGNMENT;
                terms
            })
            .collect();
        let bytes: Vec<f64> = rows.iter().map(|row| 2.0 * row[0] + row[4] + 1024.0).collect();
        let memory = Memory::fit(&rows, &bytes).unwrap();
        for (row, bytes) in rows.iter().zip(&bytes) {
            assert!((memory.bytes(row) / bytes - 1.0).abs() < 0.01);
        }
    }
}
