//! The work of a library's kernel, from its tile and the information in its name.

use flopgap_flops::Precision;
use flopgap_graph::Algorithm;

use crate::predict::formula::convolution::{ConvolutionWork, at};
use crate::predict::inputs::kernel_names::Named;
use crate::predict::inputs::machine::{Machine, Roof};
use crate::predict::inputs::shape::{Family, Shape};

/// Waves of tiles take this much longer than at the peak, before anything is fitted.
const EFFICIENCY: f64 = 1.3;
/// Nanoseconds between kernels of one step, before anything is fitted.
const BETWEEN: f64 = 1000.0;
/// Inner steps of tensor cores are at least this long.
const SHORTEST: f64 = 16.0;

/// Parts that sums are split into.
pub(crate) fn parts_of(algorithm: &Algorithm) -> f64 {
    algorithm.split_k.map_or(1.0, |parts| f64::from(parts.max(1)))
}

/// The work of a step's kernels, in nanoseconds at the machine's ceilings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kernel {
    pub(crate) named: Named,
    /// Tiles over multiprocessors, split sums counted.
    pub(crate) tiles: f64,
    /// Arithmetic of whole waves of tiles.
    pub(crate) waves: f64,
    /// The same where waves need not be whole.
    pub(crate) spread: f64,
    /// Inner steps of a tile.
    pub(crate) steps: f64,
    /// Inner steps one after the other in all waves.
    pub(crate) latency: f64,
    /// What all tiles load.
    pub(crate) loaded: f64,
    /// What is written and read again of split sums.
    pub(crate) reduced: f64,
    /// What Fourier transforms write and read.
    pub(crate) transformed: f64,
    /// The sum of these before anything is fitted; trees tell what it lacks.
    pub(crate) time: f64,
}

impl Kernel {
    pub(crate) fn new(
        machine: &Machine,
        (shape, roof): (&Shape, &Roof),
        (precision, launch): (Precision, f64),
        algorithm: &Algorithm,
    ) -> Self {
        if shape.family == Family::Conv
            && let Some(work) = ConvolutionWork::of(machine, (shape, roof), (precision, true), algorithm)
        {
            return Self::of_convolution(&work, roof, launch, algorithm);
        }
        let named = Named::of(&algorithm.kernels);
        let a_flop = 1.0 / machine.peak(precision);
        let a_byte = if roof.bytes > 0.0 { roof.memory / roof.bytes } else { 0.0 };
        let element = precision.element().bytes() as f64;
        let parts = parts_of(algorithm);
        let depth = named.depth.unwrap_or(0.0).max(SHORTEST);
        let steps = (shape.k / parts / depth).ceil().max(1.0);
        let own = shape.flops * a_flop;
        let mut kernel = Self {
            named,
            tiles: 0.0,
            waves: own,
            spread: own,
            steps,
            latency: steps,
            loaded: 0.0,
            reduced: 0.0,
            transformed: 0.0,
            time: 0.0,
        };
        let product = matches!(shape.family, Family::Gemm | Family::Conv);
        if let (Some([rows, columns]), true) = (algorithm.tile, product) {
            let (rows, columns) = (f64::from(rows.max(1)), f64::from(columns.max(1)));
            let tiles = shape.tiles(rows, columns) * parts;
            let of_tile = rows * columns * steps * depth * 2.0 * a_flop;
            kernel.tiles = tiles / machine.units;
            kernel.waves = kernel.tiles.ceil() * machine.units * of_tile;
            kernel.spread = tiles * of_tile;
            kernel.latency = kernel.tiles.ceil() * steps;
            kernel.loaded = tiles * (rows + columns) * steps * depth * element * a_byte;
        }
        if parts > 1.0 {
            kernel.reduced = 4.0 * shape.outputs * parts * a_byte;
        }
        kernel.time = launch
            + EFFICIENCY * kernel.waves
            + roof.memory
            + kernel.reduced
            + kernel.transformed
            + BETWEEN * (named.launches - 1.0).max(0.0);
        kernel
    }

    /// A convolution in the terms of its own.
    fn of_convolution(work: &ConvolutionWork, roof: &Roof, launch: f64, algorithm: &Algorithm) -> Self {
        let named = Named::of(&algorithm.kernels);
        let sum = |from: usize, count: usize| work.terms[from..from + count].iter().sum::<f64>();
        let waves = work.terms[at::BUSIEST + 1] + sum(at::FOURIER + 3, 1) + work.terms[at::ARITHMETIC];
        let transformed = sum(at::CONVERTED, 3) + sum(at::FOURIER, 3);
        let (unaligned, reduced) = (sum(at::UNALIGNED, 2), work.terms[at::REDUCED]);
        let between = BETWEEN * (named.launches - 1.0).max(0.0);
        Self {
            named: Named { alignment: Some(work.alignment), ..named },
            tiles: work.tiles,
            waves,
            spread: work.terms[at::SPREAD],
            steps: work.steps,
            latency: work.steps * work.rounds,
            loaded: work.terms[at::LOADS].max(work.terms[at::TAPS]),
            reduced: reduced + unaligned,
            transformed,
            time: launch
                + EFFICIENCY * waves
                + work.terms[at::LATENCY + 1]
                + roof.memory
                + unaligned
                + reduced
                + transformed
                + between,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &[&str]) -> Named {
        Named::of(&names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn names_tell_depth_stages_and_more() {
        let nvjet = named(&["nvjet_sm90_hsh_64x16_64x12_4x1_v_bz_splitK_TNT", "splitKreduce_kernel"]);
        assert_eq!((nvjet.depth, nvjet.stages), (Some(64.0), Some(12.0)));
        assert_eq!((nvjet.architecture, nvjet.launches), (Some(90.0), 2.0));
        let cutlass = named(&["cutlass_80_simt_sgemm_32x128_8x5_tn_align1"]);
        assert_eq!((cutlass.depth, cutlass.stages), (Some(8.0), Some(5.0)));
        assert_eq!((cutlass.architecture, cutlass.alignment), (Some(80.0), Some(1.0)));
        let xmma = named(&["init_device_workspace_kernel", "sm80_xmma_fprop_implicit_gemm fp16 128x32x64"]);
        assert_eq!((xmma.depth, xmma.stages, xmma.launches), (Some(64.0), None, 2.0));
        let fft = named(&["flip_filter", "fft2d_r2c_16x16 x2", "gemvx::kernel", "fft2d_c2r_16x16"]);
        assert_eq!((fft.transform, fft.depth, fft.launches), (Some(16.0), None, 5.0));
        assert_eq!(named(&["unary"]), Named { launches: 1.0, ..Named::default() });
    }
}
