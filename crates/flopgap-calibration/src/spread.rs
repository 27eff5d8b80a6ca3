//! Selects the rows of a limited fit so that they are far from each other.

use flopgap_graph::{Mode, Op, Workload};

use crate::row::{Row, mode_name};
use crate::split::{fnv, mix, order};

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
        let how = format!("{} {}", row.precision, mode_name(row.mode));
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
    use flopgap_graph::op::Gemm;
    use flopgap_graph::{Epilogue, Step};

    use super::*;
    use crate::testing;

    #[test]
    fn fewer_rows_are_a_part_of_more() {
        let rows = testing::rows(300);
        let of = |most| at_most(rows.iter().collect(), most);
        assert_eq!(of(20), of(100)[..20]);
        assert_ne!(of(20), rows.iter().take(20).collect::<Vec<_>>());
        assert_eq!(of(1000).len(), 300);
    }

    #[test]
    fn rows_that_are_chosen_cover_the_sizes_and_not_the_times() {
        // Ninety rows near each other, and ten far away.
        let row = |index: u64| {
            let m = if index < 90 { 1000 + index } else { 1 << (index - 90) };
            let mut row = testing::rows(1).remove(0);
            let op = Op::Gemm(Gemm { batch: 1, m, n: 64, k: 64 });
            row.workload = Workload::Step(Step { op, epilogue: Epilogue::default() });
            row
        };
        let rows: Vec<Row> = (0..100).map(row).collect();
        let chosen = at_most(rows.iter().collect(), 11);
        let far = rows[90..].iter().filter(|row| chosen.contains(row)).count();
        assert!(far >= 9, "{far}");
        // Other times: the same choice.
        let mut other = rows.clone();
        for (index, row) in other.iter_mut().enumerate() {
            row.measurement.time.median_ns *= 1.0 + index as f64;
        }
        let labels = |rows: &[&Row]| rows.iter().map(|row| row.workload.label()).collect::<Vec<_>>();
        assert_eq!(labels(&at_most(other.iter().rev().collect(), 11)), labels(&chosen));
    }
}
