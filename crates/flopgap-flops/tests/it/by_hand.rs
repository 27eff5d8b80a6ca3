//! Every operation of a small model, worked out on paper: FLOPs, elements read, elements written.

use flopgap_flops::transformer::{Block, Operation, Optimizer, Transformer, WorkList};
use flopgap_flops::{Activation, ActivationCosts, Convention, ElementType, Pass};

/// Stored in one byte per element, so that bytes are elements.
const BYTE: ElementType = ElementType::Fp8;

type Row = (Operation, u64, u64, u64);

fn rows(list: &WorkList) -> Vec<Row> {
    list.operations()
        .iter()
        .map(|entry| (entry.operation, entry.work.flops, entry.work.bytes_read, entry.work.bytes_written))
        .collect()
}

/// Width 8, 2 heads of width 4 that share 1 key/value head, hidden 6; 2 sequences of 3 tokens. So
/// 48 elements in the residual stream and in Q, 24 in K and V, 36 scores, 36 hidden elements.
#[test]
fn a_llama_block() {
    let count =
        |pass| rows(&Block::llama(8, 2, 1, 6).count(pass, 2, 3, &Convention::ARITHMETIC, BYTE).unwrap());
    assert_eq!(
        count(Pass::Forward),
        [
            (Operation::AttentionNorm, 4 * 48, 48 + 8, 48),
            (Operation::QkvProjection, 2 * 6 * 8 * 16, 48 + 8 * 16, 6 * 16),
            (Operation::Rotary, 3 * 72, 72, 72),
            (Operation::Scores, 2 * 36 * 4, 48 + 24, 36),
            (Operation::Scale, 36, 36, 36),
            (Operation::Softmax, 5 * 36, 36, 36),
            (Operation::WeightedSum, 2 * 36 * 4, 36 + 24, 48),
            (Operation::OutputProjection, 2 * 6 * 8 * 8, 48 + 64, 48),
            (Operation::AttentionResidual, 48, 96, 48),
            (Operation::MlpNorm, 4 * 48, 48 + 8, 48),
            (Operation::MlpUp, 2 * 6 * 8 * 12, 48 + 8 * 12, 6 * 12),
            (Operation::MlpActivation, 5 * 36, 36, 36),
            (Operation::MlpGate, 36, 72, 36),
            (Operation::MlpDown, 2 * 6 * 6 * 8, 36 + 48, 48),
            (Operation::MlpResidual, 48, 96, 48),
        ]
    );
    assert_eq!(
        count(Pass::Backward),
        [
            (Operation::AttentionNorm, 9 * 48, 48 + 48 + 8, 48 + 8),
            (Operation::QkvProjection, 4 * 6 * 8 * 16, 96 + 48 + 128, 128 + 48),
            (Operation::Rotary, 3 * 72, 72, 72),
            (Operation::Scores, 4 * 36 * 4, 36 + 48 + 24, 48 + 24),
            (Operation::Scale, 36, 36, 36),
            (Operation::Softmax, 4 * 36, 72, 36),
            (Operation::WeightedSum, 4 * 36 * 4, 48 + 36 + 24, 36 + 24),
            (Operation::OutputProjection, 4 * 6 * 8 * 8, 48 + 48 + 64, 64 + 48),
            (Operation::AttentionResidual, 48, 96, 48),
            (Operation::MlpNorm, 9 * 48, 48 + 48 + 8, 48 + 8),
            (Operation::MlpUp, 4 * 6 * 8 * 12, 72 + 48 + 96, 96 + 48),
            (Operation::MlpActivation, (8 + 1) * 36, 72, 36),
            (Operation::MlpGate, 2 * 36, 108, 72),
            (Operation::MlpDown, 4 * 6 * 6 * 8, 48 + 36 + 48, 48 + 36),
            (Operation::MlpResidual, 48, 96, 48),
        ]
    );
}

#[test]
fn the_ends_of_a_model() {
    let model = Transformer {
        layers: 2,
        block: Block::gpt2(8, 2),
        vocabulary: 10,
        learned_positions: Some(5),
        tied_head: true,
    };
    let ends = |pass| {
        let rows = rows(&model.count(pass, 2, 3, &Convention::ARITHMETIC, BYTE).unwrap());
        [rows[0], rows[1], rows[rows.len() - 2], rows[rows.len() - 1]]
    };
    assert_eq!(
        ends(Pass::Forward),
        [
            (Operation::Embedding, 0, 48, 48),
            (Operation::PositionEmbedding, 48, 48 + 3 * 8, 48),
            (Operation::FinalNorm, 7 * 48, 48 + 16, 48),
            (Operation::LmHead, 2 * 6 * 8 * 10, 48 + 80, 60),
        ]
    );
    assert_eq!(
        ends(Pass::Backward),
        [
            (Operation::Embedding, 48, 48, 80),
            (Operation::PositionEmbedding, 48, 48, 5 * 8),
            (Operation::FinalNorm, 13 * 48, 48 + 48 + 8, 48 + 16),
            (Operation::LmHead, 4 * 6 * 8 * 10, 60 + 48 + 80, 80 + 48),
        ]
    );
}

/// The formulas in the documentation, counted term by term.
#[test]
fn element_costs() {
    let costs = Activation::ALL.map(|activation| {
        let cost = ActivationCosts::Arithmetic.of(activation);
        (activation.name(), cost.forward, cost.derivative)
    });
    assert_eq!(
        costs,
        [
            ("identity", 0, 0),
            ("relu", 1, 1),
            ("leaky_relu", 2, 1),
            ("sigmoid", 4, 2),
            ("tanh", 5, 2),
            // x/2, x/sqrt2, erf, 1+, product; Phi: x/sqrt2, erf, 1+, halved; phi: square, halved
            // and negated, exp, scaled; x phi and the sum.
            ("gelu", 5, 4 + 4 + 2),
            // Inner polynomial 5, tanh 5, 1+, x/2, product. Again the 10; (1+t)/2 2; 1-tt 2;
            // polynomial of the derivative 4; three products and the sum.
            ("gelu_tanh", 5 + 5 + 3, 10 + 2 + 2 + 4 + 4),
            ("silu", 4 + 1, 4 + 4),
        ]
    );
    assert_eq!(Optimizer::ALL.map(Optimizer::flops_per_parameter), [2, 4, 3 + 4 + 2 + 5, 14 + 1]);
}
