//! Steps that memory decides: functions of each element, softmax, norms, copies.

use flopgap_flops::Activation;
use flopgap_graph::op::{Elementwise, ElementwiseFunction, Norm, NormFunction};
use flopgap_graph::{Epilogue, Op, Step};

use super::random::Random;

/// One of them, over 64 to 2^27 elements.
pub(super) fn step(random: &mut Random) -> Step {
    let op = match random.below(20) {
        0..8 => elementwise(random),
        8..11 => {
            let (rows, columns) = rows(random, 4, 13);
            Op::Softmax { rows, columns }
        }
        11..15 => {
            let function = random.pick(&[
                NormFunction::Layer,
                NormFunction::Layer,
                NormFunction::Rms,
                NormFunction::BatchInference,
            ]);
            let (rows, columns) = rows(random, 6, 13);
            let parameters = match function {
                // Mean, variance, gain and shift of each channel.
                NormFunction::BatchInference => 4 * rows,
                NormFunction::Rms => columns,
                _ => 2 * columns,
            };
            Op::Norm(Norm { function, rows, columns, parameters })
        }
        15..17 => Op::Copy { elements: elements(random) },
        17..19 => {
            let outputs = random.octave(0, 14);
            Op::Reduce { inputs: outputs * random.octave(2, 12), outputs }
        }
        _ => Op::Gather { rows: random.octave(0, 14), width: random.octave(5, 13).next_multiple_of(8) },
    };
    Step { op, epilogue: Epilogue::default() }
}

fn elementwise(random: &mut Random) -> Op {
    use ElementwiseFunction::{Activation as Apply, Add, Mul};
    let function = random.pick(&[
        Apply(Activation::Relu),
        Apply(Activation::Gelu),
        Apply(Activation::Sigmoid),
        Apply(Activation::Silu),
        Add,
        Add,
        Mul,
    ]);
    let elements = elements(random);
    let read = if matches!(function, Add | Mul) { 2 * elements } else { elements };
    Op::Elementwise(Elementwise { function, elements, read })
}

fn elements(random: &mut Random) -> u64 {
    if random.percent(40) { random.power(6, 27) } else { random.octave(6, 27).next_multiple_of(8) }
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
                Op::Elementwise(op) => ("elementwise", op.elements),
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
}
