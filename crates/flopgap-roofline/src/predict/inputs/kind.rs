//! Kinds of steps: what kernels differ by apart from sizes, and which of them were measured.
//!
//! A fit says nothing about a kind without rows: a recurrent layer has the sizes of a product, and
//! takes 25 times as long. What was measured is read from the rows, so a table of products covers
//! products alone.

use flopgap_flops::operator::Cell;
use flopgap_flops::{Attention, AttentionMask, Precision};
use flopgap_graph::op::{Conv, ElementwiseFunction, NormFunction, PoolFunction};
use flopgap_graph::{Mode, Op, Step};
use rustc_hash::FxHashSet;

use crate::predict::formula::groups::class;

/// What the rows of a fit say about a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cover {
    /// Its kind was measured in this precision, and its operation in this mode.
    Measured,
    /// Its operation was, but as another kind, in another precision or in another mode.
    Related,
    /// Its operation never was.
    Never,
}

/// The kinds that were measured.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Kinds {
    kinds: FxHashSet<(String, Precision)>,
    modes: FxHashSet<(String, Mode)>,
}

impl Kinds {
    pub(crate) fn include(&mut self, step: &Step, precision: Precision, mode: Mode) {
        self.kinds.insert((name(&step.op), computed_in(&step.op, precision)));
        self.modes.insert((step.op.name().to_owned(), mode));
    }

    /// Whether anything was measured in a mode.
    pub(crate) fn have(&self, mode: Mode) -> bool {
        self.modes.iter().any(|(_, other)| *other == mode)
    }

    pub(crate) fn cover(&self, step: &Step, precision: Precision, mode: Mode) -> Cover {
        let operation = step.op.name();
        // A launch of nothing is what a mode costs, which is known of every fit.
        if step.op == Op::Empty {
            return Cover::Measured;
        }
        let in_mode = self.modes.contains(&(operation.to_owned(), mode));
        if in_mode && self.kinds.contains(&(name(&step.op), computed_in(&step.op, precision))) {
            Cover::Measured
        } else if self.modes.iter().any(|(other, _)| other == operation) {
            Cover::Related
        } else {
            Cover::Never
        }
    }
}

/// The precision that distinguishes kernels: both 16-bit formats are one, and TF32 is how products
/// are computed, so that everything else is in FP32.
fn computed_in(op: &Op, precision: Precision) -> Precision {
    let product =
        matches!(op, Op::Gemm(_) | Op::GroupedGemm(_) | Op::Conv(_) | Op::Attention(_) | Op::Recurrent(_));
    match class(precision) {
        Precision::Tf32 if !product => Precision::Fp32,
        class => class,
    }
}

/// The kind of an operation, as messages name it.
pub(crate) fn name(op: &Op) -> String {
    match op {
        Op::Gemm(gemm) if gemm.batch == 1 => "product".to_owned(),
        Op::Gemm(_) => "batched product".to_owned(),
        Op::Conv(conv) => of_conv(conv),
        Op::Pool(pool) => {
            let function = match pool.function {
                PoolFunction::Max => "max",
                PoolFunction::Average => "average",
            };
            format!("{}-D {function} pooling", pool.image.len())
        }
        Op::Elementwise(sizes) => match sizes.function {
            ElementwiseFunction::Quantize => "conversion to or from 8 bits".to_owned(),
            _ => "element-wise function".to_owned(),
        },
        Op::Norm(norm) => match norm.function {
            NormFunction::BatchInference => "batch norm",
            NormFunction::Layer => "layer norm",
            NormFunction::Rms => "RMS norm",
            NormFunction::Group => "group norm",
            _ => op.name(),
        }
        .to_owned(),
        Op::Attention(attention) => of_attention(attention),
        Op::Recurrent(layer) => match layer.cell {
            Cell::Rnn => "recurrent layer (RNN)",
            Cell::Gru => "recurrent layer (GRU)",
            Cell::Lstm => "recurrent layer (LSTM)",
        }
        .to_owned(),
        Op::Reduce { .. } => "reduction".to_owned(),
        Op::GridSample(_) => "grid sample".to_owned(),
        Op::EmbeddingBag(_) => "embedding bag".to_owned(),
        Op::GroupedGemm(_) => "grouped product".to_owned(),
        _ => op.name().to_owned(),
    }
}

fn of_conv(conv: &Conv) -> String {
    let mut name = String::new();
    if conv.transposed {
        name.push_str("transposed ");
    }
    if conv.dilation.iter().any(|&step| step > 1) {
        name.push_str("dilated ");
    }
    if conv.groups > 1 {
        name.push_str(if conv.groups == conv.inputs { "depthwise " } else { "grouped " });
    }
    name + &format!("{}-D convolution", conv.image.len())
}

fn of_attention(sizes: &Attention) -> String {
    let mut name = String::new();
    if sizes.mask != AttentionMask::Full {
        name.push_str("causal ");
    }
    if sizes.kv_heads != sizes.heads {
        name.push_str("grouped-query ");
    }
    name.push_str("attention");
    if sizes.queries != sizes.keys {
        name.push_str(" with other keys than queries");
    }
    if sizes.value_width.is_some() {
        name.push_str(" with values of another width");
    }
    name
}

#[cfg(test)]
mod tests {
    use flopgap_flops::operator::{Bag, EmbeddingBag, Recurrent};
    use flopgap_graph::op::{Gemm, GroupedGemm};

    use super::*;

    fn conv(sides: usize) -> Conv {
        Conv::new(1, [8, 8], &vec![16; sides], 3, 1)
    }

    fn attention(mask: AttentionMask, kv_heads: u64, keys: u64) -> Op {
        Op::Attention(Attention {
            batch: 1,
            heads: 8,
            kv_heads,
            queries: 64,
            keys,
            head_width: 64,
            value_width: None,
            mask,
        })
    }

    #[test]
    fn kinds_are_named_by_what_kernels_differ_by() {
        let (full, causal) = (AttentionMask::Full, AttentionMask::Causal);
        let layer = Recurrent {
            cell: Cell::Gru,
            batch: 1,
            length: 2,
            inputs: 3,
            hidden: 4,
            directions: 1,
            bias: true,
        };
        let bag = EmbeddingBag { function: Bag::Sum, rows: 2, width: 3, bags: 1, weighted: false };
        for (op, expected) in [
            (Op::Gemm(Gemm { batch: 1, m: 1, n: 1, k: 1 }), "product"),
            (Op::Gemm(Gemm { batch: 2, m: 1, n: 1, k: 1 }), "batched product"),
            (Op::Conv(conv(1)), "1-D convolution"),
            (Op::Conv(Conv { groups: 8, ..conv(2) }), "depthwise 2-D convolution"),
            (Op::Conv(Conv { groups: 4, ..conv(2) }), "grouped 2-D convolution"),
            (Op::Conv(Conv { transposed: true, ..conv(3) }), "transposed 3-D convolution"),
            (Op::Conv(Conv { dilation: vec![2; 2], ..conv(2) }), "dilated 2-D convolution"),
            (attention(full, 8, 64), "attention"),
            (attention(causal, 8, 64), "causal attention"),
            (attention(full, 2, 65), "grouped-query attention with other keys than queries"),
            (Op::Recurrent(layer), "recurrent layer (GRU)"),
            (Op::Softmax { rows: 1, columns: 1 }, "softmax"),
            (Op::EmbeddingBag(bag), "embedding bag"),
            (Op::GroupedGemm(GroupedGemm { groups: 8, m: 1, n: 1, k: 1 }), "grouped product"),
        ] {
            assert_eq!(name(&op), expected);
        }
    }

    #[test]
    fn what_was_measured_is_what_rows_have() {
        use Cover::{Measured, Never, Related};
        let of = |op: Op| Step::plain(op);
        let product = |batch| of(Op::Gemm(Gemm { batch, m: 64, n: 64, k: 64 }));
        let mut kinds = Kinds::default();
        kinds.include(&product(1), Precision::Fp16, Mode::Graph);
        kinds.include(&of(Op::Conv(conv(2))), Precision::Fp32, Mode::Graph);
        kinds.include(&of(Op::Copy { elements: 9 }), Precision::Fp32, Mode::Stream);
        let transposed = of(Op::Conv(Conv { transposed: true, ..conv(2) }));
        for (step, precision, mode, expected) in [
            (product(1), Precision::Fp16, Mode::Graph, Measured),
            // Both formats of 16 bits have the same kernels.
            (product(1), Precision::Bf16, Mode::Graph, Measured),
            (product(1), Precision::Int8, Mode::Graph, Related),
            (product(1), Precision::Fp16, Mode::Stream, Related),
            (product(2), Precision::Fp16, Mode::Graph, Related),
            (of(Op::Conv(conv(2))), Precision::Fp32, Mode::Graph, Measured),
            (of(Op::Conv(conv(2))), Precision::Tf32, Mode::Graph, Related),
            (of(Op::Conv(conv(1))), Precision::Fp32, Mode::Graph, Related),
            (transposed, Precision::Fp32, Mode::Graph, Related),
            // TF32 is a way to multiply, and a copy multiplies nothing.
            (of(Op::Copy { elements: 9 }), Precision::Tf32, Mode::Stream, Measured),
            (of(Op::Softmax { rows: 1, columns: 1 }), Precision::Fp32, Mode::Graph, Never),
            (of(attention(AttentionMask::Full, 8, 4)), Precision::Fp16, Mode::Graph, Never),
            (of(Op::Empty), Precision::Int8, Mode::Call, Measured),
        ] {
            assert_eq!(kinds.cover(&step, precision, mode), expected, "{} {precision}", step.label());
        }
    }
}
