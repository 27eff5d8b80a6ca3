//! The features of a step for the trees.

use flopgap_flops::Activation;
use flopgap_graph::{Algorithm, Mode};
use rustc_hash::FxHashMap;

use crate::predict::inputs::machine::{Machine, place, place_of};
use crate::predict::inputs::point::Point;
use crate::predict::inputs::shape::{Family, Shape};
use crate::predict::inputs::{cores, ln};

/// Tiles whose waves and waste are features; more of them only add noise.
const TILES: [(f64, f64); 5] = [(128.0, 128.0), (128.0, 256.0), (64.0, 128.0), (64.0, 64.0), (256.0, 128.0)];
/// Kernels with a feature of their own.
const KERNELS: usize = 10;
/// Features of what kernels have to do.
const WORK: usize = 20;
/// Attributes of kernels with a feature of their own.
const ATTRIBUTES: usize = 8;

/// Sizes and what follows from them; equally many for each step.
pub(crate) fn sizes(point: &Point<'_>) -> Vec<f64> {
    let Point { step, precision, mode, shape, roof, base, .. } = point;
    vec![
        f64::from(shape.family as u8),
        place(*precision) as f64,
        place_of(*mode) as f64,
        ln(shape.batch),
        ln(shape.m),
        ln(shape.n),
        ln(shape.k),
        ln(shape.flops),
        ln(roof.bytes),
        ln(shape.weights),
        ln(shape.outputs),
        ln(shape.flops / roof.bytes.max(1.0)),
        ln(roof.compute / roof.memory.max(1e-3)),
        ln(*base),
        ln(shape.images),
        ln(shape.sides[0]),
        shape.window,
        shape.stride,
        shape.variant,
        f64::from(alignment(shape.m)),
        f64::from(alignment(shape.n)),
        f64::from(alignment(shape.k)),
        f64::from(u8::from(step.epilogue.bias)),
        f64::from(u8::from(step.epilogue.residual)),
        f64::from(u8::from(step.epilogue.activation != Activation::Identity)),
    ]
}

/// How the result divides into tiles.
pub(crate) fn tiles(machine: &Machine, point: &Point<'_>) -> Vec<f64> {
    let tiles = if point.mode == Mode::Call { cores::FEATURES } else { TILES };
    tiles.iter().flat_map(|tile| waves(&point.shape, *tile, machine.units)).collect()
}

/// The kernels that have a feature of their own: the most frequent ones.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Kernels {
    frequent: Vec<String>,
    attributes: Vec<String>,
}

impl Kernels {
    pub(crate) fn new(points: &[Point<'_>]) -> Self {
        let reported = || points.iter().filter_map(|point| point.algorithm);
        let frequent = most_frequent(reported().map(|algorithm| &*algorithm.id), KERNELS);
        let names = reported().flat_map(|algorithm| algorithm.attributes.keys().map(String::as_str));
        Self { frequent, attributes: most_frequent(names, ATTRIBUTES) }
    }

    /// Attributes of a kernel from the library; -1 if unknown.
    pub(crate) fn features(&self, machine: &Machine, point: &Point<'_>) -> Vec<f64> {
        let empty = Algorithm::default();
        let algorithm = point.algorithm.unwrap_or(&empty);
        let number = |value: Option<u32>| value.map_or(-1.0, f64::from);
        let tile = algorithm.tile.map(|[rows, columns]| (f64::from(rows.max(1)), f64::from(columns.max(1))));
        let [own, tail, waste] = tile.map_or([-1.0; 3], |tile| waves(&point.shape, tile, machine.units));
        let reported = algorithm.waves_thousandths.map_or(-1.0, |waves| waves as f64 / 1000.0);
        let reported_tail = if reported > 0.0 { (reported.ceil() / reported).ln() } else { -1.0 };
        let mut row = vec![
            tile.map_or(-1.0, |(rows, _)| rows),
            tile.map_or(-1.0, |(_, columns)| columns),
            number(algorithm.stages),
            number(algorithm.split_k),
            algorithm.cluster.map_or(-1.0, |[x, y]| f64::from(x) * f64::from(y)),
            own,
            tail,
            waste,
            reported.max(1e-3).ln(),
            reported_tail,
            algorithm.kernels.len() as f64,
            algorithm.workspace.map_or(-1.0, |bytes| bytes as f64),
        ];
        row.extend(work(machine, point));
        let attribute = |name: &String| algorithm.attributes.get(name).map_or(-1.0, |&value| value as f64);
        row.extend(self.attributes.iter().map(attribute));
        row.extend(self.frequent.iter().map(|id| f64::from(u8::from(*id == algorithm.id))));
        row
    }
}

/// The work of the kernels.
fn work(machine: &Machine, point: &Point<'_>) -> [f64; WORK] {
    let (Some(algorithm), Some(work)) = (point.algorithm, &point.work) else { return [-1.0; WORK] };
    let number = |value: Option<f64>| value.unwrap_or(-1.0);
    let attribute = |name: &str| algorithm.attributes.get(name).map_or(-1.0, |&value| value as f64);
    [
        number(work.named.depth),
        number(work.named.stages),
        number(work.named.alignment),
        number(work.named.architecture),
        work.named.launches,
        ln(work.tiles),
        ln(work.waves),
        ln(work.spread),
        ln(work.waves / work.spread.max(1e-3)),
        ln(work.waves / point.base),
        ln(work.waves / point.roof.compute.max(1.0)),
        ln(work.steps),
        ln(work.latency),
        ln(work.loaded),
        ln(work.reduced),
        ln(work.transformed),
        ln(work.time),
        ln(attribute("blocks") / machine.units),
        attribute("threads"),
        ln(algorithm.workspace.map_or(-1.0, |bytes| bytes as f64)),
    ]
}

/// The names that appear most often, the first in the alphabet of those that appear as often.
fn most_frequent<'a>(names: impl Iterator<Item = &'a str>, most: usize) -> Vec<String> {
    let mut counts: FxHashMap<&str, usize> = FxHashMap::default();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    counts.sort_by(|left, right| right.1.cmp(&left.1).then(left.0.cmp(right.0)));
    counts.into_iter().take(most).map(|(name, _)| name.to_owned()).collect()
}

/// How many times a size divides by two, at most 7 times.
pub(crate) fn alignment(size: f64) -> u8 {
    let mut left = size;
    let mut times = 0;
    while times < 7 && left >= 2.0 && left % 2.0 == 0.0 {
        left /= 2.0;
        times += 1;
    }
    times
}

/// ln waves, what the last wave leaves idle, and what the tiles compute in vain.
fn waves(shape: &Shape, (rows, columns): (f64, f64), units: f64) -> [f64; 3] {
    if !matches!(shape.family, Family::Gemm | Family::Conv | Family::Attention) {
        return [0.0; 3];
    }
    let tiles = shape.tiles(rows, columns);
    let waves = tiles / units;
    let tail = (waves.ceil() / waves).ln();
    let waste = (tiles * rows * columns / (shape.batch * shape.m * shape.n)).ln();
    [waves.ln(), tail, waste]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_aligned_to_the_power_of_two_in_it() {
        assert_eq!([1.0, 2.0, 12.0, 64.0, 1024.0, 0.0, 7.0].map(alignment), [0, 1, 2, 6, 7, 0, 0]);
    }
}
