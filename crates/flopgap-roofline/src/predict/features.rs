//! What the trees see of a step.

use flopgap_flops::{Activation, Precision};
use flopgap_graph::{Algorithm, Mode, Step};

use super::machine::{Machine, Roof, place, place_of};
use super::shape::{Family, Shape};

/// Tiles of a result that libraries for GPUs choose among.
const TILES: [(f64, f64); 5] = [(128.0, 128.0), (128.0, 256.0), (64.0, 128.0), (64.0, 64.0), (256.0, 128.0)];

/// Features of a step. All steps have equally many.
pub(super) fn features(
    machine: &Machine,
    step: &Step,
    shape: &Shape,
    roof: &Roof,
    base: f64,
    (precision, mode): (Precision, Mode),
    algorithm: Option<&Algorithm>,
) -> Vec<f64> {
    let ln = |value: f64| value.max(1e-3).ln();
    let mut row = vec![
        f64::from(shape.family as u8),
        place(precision) as f64,
        place_of(mode) as f64,
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
        ln(base),
        shape.window,
        shape.stride,
        shape.variant,
        f64::from(alignment(shape.m)),
        f64::from(alignment(shape.n)),
        f64::from(alignment(shape.k)),
        f64::from(u8::from(step.epilogue.bias)),
        f64::from(u8::from(step.epilogue.residual)),
        f64::from(u8::from(step.epilogue.activation != Activation::Identity)),
    ];
    for tile in TILES {
        row.extend(waves(shape, tile, machine.units));
    }
    row.extend(chosen(shape, machine.units, algorithm));
    row
}

/// How many times a size divides by two, at most 7 times.
fn alignment(size: f64) -> u8 {
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
    let tiles = shape.batch * (shape.m / rows).ceil() * (shape.n / columns).ceil();
    let waves = tiles / units;
    let tail = (waves.ceil() / waves).ln();
    let waste = (tiles * rows * columns / (shape.batch * shape.m * shape.n)).ln();
    [waves.ln(), tail, waste]
}

/// What the library says of the kernel that it chose; -1 where it does not tell.
fn chosen(shape: &Shape, units: f64, algorithm: Option<&Algorithm>) -> [f64; 9] {
    let Some(algorithm) = algorithm else { return [-1.0; 9] };
    let number = |value: Option<u32>| value.map_or(-1.0, f64::from);
    let tile = algorithm.tile.map(|[rows, columns]| (f64::from(rows).max(1.0), f64::from(columns).max(1.0)));
    let [own, tail, waste] = tile.map_or([-1.0; 3], |tile| waves(shape, tile, units));
    [
        // Which algorithm it is: a hash spreads the names, and trees cut the numbers.
        (hash(&algorithm.id) % 1024) as f64,
        tile.map_or(-1.0, |(rows, _)| rows),
        tile.map_or(-1.0, |(_, columns)| columns),
        number(algorithm.stages),
        number(algorithm.split_k),
        own,
        tail,
        waste,
        algorithm.waves_thousandths.map_or(-1.0, |waves| waves as f64 / 1000.0),
    ]
}

/// FNV-1a over the bytes of a name.
fn hash(name: &str) -> u64 {
    name.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
