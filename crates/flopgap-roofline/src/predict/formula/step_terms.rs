//! The terms of a step's time, in nanoseconds at the machine's ceilings.

use flopgap_graph::Mode;

use crate::predict::inputs::cores;
use crate::predict::inputs::kernel::parts_of;
use crate::predict::inputs::machine::{Machine, place_of};
use crate::predict::inputs::point::Point;
use crate::predict::inputs::shape::Family;

/// Tiles of a result that kernels choose among.
pub(crate) const TILES: [(f64, f64); 9] = [
    (128.0, 128.0),
    (128.0, 256.0),
    (256.0, 128.0),
    (64.0, 128.0),
    (64.0, 64.0),
    (128.0, 64.0),
    (256.0, 64.0),
    (32.0, 128.0),
    (128.0, 32.0),
];

/// The first terms: launches, by mode.
pub(crate) const MODES: usize = 3;
/// Places of the terms that follow: arithmetic, bytes, the larger of both; bytes of inputs, weights
/// and outputs; the prediction by constants.
const COMPUTE: usize = MODES;
const MEMORY: usize = 4;
const ROOF: usize = 5;
const INPUTS: usize = 6;
const WEIGHTS: usize = 7;
const OUTPUTS: usize = 8;
pub(crate) const BASE: usize = 9;
/// Arithmetic and bytes of each of the [`TILES`].
const OF_TILES: usize = 10;
/// Four terms for each of the two sizes of Winograd's algorithm.
const WINOGRAD: usize = OF_TILES + 2 * TILES.len();
/// Terms of every step.
pub(crate) const TERMS: usize = WINOGRAD + 8;
/// Terms more of a step whose kernel is known.
pub(crate) const KERNEL_TERMS: usize = 13;

/// The terms of a step: launches by mode; arithmetic and bytes at the ceilings; whole waves of
/// tiles, which a kernel computes even where the result does not fill them (Williams et al. 2009
/// for the roofline; NVIDIA's "Matrix Multiplication Background" for tile and wave quantization);
/// the parts of Winograd's convolution.
pub(crate) fn terms(machine: &Machine, point: &Point<'_>) -> Vec<f64> {
    let Point { shape, roof, precision, .. } = point;
    let mut terms = vec![0.0; TERMS];
    terms[place_of(point.mode)] = 1.0;
    terms[COMPUTE] = roof.compute;
    terms[MEMORY] = roof.memory;
    terms[ROOF] = roof.nanoseconds();
    let element = precision.element().bytes() as f64;
    let a_byte = if roof.bytes > 0.0 { roof.memory / roof.bytes } else { 0.0 };
    terms[INPUTS] = (shape.inputs - shape.unread) * element * a_byte;
    terms[WEIGHTS] = shape.weights * element * a_byte;
    terms[OUTPUTS] = shape.outputs * element * a_byte;
    terms[BASE] = point.base;
    if !matches!(shape.family, Family::Gemm | Family::Conv | Family::Attention) {
        return terms;
    }
    let a_flop = machine.units / machine.peak(*precision);
    let tiles = if point.mode == Mode::Call { cores::TILES } else { TILES };
    for (place, (rows, columns)) in tiles.into_iter().enumerate() {
        let tiles = shape.tiles(rows, columns);
        let waves = (tiles / machine.units).ceil();
        terms[OF_TILES + 2 * place] = waves * rows * columns * shape.k * 2.0 * a_flop;
        terms[OF_TILES + 2 * place + 1] = waves * rows * columns * element * a_byte * machine.units;
    }
    if shape.winograd {
        let channels = shape.k / 9.0;
        for (place, (output, transformed)) in [(2.0, 16.0), (4.0, 36.0)].into_iter().enumerate() {
            let tiles = shape.images * shape.sides.iter().map(|side| (side / output).ceil()).product::<f64>();
            let blocks = (tiles / 128.0).ceil() * (shape.n / 128.0).ceil() * transformed * shape.batch;
            let waves = (blocks / machine.units).ceil();
            let at = WINOGRAD + 4 * place;
            terms[at] = waves * 128.0 * 128.0 * channels * 2.0 * a_flop;
            terms[at + 1] = tiles * transformed * channels * shape.batch * element * a_byte;
            terms[at + 2] = tiles * transformed * shape.n * shape.batch * element * a_byte;
            terms[at + 3] = shape.n * channels * shape.batch * transformed * element * a_byte;
        }
    }
    terms
}

/// Terms of a step whose kernel is known: whole waves of its own tiles and of the library's count.
pub(crate) fn kernel_terms(machine: &Machine, point: &Point<'_>) -> [f64; KERNEL_TERMS] {
    let Some(algorithm) = point.algorithm else { return [0.0; KERNEL_TERMS] };
    let shape = &point.shape;
    let parts = parts_of(algorithm);
    let depth = shape.k / parts;
    let a_flop = machine.units / machine.peak(point.precision);
    let of_tile = algorithm.tile.map_or([0.0; 3], |[rows, columns]| {
        let (rows, columns) = (f64::from(rows.max(1)), f64::from(columns.max(1)));
        let waves = shape.tiles(rows, columns) * parts / machine.units;
        [
            waves.ceil() * rows * columns * depth * 2.0 * a_flop,
            waves * rows * columns * depth * 2.0 * a_flop,
            waves.ceil(),
        ]
    });
    let of_count = algorithm.waves_thousandths.map_or([0.0; 4], |thousandths| {
        let waves = thousandths as f64 / 1000.0;
        [waves.ceil() * depth, (waves / 2.0).ceil() * depth, waves * depth, waves.ceil()]
    });
    let of_work = point
        .work
        .as_ref()
        .map_or([0.0; 4], |work| [work.latency, work.loaded, work.reduced + work.transformed, work.waves]);
    // Each kernel is launched, and reads what the one before it wrote.
    let launches = point.work.as_ref().map_or(algorithm.kernels.len() as f64, |work| work.named.launches);
    let workspace = algorithm.workspace.unwrap_or(0) as f64;
    let mut terms = [0.0; KERNEL_TERMS];
    let all = of_tile.into_iter().chain(of_count).chain([launches, workspace]).chain(of_work);
    terms.iter_mut().zip(all).for_each(|(term, value)| *term = value);
    terms
}
