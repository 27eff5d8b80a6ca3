//! A table of measured kernels: judged on a part of its rows, then interpolated between all.

use std::collections::BTreeMap;

use flopgap_graph::language::Kernel;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::Peaks;
use super::class::{Class, coordinates, sizes};
use crate::floor::Floor;
use crate::kriging::{Field, Guess};

/// A measured kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// What ran.
    pub kernel: Kernel,
    /// How long it took.
    pub nanoseconds: f64,
}

/// Errors on a fifth of the rows, which the others predicted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// Rows that were predicted.
    pub rows: usize,
    /// Mean relative error.
    pub mape: f64,
    /// Median relative error.
    pub median: f64,
    /// The error that a tenth exceeds.
    pub p90: f64,
    /// The share within intervals of 90 %, whose widths come from the other half of the fifth.
    pub coverage: f64,
}

/// The tails of what is measured, in deviations: the 5th and the 95th percentile.
pub(super) type Tails = [f64; 2];

/// Measured kernels of one class.
#[derive(Debug, Clone)]
pub(super) struct Table {
    pub(super) judged: Judged,
    pub(super) tails: Tails,
    /// The power of the deviation that errors grow with.
    pub(super) growth: f64,
    pub(super) field: Field,
    pub(super) rows: Vec<Row>,
}

impl Table {
    /// Tables of all rows, each judged on a fifth. Collectives have few rows, so that all of them
    /// share the widths of their intervals.
    pub(super) fn fit(rows: Vec<(Class, Vec<Row>)>, peaks: &Peaks) -> BTreeMap<Class, Self> {
        let errors = |(class, rows): &(Class, Vec<Row>)| {
            let (held, fitted): (Vec<&Row>, Vec<&Row>) =
                rows.iter().partition(|row| part(&row.kernel).is_multiple_of(5));
            Errors::of(*class, &fitted, &held, peaks)
        };
        let errors: Vec<Errors> = rows
            .iter()
            .map(|table| {
                let errors = errors(table);
                let far = left_out(table.0, &table.1, peaks);
                let growth = far.map_or(1.0, |[within, _]| errors.growth(&Errors::new(within)));
                Errors { growth, ..errors }
            })
            .collect();
        let is_collective = |class: Class| matches!(class, Class::Collective(_));
        let collectives = rows.iter().zip(&errors).filter(|((class, _), _)| is_collective(*class));
        let collectives = Errors::new(collectives.flat_map(|(_, errors)| errors.found.clone()).collect());
        let one = |((class, rows), errors): ((Class, Vec<Row>), Errors)| {
            let widths = if is_collective(class) { &collectives } else { &errors };
            let (judged, tails) = (errors.judged(widths), widths.tails(|_| true));
            (class, Self { judged, tails, growth: errors.growth, field: field(class, &rows, peaks), rows })
        };
        rows.into_iter().zip(errors).map(one).collect()
    }

    /// Nanoseconds of a kernel with the interval of 90 %.
    pub(super) fn at(&self, kernel: &Kernel, class: Class, peaks: &Peaks) -> Option<[f64; 3]> {
        let floor = Floor::of(kernel, class, peaks).seconds() * 1e9;
        let guess = self.field.at(&coordinates(kernel, peaks.units))?;
        let deviation = guess.deviation.powf(self.growth);
        let [low, high] = self.tails.map(|tail| floor * (guess.value + tail * deviation).exp());
        Some([floor * guess.value.exp(), low, high])
    }
}

/// The logarithm of a row's time over its floor.
pub(super) fn value(row: &Row, class: Class, peaks: &Peaks) -> f64 {
    (row.nanoseconds * 1e-9 / Floor::of(&row.kernel, class, peaks).seconds()).ln()
}

pub(super) fn field<'a>(class: Class, rows: impl IntoIterator<Item = &'a Row>, peaks: &Peaks) -> Field {
    let mut field = Field::new(class.scales());
    for row in rows {
        field.push(&coordinates(&row.kernel, peaks.units), value(row, class, peaks));
    }
    field
}

/// A number that depends on the sizes of a kernel alone (FNV-1a, mixed).
pub(super) fn part(kernel: &Kernel) -> u64 {
    mixed(&sizes(kernel))
}

fn mixed(sizes: &[u64]) -> u64 {
    let bytes = sizes.iter().flat_map(|size| size.to_le_bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash ^ (hash >> 32)).wrapping_mul(0xff51_afd7_ed55_8ccd) >> 20
}

/// What was predicted of rows, and what was measured.
pub(super) struct Errors {
    found: Vec<Found>,
    /// The power of the deviation that scores are divided by.
    growth: f64,
}

/// The part of a row, the guess, and the measured logarithm.
type Found = (u64, Guess, f64);

impl Errors {
    fn new(found: Vec<Found>) -> Self {
        Self { found, growth: 1.0 }
    }

    /// The errors, by sizes, and the deviations, sorted.
    fn sorted(&self) -> [Vec<f64>; 2] {
        let errors = self.found.iter().map(|(_, guess, measured)| (measured - guess.value).abs());
        let mut both: [Vec<f64>; 2] =
            [errors.collect(), self.found.iter().map(|(_, guess, _)| guess.deviation).collect()];
        for values in &mut both {
            values.sort_by(f64::total_cmp);
        }
        both
    }

    /// How errors grow with the deviation, between these near measured points and others far from
    /// them: the power that makes nine tenths of both alike.
    fn growth(&self, far: &Errors) -> f64 {
        const FEWEST: usize = 50;
        if far.found.len() < FEWEST {
            return 1.0;
        }
        let [[near_errors, near], [far_errors, far]] = [self.sorted(), far.sorted()];
        let errors = quantile(&far_errors, 0.9) / quantile(&near_errors, 0.9);
        let deviations = quantile(&far, 0.5) / quantile(&near, 0.5);
        let growth = errors.ln() / deviations.ln();
        if growth.is_finite() { growth.clamp(0.0, 2.0) } else { 1.0 }
    }

    pub(super) fn of(class: Class, fitted: &[&Row], held: &[&Row], peaks: &Peaks) -> Self {
        let field = field(class, fitted.iter().copied(), peaks);
        let one = |row: &&Row| {
            let guess = field.at(&coordinates(&row.kernel, peaks.units))?;
            Some((part(&row.kernel) / 5, guess, value(row, class, peaks)))
        };
        Self::new(held.par_iter().filter_map(one).collect())
    }

    /// How far the measured value is off, in deviations.
    fn score(&self, guess: &Guess, measured: f64) -> f64 {
        (measured - guess.value) / guess.deviation.powf(self.growth)
    }

    /// The tails of the rows of some parts.
    fn tails(&self, of: impl Fn(u64) -> bool) -> Tails {
        let chosen = self.found.iter().filter(|(part, ..)| of(*part));
        let mut scores: Vec<f64> = chosen.map(|(_, guess, measured)| self.score(guess, *measured)).collect();
        scores.sort_by(f64::total_cmp);
        // One more than there are: the next is equally likely to lie in each gap.
        let beyond = 0.05 * (1.0 - 1.0 / scores.len().max(2) as f64);
        [quantile(&scores, beyond), quantile(&scores, 1.0 - beyond)]
    }

    /// The errors, and how many lie in intervals whose widths come from the other half of `widths`.
    pub(super) fn judged(&self, widths: &Errors) -> Judged {
        let [even, odd] = [0, 1].map(|half| widths.tails(|part| part % 2 == half));
        self.judged_by([odd, even])
    }

    /// The errors, and how many lie in intervals of these widths: of even and odd parts.
    fn judged_by(&self, widths: [Tails; 2]) -> Judged {
        let mut errors: Vec<f64> = self
            .found
            .iter()
            .map(|(_, guess, measured)| ((guess.value - measured).exp() - 1.0).abs())
            .collect();
        errors.sort_by(f64::total_cmp);
        let inside = self.found.iter().filter(|(part, guess, measured)| {
            let [low, high] = widths[usize::from(part % 2 == 1)];
            (low..=high).contains(&self.score(guess, *measured))
        });
        let rows = errors.len();
        Judged {
            rows,
            mape: errors.iter().sum::<f64>() / rows.max(1) as f64,
            median: quantile(&errors, 0.5),
            p90: quantile(&errors, 0.9),
            coverage: inside.count() as f64 / rows.max(1) as f64,
        }
    }
}

/// A quantile of sorted values; 0 without any.
pub(super) fn quantile(sorted: &[f64], at: f64) -> f64 {
    crate::quantile(sorted, at).unwrap_or(0.0)
}

/// How well products are predicted whose numbers of rows, outputs and inputs were all never
/// fitted: between those that were, and beyond.
pub(super) fn unseen(class: Class, table: &Table, peaks: &Peaks) -> Option<[Judged; 2]> {
    let all = left_out(class, &table.rows, peaks)?;
    Some(all.map(|found| Errors { found, growth: table.growth }.judged_by([table.tails; 2])))
}

/// What is predicted of products when, in eight folds, every eighth value of each size is left out:
/// first those whose sizes lie between fitted ones, then those beyond. `None` of other classes,
/// whose sizes are few.
fn left_out(class: Class, rows: &[Row], peaks: &Peaks) -> Option<[Vec<Found>; 2]> {
    matches!(class, Class::Product(_)).then_some(())?;
    let mut all = [Vec::new(), Vec::new()];
    for fold in 0..8 {
        let hidden =
            |row: &&Row| sizes(&row.kernel).iter().filter(|size| mixed(&[**size]) % 8 == fold).count();
        let fitted: Vec<&Row> = rows.iter().filter(|row| hidden(row) == 0).collect();
        let mut range: Vec<[u64; 2]> = vec![[u64::MAX, 0]; class.sizes()];
        for row in &fitted {
            for (range, size) in range.iter_mut().zip(sizes(&row.kernel)) {
                *range = [range[0].min(size), range[1].max(size)];
            }
        }
        let is_within = |row: &&Row| {
            let mut sizes = range.iter().zip(sizes(&row.kernel));
            sizes.all(|(range, size)| (range[0]..=range[1]).contains(&size))
        };
        let held = rows.iter().filter(|row| hidden(row) == class.sizes());
        let (within, beyond): (Vec<&Row>, Vec<&Row>) = held.partition(is_within);
        for (all, held) in all.iter_mut().zip([within, beyond]) {
            all.extend(Errors::of(class, &fitted, &held, peaks).found);
        }
    }
    Some(all)
}
