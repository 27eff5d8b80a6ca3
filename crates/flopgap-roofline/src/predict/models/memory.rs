//! Predicts the memory that an engine holds for a model.

use flopgap_flops::Precision;
use flopgap_graph::{Algorithm, Mode};
use rustc_hash::FxHashMap;

use crate::predict::formula::nonnegative;
use crate::predict::formula::onnx_runtime;
use crate::predict::inputs::point::Point;
use crate::predict::inputs::shape::Family;

/// Allocators hand out multiples of this many bytes.
const ALIGNMENT: f64 = 256.0;
/// Vectors of a CPU, in elements: widths are padded to them.
const LANES: f64 = 16.0;
/// Terms of every run.
const COMMON: usize = 15;
/// Terms of the model; the rules of a CPU come first of what follows the common ones.
const TERMS: usize = COMMON + onnx_runtime::TERMS;
/// Fewest rows of a kind that factors are fitted to, and that one of two sums is chosen by.
const LEAST: usize = 16;
const FEWEST: usize = 3;

/// What a library on a CPU holds by rules of its own: whether there are several steps; the
/// kind of the first that has parameters; the precision. `None` on a GPU, where one rule serves.
pub(crate) type Kind = Option<(bool, Family, Precision)>;

/// Bytes held at most: parameters, what lives between the steps, workspace, and constants, each
/// times a fitted factor that is not negative.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub(crate) struct Memory {
    factors: Vec<f64>,
    /// Factors of a kind; the last one is of the sum by all.
    by_kind: FxHashMap<Kind, Vec<f64>>,
}

impl Memory {
    /// `None` where there are no observations of memory.
    pub(crate) fn fit(rows: &[Vec<f64>], kinds: &[Kind], bytes: &[f64]) -> Option<Self> {
        if rows.is_empty() {
            return None;
        }
        let mut start = vec![0.0; TERMS];
        start[0] = 1.0;
        start[4] = 1.0;
        start[8] = 1.0;
        let factors = nonnegative::factors(rows, bytes, &start, nonnegative::MANY);
        let mut places: FxHashMap<Kind, Vec<usize>> = FxHashMap::default();
        for (row, kind) in kinds.iter().enumerate().filter(|(_, kind)| kind.is_some()) {
            places.entry(*kind).or_default().push(row);
        }
        let by_kind = places
            .into_iter()
            .filter(|(_, places)| places.len() >= FEWEST)
            .map(|(kind, places)| {
                let list: Vec<Vec<f64>> = places
                    .iter()
                    .map(|&row| with(&rows[row], nonnegative::sum(&factors, &rows[row])))
                    .collect();
                let held: Vec<f64> = places.iter().map(|&row| bytes[row]).collect();
                (kind, of_kind(&list, &held))
            })
            .collect();
        Some(Self { factors, by_kind })
    }

    pub(crate) fn bytes(&self, terms: &[f64], kind: Kind) -> f64 {
        let coarse = nonnegative::sum(&self.factors, terms);
        match self.by_kind.get(&kind) {
            Some(factors) => nonnegative::sum(factors, &with(terms, coarse)),
            None => coarse,
        }
    }
}

/// Factors of one kind: those that are fitted where there are rows enough, else the nearer of the
/// sum by all and the rules alone.
fn of_kind(rows: &[Vec<f64>], bytes: &[f64]) -> Vec<f64> {
    let only = |term: usize| {
        let mut factors = vec![0.0; TERMS + 1];
        factors[term] = 1.0;
        factors
    };
    let error = |factors: &[f64]| -> f64 {
        rows.iter().zip(bytes).map(|(row, bytes)| (nonnegative::sum(factors, row) / bytes - 1.0).abs()).sum()
    };
    let (coarse, rules) = (only(TERMS), only(COMMON));
    let nearer = if error(&rules) < error(&coarse) { rules } else { coarse };
    if rows.len() < LEAST {
        return nearer;
    }
    nonnegative::factors(rows, bytes, &nearer, nonnegative::MANY)
}

fn with(terms: &[f64], coarse: f64) -> Vec<f64> {
    terms.iter().copied().chain([coarse]).collect()
}

/// The kind of a run.
pub(crate) fn kind(points: &[Point<'_>]) -> Kind {
    let first = points.iter().find(|point| point.shape.weights > 0.0).or_else(|| points.first())?;
    let family = match first.shape.family {
        family @ (Family::Gemm | Family::Conv | Family::Pool) => family,
        _ => Family::Elements,
    };
    (first.mode == Mode::Call).then_some((points.len() > 1, family, first.precision))
}

/// Terms of a run: parameters as they are, padded, and aligned; activations all together, and those
/// that a chain of steps needs at one time; what goes in and out; workspace as far as the library
/// reports it; a constant and one for each step.
pub(crate) fn terms(points: &[Point<'_>]) -> Vec<f64> {
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
    // What the caller gives and gets lives all the time; between the steps, what one reads and
    // writes.
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
    let reported = |algorithm: &Algorithm| algorithm.workspace.unwrap_or(0) as f64;
    let workspace = points.iter().filter_map(|point| point.algorithm).map(reported).fold(0.0, f64::max);
    let count = points.len() as f64;
    // A CPU works on so many samples at a time, in panels of the widest layer.
    let panel = |samples: f64| {
        let each =
            |point: &Point<'_>| of(point, point.shape.m.min(samples) * point.shape.n.max(point.shape.k));
        points.iter().map(each).fold(0.0, f64::max)
    };
    let is_call = points.first().is_some_and(|point| point.mode == Mode::Call);
    [
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
    .into_iter()
    .chain(if is_call { onnx_runtime::terms(points) } else { [0.0; onnx_runtime::TERMS] })
    .collect()
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
        let memory = Memory::fit(&rows, &vec![None; rows.len()], &bytes).unwrap();
        for (row, bytes) in rows.iter().zip(&bytes) {
            assert!((memory.bytes(row, None) / bytes - 1.0).abs() < 0.01);
        }
    }

    #[test]
    fn each_kind_on_a_cpu_has_a_rule_of_its_own() {
        let kinds = [(false, Family::Gemm), (true, Family::Gemm), (true, Family::Conv)]
            .map(|(several, family)| Some((several, family, Precision::Fp32)));
        // Three times the rules' bytes; half of the outputs more; a few rows that keep to the
        // rules.
        let of = |row: u32, kind: usize| -> (Vec<f64>, f64) {
            let mut terms = vec![0.0; TERMS];
            (terms[COMMON], terms[6]) = (1e6 + 1e4 * f64::from(row * row), 1e5 * f64::from(90 - row));
            let bytes = [3.0 * terms[COMMON], terms[COMMON] + 0.5 * terms[6], terms[COMMON]][kind];
            (terms, bytes)
        };
        let picked: Vec<(u32, usize)> =
            (0..80).map(|row| (row, usize::from(row % 2 == 1))).chain((80..85).map(|row| (row, 2))).collect();
        let (rows, bytes): (Vec<_>, Vec<_>) = picked.iter().map(|&(row, kind)| of(row, kind)).unzip();
        let of_rows: Vec<Kind> = picked.iter().map(|&(_, kind)| kinds[kind]).collect();
        let memory = Memory::fit(&rows, &of_rows, &bytes).unwrap();
        for (kind, name) in kinds.iter().enumerate() {
            let (terms, bytes) = of(40, kind);
            let error = memory.bytes(&terms, *name) / bytes - 1.0;
            assert!(error.abs() < 0.01, "{name:?}: {error}");
        }
    }
}
