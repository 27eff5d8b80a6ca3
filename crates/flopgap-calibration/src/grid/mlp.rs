//! Whole networks of fully connected layers.

use flopgap_flops::Activation;
use flopgap_graph::op::Gemm;
use flopgap_graph::{Epilogue, MlpSpec, Op, Step};

use super::random::Random;
use super::samples::samples;

/// Inputs of the networks on the grid.
const GRID_INPUTS: [u64; 5] = [256, 512, 1024, 2048, 4096];
/// Their hidden layers: width and number.
const GRID_HIDDEN: [(u64, usize); 4] = [(128, 1), (512, 2), (1024, 3), (2048, 4)];
/// Their outputs.
const GRID_OUTPUTS: [u64; 4] = [10, 64, 128, 256];
/// Their batches.
const GRID_BATCHES: [u64; 6] = [1, 4, 16, 32, 64, 128];

/// Networks of all combinations: 480, or as many as there are for other batches.
pub(super) fn on_grid(batches: &[u64]) -> Vec<MlpSpec> {
    let batches = if batches.is_empty() { &GRID_BATCHES } else { batches };
    let mut all = Vec::new();
    for input in GRID_INPUTS {
        for (width, layers) in GRID_HIDDEN {
            for output in GRID_OUTPUTS {
                for &batch in batches {
                    let hidden = vec![width; layers];
                    all.push(MlpSpec { input, hidden, output, batch, activation: Activation::Relu });
                }
            }
        }
    }
    all
}

/// One layer of the networks on the grid.
pub(super) fn grid_layer(random: &mut Random, batches: &[u64]) -> Step {
    let m = random.pick(if batches.is_empty() { &GRID_BATCHES } else { batches });
    let (width, layers) = random.pick(&GRID_HIDDEN);
    let (n, k, activation) = match random.below(3) {
        0 => (width, random.pick(&GRID_INPUTS), Activation::Relu),
        1 if layers > 1 => (width, width, Activation::Relu),
        _ => (random.pick(&GRID_OUTPUTS), width, Activation::Identity),
    };
    let epilogue = Epilogue { bias: true, residual: false, activation };
    Step { op: Op::Gemm(Gemm { batch: 1, m, n, k }), epilogue }
}

/// A network between and beyond the points of the grid.
pub(super) fn off_grid(random: &mut Random, batches: &[u64]) -> MlpSpec {
    let batch = samples(random, batches, 10);
    let layers = random.weighted(&[(20, 1), (25, 2), (25, 3), (15, 4), (10, 6), (5, 10)]);
    let narrow = random.between(4, 12);
    let hidden = widths(random, layers, narrow, narrow + 1);
    let input = size(random, 4, 13);
    let output = size(random, 1, 10);
    let activation =
        random.weighted(&[(90, Activation::Relu), (5, Activation::Gelu), (5, Activation::GeluTanh)]);
    MlpSpec { input, hidden, output, batch, activation }
}

/// A network whose parameters take about so many bytes: `2^octave` to `2^(octave + 1)` numbers of 4
/// bytes, roughly. The caller keeps those whose working set fits.
pub(super) fn of_bytes(random: &mut Random, octave: u64, batches: &[u64]) -> MlpSpec {
    let layers = random.between(1, 4);
    // `layers + 1` matrices with the width squared each.
    let numbers = octave.saturating_sub(2 + u64::from((layers + 1).ilog2()));
    let middle = (numbers / 2).max(1);
    let hidden = widths(random, layers, middle, middle + 1);
    let input = size(random, middle.saturating_sub(1).max(1), middle + 2);
    let output = size(random, 1, middle.max(2));
    let batch = if batches.is_empty() { random.power(0, 6) } else { random.pick(batches) };
    MlpSpec { input, hidden, output, batch, activation: Activation::Relu }
}

/// Widths from `2^low` to below `2^high`: two times out of three all the same.
fn widths(random: &mut Random, layers: u64, low: u64, high: u64) -> Vec<u64> {
    let same = size(random, low, high);
    let alike = random.percent(66);
    (0..layers).map(|_| if alike { same } else { size(random, low, high) }).collect()
}

/// A width: a power of two, a multiple of 8, or rarely another.
fn size(random: &mut Random, low: u64, high: u64) -> u64 {
    match random.below(20) {
        0..9 => random.power(low, high),
        9..19 => random.octave(low, high).next_multiple_of(8),
        _ => random.octave(low, high),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_grid_has_480_networks() {
        let all = on_grid(&[]);
        assert_eq!(all.len(), 480);
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), 480);
        assert!(all.iter().any(|mlp| mlp.hidden == [2048; 4] && mlp.input == 4096 && mlp.batch == 128));
        assert_eq!(on_grid(&[5]).len(), 80);
    }

    #[test]
    fn layers_are_those_of_the_networks_on_the_grid() {
        let mut random = Random::new(3, "layers");
        let mut layers = HashSet::new();
        for mlp in on_grid(&[]) {
            let widths: Vec<u64> =
                [mlp.input].into_iter().chain(mlp.hidden.iter().copied()).chain([mlp.output]).collect();
            layers.extend(widths.windows(2).map(|pair| (mlp.batch, pair[1], pair[0])));
        }
        for _ in 0..500 {
            let Op::Gemm(gemm) = grid_layer(&mut random, &[]).op else { panic!() };
            assert!(layers.contains(&(gemm.m, gemm.n, gemm.k)), "{gemm:?}");
        }
    }
}
