//! Products of matrices: fully connected layers, and products of activations.

use flopgap_flops::{Activation, Precision};
use flopgap_graph::op::Gemm;
use flopgap_graph::{Epilogue, Op, Step};

use super::mlp;
use super::random::Random;
use super::samples::samples;

/// Widths that layers of published networks have.
const WIDTHS: [u64; 22] = [
    64, 128, 192, 256, 320, 384, 512, 640, 768, 1000, 1024, 1280, 1536, 2048, 2304, 3072, 4096, 5120, 8192,
    11008, 14336, 16384,
];

/// Products whose sizes are 8-bit on tensor cores need rows of whole 16-byte vectors.
const INT8_VECTOR: u64 = 16;

/// A fully connected layer: samples from 1 to 16,384, inputs and outputs from 16 to 16,384, each in
/// every octave; powers of two, widths that are common, multiples of 64 and 8, and a few others.
pub(super) fn layer(random: &mut Random, batches: &[u64]) -> Step {
    if random.percent(15) {
        return mlp::grid_layer(random, batches);
    }
    let m = samples(random, batches, 14);
    let (n, k) = (width(random), width(random));
    Step { op: Op::Gemm(Gemm { batch: 1, m, n, k }), epilogue: epilogue(random) }
}

/// A product too small to fill the device.
pub(super) fn tiny(random: &mut Random, batches: &[u64]) -> Step {
    let m = samples(random, batches, 5);
    let mut small = || if random.percent(50) { random.power(3, 7) } else { random.octave(3, 7) };
    let (n, k) = (small(), small());
    Step { op: Op::Gemm(Gemm { batch: 1, m, n, k }), epilogue: epilogue(random) }
}

/// A batch of products, as in attention: one for each head.
pub(super) fn batched(random: &mut Random) -> Step {
    let batch = if random.percent(50) { random.power(1, 9) } else { random.between(2, 512) };
    let length = if random.percent(60) { random.power(4, 11) } else { random.octave(4, 11) };
    let queries = if random.percent(70) { length } else { random.power(0, 6) };
    let head = random.pick(&[32, 64, 64, 80, 96, 128]);
    // Scores have the length for columns, results the width of a head.
    let (n, k) = if random.percent(50) { (length, head) } else { (head, length) };
    Step { op: Op::Gemm(Gemm { batch, m: queries, n, k }), epilogue: Epilogue::default() }
}

/// The same step with sizes that this precision supports.
pub(super) fn aligned(step: Step, precision: Precision) -> Step {
    match step.op {
        Op::Gemm(gemm) if precision == Precision::Int8 => {
            let up = |size: u64| size.next_multiple_of(INT8_VECTOR);
            Step { op: Op::Gemm(Gemm { n: up(gemm.n), k: up(gemm.k), ..gemm }), ..step }
        }
        _ => step,
    }
}

/// A width as layers have them: nearly always a multiple of 8, mostly of 64. Others take kernels of
/// their own, which are slow: a few, so that a predictor knows them.
fn width(random: &mut Random) -> u64 {
    match random.below(100) {
        0..25 => random.power(4, 14),
        25..60 => random.pick(&WIDTHS),
        60..80 => random.octave(6, 14).next_multiple_of(64),
        80..96 => random.octave(4, 14).next_multiple_of(8),
        _ => random.octave(4, 14),
    }
}

fn epilogue(random: &mut Random) -> Epilogue {
    let (bias, activation) = random.weighted(&[
        (45, (false, Activation::Identity)),
        (22, (true, Activation::Identity)),
        (27, (true, Activation::Relu)),
        (3, (true, Activation::Gelu)),
        (3, (true, Activation::GeluTanh)),
    ]);
    Epilogue { bias, residual: false, activation }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn gemm(step: &Step) -> Gemm {
        let Op::Gemm(gemm) = step.op else { panic!("{step:?}") };
        gemm
    }

    #[test]
    fn layers_fill_every_octave_with_round_and_other_sizes() {
        let mut random = Random::new(1, "layers");
        let all: Vec<Gemm> = (0..2000).map(|_| gemm(&layer(&mut random, &[]))).collect();
        let octaves =
            |size: fn(&Gemm) -> u64| all.iter().map(|gemm| size(gemm).ilog2()).collect::<BTreeSet<_>>();
        assert_eq!(octaves(|gemm| gemm.m), (0..=14).collect());
        assert_eq!(octaves(|gemm| gemm.n), (3..=14).collect()); // 8: the grid's outputs of 10
        assert_eq!(octaves(|gemm| gemm.k), (4..=14).collect());
        let share = |what: fn(&Gemm) -> bool| all.iter().filter(|gemm| what(gemm)).count() * 100 / all.len();
        assert!((40..65).contains(&share(|gemm| gemm.n.is_power_of_two())));
        assert!((2..9).contains(&share(|gemm| gemm.n % 8 != 0)), "the grid's outputs of 10, too");
        assert!((55..85).contains(&share(|gemm| gemm.n % 64 == 0)));
    }

    #[test]
    fn samples_are_those_that_are_asked_for() {
        let mut random = Random::new(1, "batches");
        for _ in 0..100 {
            assert!([3, 7].contains(&gemm(&layer(&mut random, &[3, 7])).m));
            assert!([3, 7].contains(&gemm(&tiny(&mut random, &[3, 7])).m));
        }
    }

    #[test]
    fn int8_has_whole_vectors() {
        let odd = Step { op: Op::Gemm(Gemm { batch: 1, m: 3, n: 17, k: 33 }), epilogue: Epilogue::default() };
        assert_eq!(gemm(&aligned(odd.clone(), Precision::Int8)), Gemm { batch: 1, m: 3, n: 32, k: 48 });
        assert_eq!(aligned(odd.clone(), Precision::Fp16), odd);
    }
}
