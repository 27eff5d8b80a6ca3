//! Steps bound by memory: element-wise functions, softmax, norms, copies.

use flopgap_flops::{Activation, Attention, AttentionMask};
use flopgap_graph::op::{Elementwise, ElementwiseFunction, Norm, NormFunction};
use flopgap_graph::{Epilogue, Op, Step};

use super::random::Random;

/// One of them, over 64 to 2^27 elements.
pub(super) fn step(random: &mut Random) -> Step {
    let op = match random.below(40) {
        0..12 => elementwise(random),
        12..17 => {
            let (rows, columns) = rows(random, 4, 16);
            Op::Softmax { rows, columns }
        }
        17..25 => norm(random),
        25..30 => Op::Copy { elements: elements(random) },
        30..34 => {
            let outputs = random.octave(0, 16);
            let most = (27 - u64::from(outputs.ilog2())).min(20);
            Op::Reduce { inputs: outputs * random.octave(2, most), outputs }
        }
        _ => gather(random),
    };
    Step { op, epilogue: Epilogue::default() }
}

/// A function of one number or of two. The second operand is as large as the first, a row with a
/// number for each channel, or one number: sums, biases, and scales.
fn elementwise(random: &mut Random) -> Op {
    use ElementwiseFunction::{Activation as Apply, Add, Compare, Mul, Several, Simple};
    let function = random.weighted(&[
        (3, Apply(Activation::Relu)),
        (2, Apply(Activation::Gelu)),
        (2, Apply(Activation::Sigmoid)),
        (2, Apply(Activation::Silu)),
        (1, Simple),
        (1, Several(5)),
        (1, Compare),
        (5, Add),
        (5, Mul),
    ]);
    let elements = elements(random);
    if !matches!(function, Add | Mul | Compare) {
        return Op::Elementwise(Elementwise { function, elements, read: elements });
    }
    let (elements, second) = match random.below(10) {
        0..5 => (elements, elements),
        5..8 => {
            let channels = random.octave(4, 13).next_multiple_of(8);
            ((elements / channels).max(1) * channels, channels)
        }
        _ => (elements, 1),
    };
    Op::Elementwise(Elementwise { function, elements, read: elements + second })
}

/// A norm: of each token, of groups of an image's channels, or by the statistics that training
/// left.
fn norm(random: &mut Random) -> Op {
    let function = random.weighted(&[
        (4, NormFunction::Layer),
        (2, NormFunction::Rms),
        (3, NormFunction::BatchInference),
        (2, NormFunction::Group),
    ]);
    let (rows, columns) = match function {
        // Channels, each of as many pixels as all images have.
        NormFunction::BatchInference => {
            let channels = random.octave(4, 12).next_multiple_of(8);
            let most = 27 - u64::from(channels.ilog2());
            (channels, random.octave(4, most.min(18)))
        }
        // Groups of all samples: few, and as wide as an image.
        NormFunction::Group => {
            let columns = elements_of(random, 8, 20);
            let most = 27 - u64::from(columns.ilog2());
            (random.octave(0, most.min(11)), columns)
        }
        _ => rows(random, 6, 14),
    };
    let parameters = match function {
        // Mean, variance, gain and shift of each channel.
        NormFunction::BatchInference => 4 * rows,
        NormFunction::Rms => columns,
        _ => 2 * columns,
    };
    Op::Norm(Norm { function, rows, columns, parameters })
}

/// Rows of a table: of embeddings; one as wide as a tensor, which selects a part of it; or so
/// narrow that numbers are picked one by one.
fn gather(random: &mut Random) -> Op {
    match random.below(8) {
        0..3 => Op::Gather { rows: random.octave(0, 15), width: random.octave(5, 13).next_multiple_of(8) },
        3..6 => {
            let width = elements_of(random, 8, 26);
            let most = 27 - u64::from(width.ilog2());
            Op::Gather {
                rows: if random.percent(70) { 1 } else { random.octave(1, most.clamp(2, 6)) },
                width,
            }
        }
        _ => {
            let width = if random.percent(50) { 1 } else { random.power(1, 4) };
            Op::Gather { rows: elements_of(random, 6, 22), width }
        }
    }
}

/// Attention over whole sequences, and of one token over those before it; some heads share their
/// keys.
pub(super) fn attention(random: &mut Random) -> Step {
    let head_width = random.weighted(&[(2, 32), (6, 64), (1, 80), (1, 96), (4, 128)]);
    let heads: u64 = random.pick(&[1, 2, 3, 4, 6, 8, 12, 16, 24, 32]);
    let shared = if random.percent(20) { random.pick(&[2, 4, 8]) } else { 1 };
    let kv_heads = if heads.is_multiple_of(shared) { heads / shared } else { heads };
    let keys = if random.percent(50) { random.power(4, 11) } else { random.octave(4, 12) };
    let decodes = random.percent(15);
    let queries = if decodes { 1 } else { keys };
    let mask = if !decodes && random.percent(40) { AttentionMask::Causal } else { AttentionMask::Full };
    // Scores are written in between: 2^27 of them at most.
    let scores = heads * queries * keys;
    let most = 27_u64.saturating_sub(u64::from(scores.ilog2()) + 1);
    let batch = random.octave(0, most.clamp(1, 9));
    let value_width = None;
    let op =
        Op::Attention(Attention { batch, heads, kv_heads, queries, keys, head_width, value_width, mask });
    Step { op, epilogue: Epilogue::default() }
}

fn elements(random: &mut Random) -> u64 {
    elements_of(random, 6, 27)
}

/// From `2^low` to `2^high`; now and then a number that is no multiple of 8.
fn elements_of(random: &mut Random, low: u64, high: u64) -> u64 {
    match random.below(20) {
        0..7 => random.power(low, high),
        7..18 => random.octave(low, high).next_multiple_of(8),
        _ => random.octave(low, high),
    }
}

/// Rows of `2^low` to below `2^high` elements, 2^27 elements in all at most.
fn rows(random: &mut Random, low: u64, high: u64) -> (u64, u64) {
    let columns = if random.percent(50) { random.power(low, high - 1) } else { random.octave(low, high) };
    let most = 27 - u64::from(columns.ilog2());
    (random.octave(0, most.min(16)), columns)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_kind_comes_up_within_bounds() {
        let mut random = Random::new(9, "memory");
        let mut kinds = BTreeSet::new();
        for _ in 0..1000 {
            let (kind, elements) = match step(&mut random).op {
                Op::Elementwise(op) => {
                    let second = op.read - op.elements;
                    assert!(second == 0 || op.elements.is_multiple_of(second), "{op:?}");
                    ("elementwise", op.elements)
                }
                Op::Softmax { rows, columns } => ("softmax", rows * columns),
                Op::Norm(norm) => ("norm", norm.rows * norm.columns),
                Op::Copy { elements } => ("copy", elements),
                Op::Reduce { inputs, outputs } => {
                    assert!(inputs > outputs);
                    ("reduce", inputs)
                }
                Op::Gather { rows, width } => ("gather", rows * width),
                other => panic!("{other:?}"),
            };
            kinds.insert(kind);
            assert!((1..=1 << 28).contains(&elements), "{kind} {elements}");
        }
        assert_eq!(kinds.len(), 6);
    }
    #[test]
    fn what_exported_networks_have_comes_up() {
        let mut random = Random::new(9, "memory");
        let all: Vec<Op> = (0..1000).map(|_| step(&mut random).op).collect();
        let some = |what: fn(&Op) -> bool| all.iter().filter(|op| what(op)).count() > 10;
        // One row as wide as a tensor, and numbers one by one.
        assert!(some(|op| matches!(op, Op::Gather { rows: 1, width } if *width > 1 << 14)));
        assert!(some(|op| matches!(op, Op::Gather { rows, width: 1 } if *rows > 256)));
        // A second operand of one number, and of a row.
        let second = |op: &Op| match op {
            Op::Elementwise(op) => op.read - op.elements,
            _ => 0,
        };
        assert!(all.iter().filter(|op| second(op) == 1).count() > 10);
        assert!(all.iter().filter(|op| (8..8200).contains(&second(op))).count() > 10);
        // Fewer rows than a GPU has multiprocessors, each wide.
        assert!(some(|op| matches!(op, Op::Norm(norm) if norm.rows < 64 && norm.columns > 1 << 13)));
        assert!(some(|op| matches!(op, Op::Copy { elements } if !elements.is_multiple_of(8))));
    }

    #[test]
    fn attention_is_possible_and_its_scores_fit() {
        let mut random = Random::new(9, "attention");
        let mut causal = 0;
        for _ in 0..1000 {
            let Op::Attention(sizes) = attention(&mut random).op else { panic!() };
            assert_eq!(sizes.heads % sizes.kv_heads, 0, "{sizes:?}");
            assert!(sizes.keys >= sizes.queries, "{sizes:?}");
            assert!(sizes.batch * sizes.heads * sizes.queries * sizes.keys <= 1 << 29, "{sizes:?}");
            causal += u32::from(sizes.mask == AttentionMask::Causal);
        }
        assert!((200..500).contains(&causal), "{causal}");
    }
}
