//! Features of the time of products on a CPU, other than their sizes.
//!
//! Kernels compute whole tiles of registers, of a few rows by one to three vectors (the crate
//! `gemm`: 48 x 8 of the transposed result; MLAS of ONNX Runtime: 12 x 32). The weights of all
//! layers are read again in each run, from the level of the caches that holds them together.
//! Weights that are not packed are read by columns: whole pages apart where layers are wide, and
//! from few sets of a cache where their widths are powers of two.

use flopgap_graph::Mode;

use crate::predict::inputs::ln;
use crate::predict::inputs::machine::{Machine, bytes};
use crate::predict::inputs::point::Point;
use crate::predict::inputs::shape::Family;

/// Tiles of a result that kernels compute.
pub(crate) const TILES: [(f64, f64); 9] = [
    (1.0, 16.0),
    (4.0, 16.0),
    (6.0, 16.0),
    (8.0, 16.0),
    (8.0, 48.0),
    (12.0, 16.0),
    (12.0, 32.0),
    (12.0, 64.0),
    (16.0, 64.0),
];
/// Tiles whose waste is a feature.
pub(crate) const FEATURES: [(f64, f64); 5] =
    [(4.0, 16.0), (8.0, 48.0), (12.0, 32.0), (16.0, 16.0), (16.0, 64.0)];
/// Most rows of a product whose weights are read where they lie.
const UNPACKED: f64 = 64.0;
/// Columns of a vector, and those from which each row of weights is in a page of its own.
const VECTOR: f64 = 16.0;
const PAGE: f64 = 1024.0;
/// Widths by which rows of weights fall into few sets of a cache.
const FEW_SETS: f64 = 256.0;
/// Sums over the steps of a model.
const SUMS: usize = 10;

/// Additional features of a model on a CPU; none on a GPU. `sum` are the
/// nanoseconds of its steps.
pub(crate) fn features(machine: &Machine, points: &[Point<'_>], sum: f64) -> Vec<f64> {
    let Some(first) = points.first().filter(|point| point.mode == Mode::Call) else { return Vec::new() };
    let element = first.precision.element().bytes() as f64;
    let weights: f64 = points.iter().map(|point| point.shape.weights * element).sum();
    let between = |point: &Point<'_>| bytes(&point.shape, point.precision) - point.shape.weights * element;
    let held = weights + points.iter().map(between).fold(0.0, f64::max);
    let rate = machine.bandwidth(held);
    let peak = machine.peak(first.precision);
    let mut sums = [0.0; SUMS];
    for point in points.iter().filter(|point| matches!(point.shape.family, Family::Gemm | Family::Conv)) {
        let shape = &point.shape;
        let weights = shape.weights * element / rate;
        let compute = shape.flops / peak;
        let filled = |rows: f64, columns: f64| {
            let whole = (shape.m / rows).ceil() * rows * (shape.n / columns).ceil() * columns;
            2.0 * shape.batch * whole * shape.k / peak
        };
        let is_unpacked = shape.m > 1.0 && shape.m <= UNPACKED;
        let when = |is: bool| if is { weights } else { 0.0 };
        let added = [
            compute,
            filled(8.0, 48.0),
            filled(12.0, 32.0),
            filled(4.0, 16.0),
            weights,
            shape.outputs * element / rate,
            compute.max(weights),
            when(shape.m > UNPACKED || shape.n % VECTOR > 0.0),
            when(is_unpacked && shape.n >= PAGE),
            when(is_unpacked && shape.n % FEW_SETS == 0.0),
        ];
        for (sum, added) in sums.iter_mut().zip(added) {
            *sum += added;
        }
    }
    let divisor = sum.max(1.0);
    let m = first.shape.m;
    let waste = [4.0, 8.0, 12.0, 16.0].map(|rows| (m / rows).ceil() * rows / m.max(1.0));
    let ends = [first, &points[points.len() - 1]].map(|point| ln(point.shape.n));
    let sums = sums.map(|sum| ((sum + 1e-3) / divisor).ln());
    [ln(held), ln(rate)].into_iter().chain(sums).chain(waste).chain(ends).collect()
}

#[cfg(test)]
mod tests {
    use flopgap_flops::{Activation, Precision};
    use flopgap_graph::{MlpSpec, Workload};

    use super::*;
    use crate::predict::formula::baseline::Fitted;

    /// Features of layers of one width.
    fn of(mode: Mode, width: u64, batch: u64) -> Vec<f64> {
        let machine = Machine::new(None, None, &[]);
        let constants = Fitted::new(&machine, &[]);
        let hidden = vec![width; 2];
        let mlp = MlpSpec { input: width, hidden, output: width, batch, activation: Activation::Relu };
        let steps = Workload::Mlp(mlp).steps().unwrap();
        let points: Vec<Point<'_>> = steps
            .iter()
            .map(|step| Point::new((&machine, &constants), step, (Precision::Fp32, mode), None))
            .collect();
        features(&machine, &points, 1e6)
    }

    #[test]
    fn models_of_a_cpu_alone_have_them_and_equally_many() {
        assert!(of(Mode::Graph, 512, 8).is_empty() && of(Mode::Stream, 512, 8).is_empty());
        let count = of(Mode::Call, 512, 8).len();
        assert!(
            count > SUMS
                && [(1, 1), (1000, 64), (4096, 1)].iter().all(|&(width, batch)| {
                    let row = of(Mode::Call, width, batch);
                    row.len() == count && row.iter().all(|number| number.is_finite())
                })
        );
    }

    #[test]
    fn how_weights_are_read_goes_by_the_batch_and_the_width() {
        let nothing = (1e-3_f64 / 1e6).ln();
        let is_there = |width, batch| -> [bool; 3] {
            let row = of(Mode::Call, width, batch);
            // Packed, a page for each row, few sets.
            [9, 10, 11].map(|place| row[place] > nothing + 1.0)
        };
        assert_eq!(is_there(1024, 8), [false, true, true]);
        assert_eq!(is_there(512, 8), [false, false, true]);
        assert_eq!(is_there(528, 8), [false, false, false]);
        assert_eq!(is_there(1024, 128), [true, false, false]);
        assert_eq!(is_there(1000, 8), [true, false, false]);
        assert_eq!(is_there(1024, 1), [false, false, false]);
    }
}
