//! Times of convolutions whose kernels are known, as sums of the kernels' work: fitted to all of
//! them, then to each kind of kernel, then to its tiles. A finer group starts at the prediction of
//! the coarser one and keeps it as a term.

use flopgap_flops::Precision;
use rustc_hash::FxHashMap;

use flopgap_graph::Mode;

use crate::predict::formula::convolution::{ConvolutionWork, TERMS, names};
use crate::predict::formula::groups::{by, class, near};
use crate::predict::formula::nonnegative::{self, MANY};
use crate::predict::inputs::machine::Machine;
use crate::predict::inputs::point::Point;
use crate::predict::inputs::shape::Family;

/// Fewest rows that all convolutions are fitted to, and those of a kind of kernel.
const LEAST: usize = 12;
const LEAST_OF_KIND: usize = 6;
/// How far a group may be from the coarser one: kinds of kernels differ by far, tiles of one do
/// not.
const FACTORS: [f64; 2] = [6.0, 3.0];
/// As if by so many rows, factors are held near the coarser group's.
const HOLD: f64 = 12.0;

type Kind = (Precision, String);

/// A convolution whose kernels are known.
#[derive(Debug, Clone)]
pub(crate) struct Convolution {
    /// Coarsely and finely.
    kinds: [Kind; 2],
    terms: [f64; TERMS],
}

impl Convolution {
    /// `None` for other steps, and where the kernels are not known.
    pub(crate) fn of(machine: &Machine, point: &Point<'_>) -> Option<Self> {
        let algorithm = point.algorithm.filter(|_| point.shape.family == Family::Conv)?;
        let terms = work_of(machine, point)?.terms;
        let precision = class(point.precision);
        Some(Self { kinds: names(algorithm)?.map(|name| (precision, name)), terms })
    }
}

/// Factors of each group.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Convolutions {
    precisions: FxHashMap<Precision, Vec<f64>>,
    all: Vec<f64>,
    kinds: [FxHashMap<Kind, Vec<f64>>; 2],
}

impl Convolutions {
    /// Fits factors; nothing is known where there are too few rows.
    pub(crate) fn fit(rows: &[(&Convolution, f64)]) -> Self {
        let mut found = Self::default();
        if rows.len() < LEAST {
            return found;
        }
        let times: Vec<f64> = rows.iter().map(|(_, time)| *time).collect();
        let terms: Vec<Vec<f64>> = rows.iter().map(|(row, _)| row.terms.to_vec()).collect();
        found.all = nonnegative::factors(&terms, &times, &[1.0; TERMS], MANY);
        let every: Vec<usize> = (0..rows.len()).collect();
        for (precision, members) in by(&every, |row| Some(rows[row].0.kinds[0].0)) {
            if members.len() >= LEAST {
                let pick: Vec<Vec<f64>> = members.iter().map(|&row| terms[row].clone()).collect();
                let times: Vec<f64> = members.iter().map(|&row| times[row]).collect();
                let factors = nonnegative::regularized(&pick, &times, &found.all, MANY, HOLD);
                found.precisions.insert(precision, factors);
            }
        }
        for level in 0..2 {
            let mut kinds = Vec::new();
            for (kind, members) in by(&every, |row| Some(rows[row].0.kinds[level].clone())) {
                if members.len() < LEAST_OF_KIND {
                    continue;
                }
                let list: Vec<Vec<f64>> = members
                    .iter()
                    .map(|&row| with(rows[row].0, found.by_levels(rows[row].0, level)))
                    .collect();
                let times: Vec<f64> = members.iter().map(|&row| times[row]).collect();
                let mut start = vec![0.0; TERMS + 1];
                start[TERMS] = 1.0;
                kinds.push((kind, nonnegative::regularized(&list, &times, &start, MANY, HOLD)));
            }
            found.kinds[level].extend(kinds);
        }
        found
    }

    /// Nanoseconds; `None` where nothing was fitted.
    pub(crate) fn predict(&self, row: &Convolution) -> Option<f64> {
        (!self.all.is_empty()).then(|| self.by_levels(row, 2))
    }

    fn by_levels(&self, row: &Convolution, levels: usize) -> f64 {
        let coarse = self.precisions.get(&row.kinds[0].0).unwrap_or(&self.all);
        let mut predicted = nonnegative::sum(coarse, &row.terms).max(1.0);
        let groups = row.kinds.iter().zip(&self.kinds).zip(FACTORS);
        for ((kind, kinds), factor) in groups.take(levels) {
            if let Some(factors) = kinds.get(kind) {
                predicted = near(nonnegative::sum(factors, &with(row, predicted)), predicted, factor);
            }
        }
        predicted
    }
}

/// The terms with the coarser prediction.
fn with(row: &Convolution, coarser: f64) -> Vec<f64> {
    row.terms.iter().copied().chain([coarser]).collect()
}

/// The work of a step's kernels; `None` if none is known.
fn work_of(machine: &Machine, point: &Point<'_>) -> Option<ConvolutionWork> {
    let how = (point.precision, point.mode == Mode::Graph);
    ConvolutionWork::of(machine, (&point.shape, &point.roof), how, point.algorithm?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::formula::convolution::at;

    /// Launches and dependent steps; the kernels of a kind take `each` for a step.
    fn row(kind: &str, steps: f64, each: f64) -> (Convolution, f64) {
        let mut terms = [0.0; TERMS];
        terms[at::LAUNCH] = 1000.0;
        terms[at::LATENCY] = 100.0 * steps;
        let name = |suffix: &str| (Precision::Fp16, format!("{kind}{suffix}"));
        (Convolution { kinds: [name(""), name(" 64x64")], terms }, 2000.0 + each * steps)
    }

    #[test]
    fn kinds_of_kernels_have_factors_of_their_own() {
        let rows: Vec<(Convolution, f64)> = (1..40)
            .flat_map(|steps| {
                let steps = f64::from(steps * steps);
                [row("fast", steps, 50.0), row("slow", steps, 150.0)]
            })
            .collect();
        let list: Vec<(&Convolution, f64)> = rows.iter().map(|(row, time)| (row, *time)).collect();
        let found = Convolutions::fit(&list);
        let error: f64 =
            rows.iter().map(|(row, time)| (found.predict(row).unwrap() / time - 1.0).abs()).sum::<f64>();
        assert!(error / (rows.len() as f64) < 0.1, "{}", error / rows.len() as f64);
        assert_eq!(Convolutions::fit(&list[..5]).predict(&rows[0].0), None, "too few");
    }
}
