//! Times as sums of a step's work, fitted from coarse groups to fine ones.
//!
//! A kind of step has factors of its own, then the kind in one precision and mode, then each kernel
//! where it is known. A finer group begins at the prediction of the coarser one and keeps it as a
//! term, so that few rows change little.

use flopgap_flops::Precision;
use flopgap_graph::Mode;
use rustc_hash::FxHashMap;

use crate::predict::formula::convolutions::{Convolution, Convolutions};
use crate::predict::formula::groups::{by, class, near};
use crate::predict::formula::nonnegative::{self, FEW};
use crate::predict::formula::step_terms::{BASE, KERNEL_TERMS, MODES, TERMS, kernel_terms, terms};
use crate::predict::inputs::machine::Machine;
use crate::predict::inputs::point::Point;
use crate::predict::inputs::shape::Family;

/// Fewest rows of a group.
const LEAST: usize = 16;
/// How far a finer group may be from the coarser one.
const FACTOR: f64 = 3.0;
/// How far a kind of step may be from the prediction by constants, which knows no kinds.
const FACTOR_OF_BASE: f64 = 20.0;
/// Fewest rows of a kernel.
const LEAST_OF_KERNEL: usize = 8;

/// Precisions that the same kernels compute in are one; see [`class`].
type Group = (Family, Precision, Mode);
type Kernel = (Family, Precision, String);

/// Factors of each group.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Structure {
    families: FxHashMap<Family, Vec<f64>>,
    groups: FxHashMap<Group, Vec<f64>>,
    kernels: [FxHashMap<Kernel, Vec<f64>>; 2],
    convolutions: Convolutions,
}

/// A step, or a model of steps of one kind, as its time is a sum; the same for every part of a fit.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    group: Group,
    /// Coarsely and finely.
    kernel: Option<[Kernel; 2]>,
    base: f64,
    launch: f64,
    of_step: Vec<f64>,
    of_kernel: [f64; KERNEL_TERMS],
    convolution: Option<Convolution>,
}

impl Terms {
    pub(crate) fn new(machine: &Machine, point: &Point<'_>) -> Self {
        let (family, precision) = (point.shape.family, class(point.precision));
        let group = (family, precision, point.mode);
        // A kernel is the same however it is launched; what a launch adds is a term.
        let kernel = point.kernel().map(|names| names.map(|name| (family, precision, name)));
        let (of_step, of_kernel) = (terms(machine, point), kernel_terms(machine, point));
        let convolution = Convolution::of(machine, point);
        Self { group, kernel, base: point.base, launch: point.launch, of_step, of_kernel, convolution }
    }

    /// Sums over the steps of a model; it is of the kind of its most costly step. `None` without
    /// steps.
    pub(crate) fn of_model(machine: &Machine, points: &[Point<'_>]) -> Option<Self> {
        let most = points.iter().max_by(|left, right| left.base.total_cmp(&right.base))?;
        let mut sum =
            Self { kernel: None, convolution: None, base: 0.0, launch: 0.0, ..Self::new(machine, most) };
        sum.of_step.fill(0.0);
        for point in points {
            sum.base += point.base;
            sum.launch += point.launch;
            for (sum, term) in sum.of_step.iter_mut().zip(terms(machine, point)) {
                *sum += term;
            }
        }
        Some(sum)
    }
}

impl Structure {
    /// Fits factors to these rows.
    pub(crate) fn fit(terms: &[Terms], times: &[f64], rows: &[usize]) -> Self {
        let mut found = Self::default();
        for (family, rows) in by(rows, |row| Some(terms[row].group.0)) {
            if rows.len() >= LEAST {
                let mut start = vec![0.0; TERMS];
                start[BASE] = 1.0;
                let list: Vec<Vec<f64>> = rows.iter().map(|&row| terms[row].of_step.clone()).collect();
                found.families.insert(family, nonnegative::factors(&list, &pick(times, &rows), &start, FEW));
            }
        }
        let modes = by(rows, |row| Some(terms[row].group));
        // One group of a kind is that kind.
        let several = |family: Family| modes.iter().filter(|((other, ..), _)| *other == family).count() > 1;
        for (group, rows) in &modes {
            if rows.len() >= LEAST && several(group.0) {
                let coarse: Vec<f64> = rows.iter().map(|&row| found.coarse(&terms[row])).collect();
                let list: Vec<Vec<f64>> =
                    rows.iter().zip(&coarse).map(|(&row, coarse)| with(&terms[row], *coarse)).collect();
                let factors = nonnegative::factors(&list, &pick(times, rows), &last(TERMS + 2), FEW);
                found.groups.insert(*group, factors);
            }
        }
        for level in 0..2 {
            let mut kernels = Vec::new();
            let named = |row: usize| {
                let known = terms[row].kernel.as_ref().filter(|_| terms[row].convolution.is_none());
                known.map(|names| names[level].clone())
            };
            for (kernel, rows) in by(rows, named) {
                if rows.len() >= LEAST_OF_KERNEL {
                    let list: Vec<Vec<f64>> = rows
                        .iter()
                        .map(|&row| with_kernel(&terms[row], found.of_kernels(&terms[row], level)))
                        .collect();
                    let start = last(TERMS + KERNEL_TERMS + 1);
                    kernels.push((kernel, nonnegative::factors(&list, &pick(times, &rows), &start, FEW)));
                }
            }
            found.kernels[level].extend(kernels);
        }
        let convolutions: Vec<(&Convolution, f64)> =
            rows.iter().filter_map(|&row| Some((terms[row].convolution.as_ref()?, times[row]))).collect();
        found.convolutions = Convolutions::fit(&convolutions);
        found
    }

    /// Nanoseconds.
    pub(crate) fn predict(&self, terms: &Terms) -> f64 {
        let convolution = terms.convolution.as_ref();
        let predicted = convolution.and_then(|convolution| self.convolutions.predict(convolution));
        predicted.unwrap_or_else(|| self.of_kernels(terms, 2))
    }

    /// By how many of the two ways of distinguishing kernels, the coarse one first.
    fn of_kernels(&self, terms: &Terms, levels: usize) -> f64 {
        let mut predicted = self.fine(terms);
        let Some(names) = &terms.kernel else { return predicted };
        for (name, kernels) in names.iter().zip(&self.kernels).take(levels) {
            if let Some(factors) = kernels.get(name) {
                predicted =
                    near(nonnegative::sum(factors, &with_kernel(terms, predicted)), predicted, FACTOR);
            }
        }
        predicted
    }

    /// Nanoseconds of the work alone, without launches, by the kind of step.
    pub(crate) fn work(&self, terms: &Terms) -> f64 {
        let rest = (terms.base - terms.launch).max(1.0);
        let Some(factors) = self.families.get(&terms.group.0) else { return rest };
        let launches: f64 =
            factors[..MODES].iter().zip(&terms.of_step).map(|(factor, term)| factor * term).sum();
        let base = factors[BASE] * terms.launch;
        (nonnegative::sum(factors, &terms.of_step) - launches - base).max(1.0)
    }

    fn coarse(&self, terms: &Terms) -> f64 {
        let factors = self.families.get(&terms.group.0);
        factors.map_or(terms.base, |factors| {
            near(nonnegative::sum(factors, &terms.of_step), terms.base, FACTOR_OF_BASE)
        })
    }

    fn fine(&self, terms: &Terms) -> f64 {
        let coarse = self.coarse(terms);
        self.groups
            .get(&terms.group)
            .map_or(coarse, |factors| near(nonnegative::sum(factors, &with(terms, coarse)), coarse, FACTOR))
    }
}

fn pick(times: &[f64], rows: &[usize]) -> Vec<f64> {
    rows.iter().map(|&row| times[row]).collect()
}

/// The terms with the coarser prediction, also as far as it exceeds a launch: launches on a stream
/// hide what is shorter.
fn with(terms: &Terms, coarse: f64) -> Vec<f64> {
    terms.of_step.iter().copied().chain([coarse.max(terms.launch), coarse]).collect()
}

fn with_kernel(terms: &Terms, fine: f64) -> Vec<f64> {
    terms.of_step.iter().chain(&terms.of_kernel).copied().chain([fine]).collect()
}

/// A start at the last term alone.
fn last(columns: usize) -> Vec<f64> {
    let mut start = vec![0.0; columns];
    start[columns - 1] = 1.0;
    start
}
