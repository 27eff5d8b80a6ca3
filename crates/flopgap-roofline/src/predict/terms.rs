//! The terms of a step's time, in nanoseconds at the machine's ceilings.

use flopgap_graph::Mode;

use super::cores;
use super::machine::Machine;
use super::point::Point;
use super::shape::Family;

/// Tiles of a result that kernels choose among.
pub(super) const TILES: [(f64, f64); 9] = [
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
pub(super) const MODES: usize = 3;
/// Terms of every step.
pub(super) const TERMS: usize = 10 + 2 * TILES.len() + 8;
/// Place of the prediction by constants among the terms.
pub(super) const BASE: usize = 9;
/// Terms more of a step whose kernel is known.
pub(super) const KERNEL_TERMS: usize = 13;

/// The terms of a step: launches by mode; arithmetic and bytes at the ceilings; whole waves of
/// tiles, which a kernel computes even where the result does not fill them (Williams et al. 2009
/// for the roofline; NVIDIA's "Matrix Multiplication Background" for tile and wave quantization);
/// the parts of Winograd's convolution.
pub(super) fn terms(machine: &Machine, point: &Point<'_>) -> Vec<f64> {
    let Point { shape, roof, precision, .. } = point;
    let mut terms = vec![0.0; TERMS];
    let launch = match point.mode {
        Mode::Call => 0,
        Mode::Stream => 1,
        Mode::Graph => 2,
    };
    terms[launch] = 1.0;
    terms[3] = roof.compute;
    terms[4] = roof.memory;
    terms[5] = roof.nanoseconds();
    let element = precision.element().bytes() as f64;
    let a_byte = if roof.bytes > 0.0 { roof.memory / roof.bytes } else { 0.0 };
    terms[6] = (shape.inputs - shape.unread) * element * a_byte;
    terms[7] = shape.weights * element * a_byte;
    terms[8] = shape.outputs * element * a_byte;
    terms[BASE] = point.base;
    if !matches!(shape.family, Family::Gemm | Family::Conv | Family::Attention) {
        return terms;
    }
    let a_flop = machine.units / machine.peak(*precision);
    let tiles = if point.mode == Mode::Call { cores::TILES } else { TILES };
    for (place, (rows, columns)) in tiles.into_iter().enumerate() {
        let tiles = shape.batch * (shape.m / rows).ceil() * (shape.n / columns).ceil();
        let waves = (tiles / machine.units).ceil();
        terms[10 + 2 * place] = waves * rows * columns * shape.k * 2.0 * a_flop;
        terms[11 + 2 * place] = waves * rows * columns * element * a_byte * machine.units;
    }
    if shape.winograd {
        let (channels, after) = (shape.k / 9.0, 10 + 2 * TILES.len());
        for (place, (output, transformed)) in [(2.0, 16.0), (4.0, 36.0)].into_iter().enumerate() {
            let tiles = shape.images * shape.sides.iter().map(|side| (side / output).ceil()).product::<f64>();
            let blocks = (tiles / 128.0).ceil() * (shape.n / 128.0).ceil() * transformed * shape.batch;
            let waves = (blocks / machine.units).ceil();
            let at = after + 4 * place;
            terms[at] = waves * 128.0 * 128.0 * channels * 2.0 * a_flop;
            terms[at + 1] = tiles * transformed * channels * shape.batch * element * a_byte;
            terms[at + 2] = tiles * transformed * shape.n * shape.batch * element * a_byte;
            terms[at + 3] = shape.n * channels * shape.batch * transformed * element * a_byte;
        }
    }
    terms
}

/// Terms of a step whose kernel is known: whole waves of its own tiles and of the library's count.
pub(super) fn kernel_terms(machine: &Machine, point: &Point<'_>) -> [f64; KERNEL_TERMS] {
    let mut terms = [0.0; KERNEL_TERMS];
    let Some(algorithm) = point.algorithm else { return terms };
    let shape = &point.shape;
    let parts = algorithm.split_k.map_or(1.0, |parts| f64::from(parts.max(1)));
    let depth = shape.k / parts;
    let a_flop = machine.units / machine.peak(point.precision);
    if let Some([rows, columns]) = algorithm.tile {
        let (rows, columns) = (f64::from(rows.max(1)), f64::from(columns.max(1)));
        let tiles = shape.batch * (shape.m / rows).ceil() * (shape.n / columns).ceil() * parts;
        let waves = tiles / machine.units;
        terms[0] = waves.ceil() * rows * columns * depth * 2.0 * a_flop;
        terms[1] = waves * rows * columns * depth * 2.0 * a_flop;
        terms[2] = waves.ceil();
    }
    if let Some(thousandths) = algorithm.waves_thousandths {
        let waves = thousandths as f64 / 1000.0;
        terms[3] = waves.ceil() * depth;
        terms[4] = (waves / 2.0).ceil() * depth;
        terms[5] = waves * depth;
        terms[6] = waves.ceil();
    }
    // Each kernel is launched, and reads what the one before it wrote.
    terms[7] = algorithm.kernels.len() as f64;
    terms[8] = algorithm.workspace.unwrap_or(0) as f64;
    if let Some(work) = &point.work {
        terms[7] = work.named.launches;
        terms[9] = work.latency;
        terms[10] = work.loaded;
        terms[11] = work.reduced + work.transformed;
        terms[12] = work.waves;
    }
    terms
}
