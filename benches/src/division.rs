//! Which rows of a calibration a fit may see and which judge it, where more is left out than in a
//! cross-validation: whole networks, whole sets of sizes, all but a few rows.
//!
//! The hash is that of [`order`], frozen with the accuracy that is stated.

use flopgap_calibration::Row;
use flopgap_calibration::split::{SEED, fnv, mix, model_name, order};
use flopgap_graph::{Mode, Op, Workload};

/// The side of a division.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// A fit may see it.
    Fit,
    /// It judges the fit.
    Validation,
}

/// A way to divide workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Division {
    /// A third of all workloads, by hash, validates.
    Workloads,
    /// Whole sets of values are left out: steps none of whose dimensions has a held-out value are
    /// fitted, those whose dimensions all have one validate, and others do neither. Three of eight
    /// values are held out, by hash. Dimensions are m, n and k of a product, and batch, channels
    /// and image of a convolution.
    Values,
    /// A third of all whole networks, by the hash of their names, validates in every batch; a third
    /// of the steps, by hash, as in [`Division::Workloads`].
    Networks,
}

impl Division {
    /// The side that a workload is on; `None` where it is on neither.
    ///
    /// A launch that does nothing is in every fit: it says what a call costs, and has no size to
    /// leave out.
    pub fn side(self, workload: &Workload) -> Option<Side> {
        if matches!(workload, Workload::Step(step) if matches!(step.op, Op::Empty)) {
            return Some(Side::Fit);
        }
        let third = |hash: u64| Some(if hash.is_multiple_of(3) { Side::Validation } else { Side::Fit });
        match self {
            Division::Workloads => third(order(workload)),
            Division::Networks => third(match model_name(workload) {
                Some(name) => mix(fnv(name.as_bytes()) ^ SEED),
                None => order(workload),
            }),
            Division::Values => {
                let values = dimensions(workload)?;
                match values.iter().filter(|&&value| is_held_out(value)).count() {
                    0 => Some(Side::Fit),
                    all if all == values.len() => Some(Side::Validation),
                    _ => None,
                }
            }
        }
    }
}

fn is_held_out(value: u64) -> bool {
    mix(value ^ (SEED << 32)) % 8 < 3
}

/// The sizes of a step that [`Division::Values`] goes by.
fn dimensions(workload: &Workload) -> Option<Vec<u64>> {
    let Workload::Step(step) = workload else { return None };
    match &step.op {
        Op::Gemm(gemm) => Some(vec![gemm.m, gemm.n, gemm.k]),
        Op::Conv(conv) => {
            let sizes = [conv.batch, conv.inputs, conv.outputs];
            Some(sizes.into_iter().chain(conv.image.first().copied()).collect())
        }
        _ => None,
    }
}

/// The distance between rows of different precisions, in octaves of a size.
const PRECISION: f64 = 6.0;
/// The distance between launch modes. These share the kernels, so little is learned from both.
const MODE: f64 = 1.0;
/// The distance between algorithms of a library.
const ALGORITHM: f64 = 2.0;
/// The same for rows that are aligned and rows that are not, by the step from odd to multiples of
/// 8.
const ALIGNMENT: f64 = 1.0;

/// At most so many rows, chosen so that no other row is far from all of them (farthest-first
/// traversal: Gonzalez, 1985).
///
/// Who may measure and fit only so many products chooses them so that they cover the sizes. This
/// choice goes by what is known before anything is timed: sizes, precision, mode, and the algorithm
/// that the library would take, where it reports it. It never looks at a time, begins at a row that
/// a hash decides, and always comes out the same; fewer rows are the first of more. Rows are chosen
/// among those that are given, the fitted side of a split: which rows judge does not depend on it.
pub fn at_most(mut rows: Vec<&Row>, most: usize) -> Vec<&Row> {
    if rows.len() <= most {
        return rows;
    }
    rows.sort_by_cached_key(|row| {
        let how = format!("{} {:?}", row.precision, row.mode).to_lowercase();
        mix(order(&row.workload) ^ fnv(how.as_bytes()))
    });
    let places: Vec<Place<'_>> = rows.iter().map(|row| Place::of(row)).collect();
    let mut nearest = vec![f64::INFINITY; rows.len()];
    let mut chosen = Vec::with_capacity(most);
    let mut next = 0;
    while chosen.len() < most {
        chosen.push(rows[next]);
        nearest[next] = f64::NEG_INFINITY;
        let mut farthest = (f64::NEG_INFINITY, 0);
        for (row, distance) in nearest.iter_mut().enumerate() {
            if *distance > f64::NEG_INFINITY {
                *distance = distance.min(places[row].distance(&places[next]));
                // The first of those that are equally far: the order of the hash decides.
                if *distance > farthest.0 {
                    farthest = (*distance, row);
                }
            }
        }
        next = farthest.1;
    }
    chosen
}

/// Where a row lies among others.
struct Place<'a> {
    kind: &'a str,
    sizes: Vec<f64>,
    alignment: f64,
    precision: usize,
    mode: Mode,
    algorithm: Option<&'a str>,
}

impl<'a> Place<'a> {
    fn of(row: &'a Row) -> Self {
        let sizes = match &row.workload {
            Workload::Step(step) => match &step.op {
                Op::Gemm(gemm) => vec![gemm.batch, gemm.m, gemm.n, gemm.k],
                Op::Conv(conv) => {
                    let sizes = [conv.batch, conv.inputs, conv.outputs, conv.groups];
                    sizes.into_iter().chain(conv.image.first().copied()).collect()
                }
                _ => Vec::new(),
            },
            _ => Vec::new(),
        };
        let alignment = match &row.workload {
            Workload::Step(step) => match &step.op {
                Op::Gemm(gemm) => (gemm.n | gemm.k).trailing_zeros().min(3),
                Op::Conv(conv) => (conv.inputs | conv.outputs).trailing_zeros().min(3),
                _ => 0,
            },
            _ => 0,
        };
        Self {
            kind: row.workload.family(),
            sizes: sizes.into_iter().map(|size| (size.max(1) as f64).log2()).collect(),
            alignment: f64::from(alignment) / 3.0,
            precision: row.precision as usize,
            mode: row.mode,
            algorithm: row.measurement.algorithms.first().map(|algorithm| algorithm.id.as_str()),
        }
    }

    fn distance(&self, other: &Self) -> f64 {
        if self.kind != other.kind || self.sizes.len() != other.sizes.len() {
            return f64::MAX;
        }
        let differ = |differ: bool, far: f64| if differ { far } else { 0.0 };
        let sizes: f64 =
            self.sizes.iter().zip(&other.sizes).map(|(left, right)| (left - right).powi(2)).sum();
        let straight = sizes
            + differ(self.precision != other.precision, PRECISION).powi(2)
            + differ(self.mode != other.mode, MODE).powi(2);
        straight.sqrt()
            + differ(self.algorithm != other.algorithm, ALGORITHM)
            + ALIGNMENT * (self.alignment - other.alignment).abs()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use flopgap_flops::Activation;
    use flopgap_graph::op::Gemm;
    use flopgap_graph::{Epilogue, ResnetSpec, Step};

    use super::*;
    use crate::calibration::calibration;

    fn gemm(m: u64, n: u64, k: u64) -> Workload {
        let op = Op::Gemm(Gemm { batch: 1, m, n, k });
        Workload::Step(Step {
            op,
            epilogue: Epilogue { activation: Activation::Relu, ..Epilogue::default() },
        })
    }

    #[test]
    fn values_are_left_out_whole() {
        // Computed by a second implementation, in Python.
        let held_out: Vec<u64> = (1..=40).filter(|&value| is_held_out(value)).collect();
        assert_eq!(held_out, [1, 2, 4, 7, 10, 11, 12, 14, 19, 23, 24, 26, 31, 33, 36, 38, 39]);
        let workloads: Vec<Workload> =
            (0..4000).map(|i| gemm(1 + i % 37, 1 + i % 101, 1 + i % 211)).collect();
        let on = |side| {
            let all = workloads.iter().filter(move |one| Division::Values.side(one) == Some(side));
            all.filter_map(dimensions).collect::<Vec<_>>()
        };
        let (fit, validation) = (on(Side::Fit), on(Side::Validation));
        assert!(fit.len() > 700 && validation.len() > 120, "{} {}", fit.len(), validation.len());
        let fitted: BTreeSet<u64> = fit.into_iter().flatten().collect();
        assert!(validation.iter().flatten().all(|value| !fitted.contains(value)));
    }

    #[test]
    fn networks_keep_their_batches_together_and_steps_are_divided_as_workloads() {
        for depth in [18, 34, 50, 101, 152] {
            let side =
                |batch| Division::Networks.side(&Workload::Resnet(ResnetSpec { depth, batch, image: 224 }));
            assert!([1, 8, 64].iter().all(|&batch| side(batch) == side(2)));
        }
        let rows = calibration(3000).rows;
        let side = |row: &Row| Division::Workloads.side(&row.workload);
        let validation = rows.iter().filter(|row| side(row) == Some(Side::Validation)).count();
        assert!((900..1100).contains(&validation), "{validation}");
        assert!(rows.iter().all(|row| Division::Networks.side(&row.workload) == side(row)));
    }

    #[test]
    fn rows_that_are_chosen_cover_the_sizes_and_not_the_times() {
        // Ninety rows near each other, and ten far away.
        let row = |index: u64| {
            let m = if index < 90 { 1000 + index } else { 1 << (index - 90) };
            Row { workload: gemm(m, 64, 64), ..calibration(1).rows.remove(0) }
        };
        let rows: Vec<Row> = (0..100).map(row).collect();
        let chosen = at_most(rows.iter().collect(), 11);
        let far = rows[90..].iter().filter(|row| chosen.contains(row)).count();
        assert!(far >= 9, "{far}");
        assert_eq!(at_most(rows.iter().collect(), 5), chosen[..5], "fewer rows are a part of more");
        // Other times: the same choice.
        let mut other = rows.clone();
        for (index, row) in other.iter_mut().enumerate() {
            row.measurement.time.median_ns *= 1.0 + index as f64;
        }
        let labels = |rows: &[&Row]| rows.iter().map(|row| row.workload.label()).collect::<Vec<_>>();
        assert_eq!(labels(&at_most(other.iter().rev().collect(), 11)), labels(&chosen));
    }
}
