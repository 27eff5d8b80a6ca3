//! One transformer block: norm, attention, residual, norm, MLP, residual.

use std::fmt;

use super::{Attention, AttentionMask, Linear, Norm};
use crate::{Activation, Convention, ElementType, FlopError, LossGradient, Pass, Work, checked};

/// The MLP of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(tag = "kind", rename_all = "snake_case"))]
pub enum BlockMlp {
    /// `down(activation(up(x)))`.
    Plain {
        /// Width between `up` and `down`.
        hidden: u64,
        /// The non-linearity.
        activation: Activation,
    },
    /// `down(activation(gate(x)) * up(x))`, as in `SwiGLU`.
    Gated {
        /// Width of `gate` and `up`.
        hidden: u64,
        /// The non-linearity of the gate.
        activation: Activation,
    },
}

/// A pre-norm block of a transformer.
///
/// The query, key and value projections count as one linear layer, and so do gate and up: they
/// share their input, which is compulsory once.
///
/// ```
/// use flopgap_flops::{Convention, ElementType, Pass};
/// use flopgap_flops::transformer::{Block, Operation};
///
/// let block = Block::gpt2(768, 12);
/// let work = block.count(Pass::Forward, 4, 512, &Convention::ARITHMETIC, ElementType::Fp32)?;
/// assert_eq!(work.of(Operation::Scores)?.flops, 1_610_612_736);
/// assert_eq!(work.of(Operation::Softmax)?.flops, 62_914_560);
/// # Ok::<(), flopgap_flops::FlopError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Block {
    /// Width of the residual stream.
    pub width: u64,
    /// Query heads.
    pub heads: u64,
    /// Key/value heads, a divisor of `heads`.
    pub kv_heads: u64,
    /// Width of a head.
    pub head_width: u64,
    /// The MLP.
    pub mlp: BlockMlp,
    /// Both norms.
    pub norm: Norm,
    /// Whether the linear layers have biases.
    pub bias: bool,
    /// Whether queries and keys are rotated by their positions.
    pub rotary: bool,
    /// Which query/key pairs are computed.
    pub mask: AttentionMask,
}

/// An operation of a transformer. In text and JSON the name in snake case: `scores`, `mlp_up`, ...
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Operation {
    /// Token embedding: a gather forward, a scatter-add backward.
    Embedding,
    /// Sum with learned position embeddings.
    PositionEmbedding,
    /// Norm before the attention.
    AttentionNorm,
    /// Query, key and value projections.
    QkvProjection,
    /// Rotation of queries and keys.
    Rotary,
    /// `Q K^T`.
    Scores,
    /// Division of the scores by the root of the head width.
    Scale,
    /// Softmax of the scores.
    Softmax,
    /// `P V`.
    WeightedSum,
    /// Projection of the attention's output.
    OutputProjection,
    /// Sum with the residual stream after the attention.
    AttentionResidual,
    /// Norm before the MLP.
    MlpNorm,
    /// First projection of the MLP, gate included.
    MlpUp,
    /// Non-linearity of the MLP.
    MlpActivation,
    /// Product with the gate.
    MlpGate,
    /// Second projection of the MLP.
    MlpDown,
    /// Sum with the residual stream after the MLP.
    MlpResidual,
    /// Norm after the last block.
    FinalNorm,
    /// Projection to the vocabulary.
    LmHead,
}

impl Operation {
    /// The name used in text and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Embedding => "embedding",
            Self::PositionEmbedding => "position_embedding",
            Self::AttentionNorm => "attention_norm",
            Self::QkvProjection => "qkv_projection",
            Self::Rotary => "rotary",
            Self::Scores => "scores",
            Self::Scale => "scale",
            Self::Softmax => "softmax",
            Self::WeightedSum => "weighted_sum",
            Self::OutputProjection => "output_projection",
            Self::AttentionResidual => "attention_residual",
            Self::MlpNorm => "mlp_norm",
            Self::MlpUp => "mlp_up",
            Self::MlpActivation => "mlp_activation",
            Self::MlpGate => "mlp_gate",
            Self::MlpDown => "mlp_down",
            Self::MlpResidual => "mlp_residual",
            Self::FinalNorm => "final_norm",
            Self::LmHead => "lm_head",
        }
    }

    /// Whether matrix products do the work. The additions of a bias in such an operation are not
    /// separated.
    pub const fn is_matmul(self) -> bool {
        matches!(
            self,
            Self::QkvProjection
                | Self::Scores
                | Self::WeightedSum
                | Self::OutputProjection
                | Self::MlpUp
                | Self::MlpDown
                | Self::LmHead
        )
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The cost of one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct OperationWork {
    /// The operation.
    pub operation: Operation,
    /// Its FLOPs and compulsory bytes.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub work: Work,
}

/// Operations of one pass in the order of the forward pass; each appears at most once, with the sum
/// over all blocks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct WorkList {
    operations: Vec<OperationWork>,
}

impl WorkList {
    pub(super) fn push(&mut self, operation: Operation, work: Work) {
        self.operations.push(OperationWork { operation, work });
    }

    pub(super) fn extend(&mut self, more: Self) {
        self.operations.extend(more.operations);
    }

    /// The operations.
    pub fn operations(&self) -> &[OperationWork] {
        &self.operations
    }

    /// Work of one operation; zero when the model does not have it.
    ///
    /// # Errors
    /// [`FlopError::Overflow`] when it was read from a list that names it several times.
    pub fn of(&self, operation: Operation) -> Result<Work, FlopError> {
        self.sum(|candidate| candidate == operation)
    }

    /// Sum of all operations, each run as a kernel of its own.
    ///
    /// # Errors
    /// [`FlopError::Overflow`].
    pub fn total(&self) -> Result<Work, FlopError> {
        self.sum(|_| true)
    }

    /// Sum of the operations that are [matrix products](Operation::is_matmul).
    ///
    /// # Errors
    /// [`FlopError::Overflow`].
    pub fn matmul(&self) -> Result<Work, FlopError> {
        self.sum(Operation::is_matmul)
    }

    /// The same list for `times` equal blocks.
    ///
    /// # Errors
    /// [`FlopError::Overflow`] naming the operation.
    pub fn checked_repeat(&self, times: u64) -> Result<Self, FlopError> {
        let operations = self
            .operations
            .iter()
            .map(|&OperationWork { operation, work }| {
                let work = work.checked_repeat(times).map_err(|error| error.within(operation))?;
                Ok(OperationWork { operation, work })
            })
            .collect::<Result<_, FlopError>>()?;
        Ok(Self { operations })
    }

    fn sum(&self, keep: impl Fn(Operation) -> bool) -> Result<Work, FlopError> {
        self.operations
            .iter()
            .filter(|entry| keep(entry.operation))
            .try_fold(Work::default(), |sum, entry| sum.checked_add(&entry.work))
    }
}

impl Block {
    /// A block as in GPT-2: layer norms, biases, a plain MLP of four times the width with
    /// tanh-GELU. The mask is [`Full`](AttentionMask::Full).
    pub const fn gpt2(width: u64, heads: u64) -> Self {
        Self {
            width,
            heads,
            kv_heads: heads,
            // Sizes that do not divide are as impossible as 0 heads; both are refused when
            // counting.
            head_width: if heads == 0 || !width.is_multiple_of(heads) { 0 } else { width / heads },
            mlp: BlockMlp::Plain { hidden: width.saturating_mul(4), activation: Activation::GeluTanh },
            norm: Norm::LayerNorm,
            bias: true,
            rotary: false,
            mask: AttentionMask::Full,
        }
    }

    /// A block as in Llama: RMS norms, no biases, rotary positions, grouped-query attention, a
    /// gated MLP with `SiLU`. The mask is [`Full`](AttentionMask::Full).
    pub const fn llama(width: u64, heads: u64, kv_heads: u64, hidden: u64) -> Self {
        Self {
            kv_heads,
            mlp: BlockMlp::Gated { hidden, activation: Activation::Silu },
            norm: Norm::RmsNorm,
            bias: false,
            rotary: true,
            ..Self::gpt2(width, heads)
        }
    }

    /// Weights, biases and norm parameters.
    ///
    /// # Errors
    /// [`FlopError::Overflow`], [`FlopError::ZeroSize`] or [`FlopError::UnevenHeads`].
    pub fn parameters(&self) -> Result<u64, FlopError> {
        let plan = Plan::of(self, 1, 1)?;
        let norm = self.norm.parameters(self.width)?;
        checked::sum(
            "block parameters",
            &[
                norm,
                plan.qkv.parameters()?,
                plan.output.parameters()?,
                norm,
                plan.up.parameters()?,
                plan.down.parameters()?,
            ],
        )
    }

    /// FLOPs and compulsory bytes of one pass over `batch` sequences of `length` tokens. The
    /// backward pass includes the gradient of the block's input. Activations kept from the forward
    /// pass are read, nothing is recomputed.
    ///
    /// # Errors
    /// [`FlopError::Overflow`], [`FlopError::ZeroSize`] or [`FlopError::UnevenHeads`].
    pub fn count(
        &self,
        pass: Pass,
        batch: u64,
        length: u64,
        convention: &Convention,
        element: ElementType,
    ) -> Result<WorkList, FlopError> {
        let plan = Plan::of(self, batch, length)?;
        match pass {
            Pass::Forward => plan.forward(convention, element),
            Pass::Backward => plan.backward(convention, element),
        }
    }
}

/// The operations of a block at one size.
struct Plan<'a> {
    block: &'a Block,
    tokens: u64,
    qkv: Linear,
    attention: Attention,
    output: Linear,
    up: Linear,
    activation: Activation,
    gated: bool,
    /// Elements between up and down.
    hidden_elements: u64,
    down: Linear,
}

impl<'a> Plan<'a> {
    fn of(block: &'a Block, batch: u64, length: u64) -> Result<Self, FlopError> {
        let Block { width, heads, kv_heads, head_width, bias, mask, .. } = *block;
        let (hidden, activation, gated) = match block.mlp {
            BlockMlp::Plain { hidden, activation } => (hidden, activation, false),
            BlockMlp::Gated { hidden, activation } => (hidden, activation, true),
        };
        checked::positive(&[
            ("batch", batch),
            ("sequence length", length),
            ("width", width),
            ("head_width", head_width),
            ("hidden", hidden),
        ])?;
        let attention = Attention { batch, heads, kv_heads, queries: length, keys: length, head_width, mask };
        attention.check_heads()?;
        let tokens = checked::product("tokens", &[batch, length])?;
        let features = |heads| checked::product("projection features", &[heads, head_width]);
        let (query, key) = (features(heads)?, features(kv_heads)?);
        let up = if gated { checked::product("projection features", &[2, hidden])? } else { hidden };
        let linear = |inputs, outputs| Linear { tokens, inputs, outputs, bias };
        Ok(Self {
            block,
            tokens,
            qkv: linear(width, checked::sum("projection features", &[query, key, key])?),
            attention,
            output: linear(query, width),
            up: linear(width, up),
            activation,
            gated,
            hidden_elements: checked::product("hidden elements", &[tokens, hidden])?,
            down: linear(hidden, width),
        })
    }

    fn forward(&self, convention: &Convention, element: ElementType) -> Result<WorkList, FlopError> {
        let Self { block, tokens, attention, .. } = self;
        let norm = block.norm.forward(*tokens, block.width, element)?;
        let residual = self.residual(element)?;
        let mut list = WorkList::default();
        list.push(Operation::AttentionNorm, norm);
        list.push(Operation::QkvProjection, self.qkv.forward(element)?);
        if block.rotary {
            list.push(Operation::Rotary, self.rotary(element)?);
        }
        list.push(Operation::Scores, attention.scores(element)?);
        list.push(Operation::Scale, attention.scale(element)?);
        list.push(Operation::Softmax, attention.softmax(element)?);
        list.push(Operation::WeightedSum, attention.weighted_sum(element)?);
        list.push(Operation::OutputProjection, self.output.forward(element)?);
        list.push(Operation::AttentionResidual, residual);
        list.push(Operation::MlpNorm, norm);
        list.push(Operation::MlpUp, self.up.forward(element)?);
        if self.activation != Activation::Identity {
            let cost = convention.activations.of(self.activation).forward;
            list.push(Operation::MlpActivation, self.elementwise(cost, 1, 1, element)?);
        }
        if self.gated {
            list.push(Operation::MlpGate, self.elementwise(1, 2, 1, element)?);
        }
        list.push(Operation::MlpDown, self.down.forward(element)?);
        list.push(Operation::MlpResidual, residual);
        Ok(list)
    }

    fn backward(&self, convention: &Convention, element: ElementType) -> Result<WorkList, FlopError> {
        let Self { block, tokens, attention, .. } = self;
        let norm = block.norm.backward(*tokens, block.width, element)?;
        let residual = self.residual(element)?;
        let mut list = WorkList::default();
        list.push(Operation::AttentionNorm, norm);
        list.push(Operation::QkvProjection, self.qkv.backward(element, true)?);
        if block.rotary {
            list.push(Operation::Rotary, self.rotary(element)?);
        }
        list.push(Operation::Scores, attention.scores_backward(element)?);
        list.push(Operation::Scale, attention.scale(element)?);
        list.push(Operation::Softmax, attention.softmax_backward(element)?);
        list.push(Operation::WeightedSum, attention.weighted_sum_backward(element)?);
        list.push(Operation::OutputProjection, self.output.backward(element, true)?);
        list.push(Operation::AttentionResidual, residual);
        list.push(Operation::MlpNorm, norm);
        list.push(Operation::MlpUp, self.up.backward(element, true)?);
        if self.activation != Activation::Identity {
            let cost = convention.backward_cost(self.activation, LossGradient::Tensor)?;
            list.push(Operation::MlpActivation, self.elementwise(cost, 2, 1, element)?);
        }
        if self.gated {
            // Each factor's gradient is the incoming gradient times the other factor.
            list.push(Operation::MlpGate, self.elementwise(2, 3, 2, element)?);
        }
        list.push(Operation::MlpDown, self.down.backward(element, true)?);
        list.push(Operation::MlpResidual, residual);
        Ok(list)
    }

    /// The sum of two residual streams, or of the gradients that meet where one was split.
    fn residual(&self, element: ElementType) -> Result<Work, FlopError> {
        let elements = checked::product("residual elements", &[self.tokens, self.block.width])?;
        Work::of_elements(elements, &[elements, elements], &[elements], element)
    }

    /// `x cos + rotated(x) sin` on queries and keys; the tables of sines are not counted.
    fn rotary(&self, element: ElementType) -> Result<Work, FlopError> {
        let rotated = [self.attention.query_elements()?, self.attention.key_elements()?];
        let flops = checked::product("rotary FLOPs", &[3, checked::sum("rotary elements", &rotated)?])?;
        Work::of_elements(flops, &rotated, &rotated, element)
    }

    /// An element-wise operation between up and down that reads and writes so many tensors.
    fn elementwise(
        &self,
        flops: u64,
        reads: usize,
        writes: usize,
        element: ElementType,
    ) -> Result<Work, FlopError> {
        let flops = checked::product("element-wise FLOPs", &[flops, self.hidden_elements])?;
        Work::of_elements(
            flops,
            &vec![self.hidden_elements; reads],
            &vec![self.hidden_elements; writes],
            element,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_agree_with_json() {
        let block = Block::llama(8, 2, 1, 16);
        let list = block.count(Pass::Forward, 1, 4, &Convention::ARITHMETIC, ElementType::Bf16).unwrap();
        let json = serde_json::to_value(&list).unwrap();
        for (entry, json) in list.operations().iter().zip(json.as_array().unwrap()) {
            assert_eq!(json["operation"], entry.operation.name());
            assert_eq!(json["flops"], entry.work.flops);
        }
        assert_eq!(serde_json::from_value::<WorkList>(json).unwrap(), list);
    }

    #[test]
    fn impossible_blocks_are_refused() {
        let count = |block: Block| {
            block.count(Pass::Forward, 1, 4, &Convention::ARITHMETIC, ElementType::Bf16).unwrap_err()
        };
        assert_eq!(count(Block::gpt2(10, 3)), FlopError::ZeroSize { name: "head_width".into() });
        assert_eq!(count(Block::gpt2(10, 0)), FlopError::ZeroSize { name: "head_width".into() });
        assert_eq!(count(Block::llama(12, 3, 2, 8)), FlopError::UnevenHeads { heads: 3, kv_heads: 2 });
        assert_eq!(count(Block::llama(12, 3, 3, 0)), FlopError::ZeroSize { name: "hidden".into() });
    }

    #[test]
    fn matmul_backward_is_twice_forward_without_biases() {
        let block = Block::llama(64, 8, 2, 96);
        let count = |pass| {
            let list = block.count(pass, 3, 5, &Convention::ARITHMETIC, ElementType::Fp32).unwrap();
            list.matmul().unwrap().flops
        };
        assert_eq!(count(Pass::Backward), 2 * count(Pass::Forward));
    }
}
