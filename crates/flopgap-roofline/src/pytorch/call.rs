//! The calls of operators that PyTorch makes for a model, by which they are looked up.

use std::borrow::Cow;
use std::collections::BTreeSet;

use flopgap_flops::{AttentionMask, ElementType, Precision};
use flopgap_graph::op::{Conv, NormFunction};
use flopgap_graph::{Graph, Layer, Layout, Op, Tensor};
use serde::{Deserialize, Serialize};

/// How products are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arithmetic {
    /// In 32 bits.
    Fp32,
    /// In 32 bits, of which tensor cores multiply 19.
    Tf32,
    /// In 16 bits: fp16 and bf16 take as long.
    Half,
}

impl Arithmetic {
    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fp32 => "fp32",
            Self::Tf32 => "tf32",
            Self::Half => "16 bits",
        }
    }

    /// That of a precision; `None` of 8 bits, which these tables do not have.
    pub fn of(precision: Precision) -> Option<Self> {
        match precision {
            Precision::Fp32 => Some(Self::Fp32),
            Precision::Tf32 => Some(Self::Tf32),
            Precision::Fp16 | Precision::Bf16 => Some(Self::Half),
            Precision::Int8 => None,
        }
    }
}

/// Calls whose times are interpolated together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Products of matrices.
    Product,
    /// Convolutions without groups, transposed ones included.
    Convolution,
    /// Convolutions in groups.
    GroupedConvolution,
    /// Convolutions of each channel by itself.
    DepthwiseConvolution,
    /// Attention in one kernel: cuDNN's or the memory-efficient one.
    FusedAttention,
    /// Attention spelled out, which PyTorch runs where an operand's or the mask's last dimension
    /// is not dense.
    MathAttention,
    /// Recurrent layers by cuDNN.
    Recurrent,
    /// Normalizations.
    Norm,
    /// Functions and moves of elements.
    Map,
    /// Softmax, reductions and pools.
    Rows,
    /// Steps of an optimizer.
    Optimizer,
    /// Kernels that `torch.compile` made.
    Fused,
    /// Products of rows with the matrix of their group: the experts of a mixture.
    GroupedProduct,
}

/// Operators like no other, which are estimated where they were measured: what they take follows
/// from sizes alone. Most have no formula.
const ALONE: &[&str] = &["argsort", "bernoulli", "grid_sampler", "histc", "rand_like", "sort", "topk"];

/// What of a training step a call is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Forward, or what is beside both.
    #[default]
    Forward,
    /// Backward. Of products and convolutions, with the gradients of both operands.
    Backward,
    /// Backward to the first operand of a product or convolution alone.
    BackwardToInput,
    /// Backward to the second alone, as of a network's first layer.
    BackwardToWeights,
    /// Forward, by a compiled model.
    Compiled,
}

impl Phase {
    /// What tables add to the name of a kind.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Forward => "",
            Self::Backward => ", backward",
            Self::BackwardToInput => ", backward to the input",
            Self::BackwardToWeights => ", backward to the weights",
            Self::Compiled => ", compiled",
        }
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    pub(super) const fn is_forward(&self) -> bool {
        matches!(self, Self::Forward)
    }
}

/// A table of calls.
pub(super) type Key = (Phase, Kind, Arithmetic);

/// A call of an operator, with the sizes that its time depends on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Call {
    /// What it is interpolated with.
    pub kind: Kind,
    /// See `kind`.
    pub phase: Phase,
    /// How it computes.
    pub arithmetic: Arithmetic,
    /// The operator, where it decides: `gelu`; empty of products, convolutions and attention.
    pub operator: Cow<'static, str>,
    /// Sizes, by the kind.
    pub sizes: Vec<u64>,
    /// FLOPs.
    pub flops: u64,
    /// Bytes of operands and results, each once.
    pub bytes: u64,
}

impl Kind {
    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Product => "products",
            Self::Convolution => "convolutions",
            Self::GroupedConvolution => "grouped convolutions",
            Self::DepthwiseConvolution => "depthwise convolutions",
            Self::FusedAttention => "attention, fused",
            Self::MathAttention => "attention, spelled out",
            Self::Recurrent => "recurrent layers",
            Self::Norm => "norms",
            Self::Map => "functions and copies",
            Self::Rows => "softmax, reductions, pools",
            Self::Optimizer => "optimizers",
            Self::Fused => "fused kernels",
            Self::GroupedProduct => "grouped products",
        }
    }

    /// Whether a compiled model leaves it to the kernels of a library.
    const fn is_of_library(self) -> bool {
        matches!(
            self,
            Self::Product
                | Self::Convolution
                | Self::GroupedConvolution
                | Self::DepthwiseConvolution
                | Self::FusedAttention
        )
    }

    /// How many sizes a call has.
    pub(super) const fn sizes(self) -> usize {
        match self {
            Self::Convolution | Self::GroupedConvolution | Self::DepthwiseConvolution => 14,
            Self::Recurrent | Self::FusedAttention | Self::MathAttention => 8,
            Self::Fused => 5,
            Self::Norm | Self::GroupedProduct => 4,
            Self::Optimizer => 3,
            _ => 7,
        }
    }
}

/// Arithmetic of convolutions and recurrent layers, and of all other products.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Computed {
    /// Of products and attention.
    pub products: Arithmetic,
    /// Of what cuDNN computes.
    pub cudnn: Arithmetic,
}

impl Computed {
    /// What a precision means to PyTorch. Without one that is requested, convolutions of a model in
    /// fp32 are in TF32: its default. `None` of precisions that were not measured.
    pub fn of(own: Precision, requested: Option<Precision>) -> Option<Self> {
        let products = Arithmetic::of(requested.unwrap_or(own))?;
        let by_default = products == Arithmetic::Fp32 && requested.is_none();
        Some(Self { products, cudnn: if by_default { Arithmetic::Tf32 } else { products } })
    }
}

impl Call {
    /// The call of a layer. `None` of views, which launch nothing, and of operators without a
    /// formula whose times depend on data or were not measured.
    pub fn of(graph: &Graph, layer: &Layer, computed: Computed) -> Option<Self> {
        if is_loop(layer) || (layer.op.is_none() && !is_alone(layer)) {
            return None;
        }
        let operands = Operands::of(graph, layer)?;
        let Operands { inputs, output, layouts, .. } = &operands;
        let width = output.element_bytes;
        let [reordered, gaps] = operands.layouts();
        let first_reordered = u64::from(layouts.first() == Some(&Layout::Reordered));
        let bias = u64::from(inputs.len() > 2);
        let operator = || Cow::Owned(operator(layer).to_owned());
        // What is stored in 16 bits is computed so, whatever else the model does.
        let stored = |otherwise: Arithmetic| if width == 2 { Arithmetic::Half } else { otherwise };
        let mut flops = layer.work.map_or(0, |work| work.flops);
        let mut moved = operands.read.saturating_add(operands.written);
        let (kind, arithmetic, operator, sizes) = match &layer.op {
            Some(Op::Gemm(gemm)) => {
                let linear = u64::from(layer.operator.contains("linear"));
                let dense = u64::from(layouts.first() != Some(&Layout::Rows));
                let sizes = vec![gemm.batch, gemm.m, gemm.n, gemm.k, bias, linear, dense];
                (Kind::Product, stored(computed.products), Cow::Borrowed(""), sizes)
            }
            Some(Op::GroupedGemm(of)) => {
                let sizes = vec![of.groups, of.m, of.n, of.k];
                (Kind::GroupedProduct, stored(computed.products), Cow::Borrowed(""), sizes)
            }
            Some(Op::Conv(conv)) => {
                let bf16 = u64::from(output.element == Some(ElementType::Bf16));
                let pixels = size(output.shape.get(2..).unwrap_or_default());
                let (kind, sizes) = convolution(conv, pixels, [bias, first_reordered, bf16]);
                let arithmetic = match stored(computed.cudnn) {
                    // Tensor cores have nothing to multiply.
                    Arithmetic::Tf32 if kind == Kind::DepthwiseConvolution => Arithmetic::Fp32,
                    other => other,
                };
                (kind, arithmetic, Cow::Borrowed(""), sizes)
            }
            Some(Op::Attention(of)) => {
                let found = attention(inputs, of.mask == AttentionMask::Causal, width)?;
                flops = found.flops;
                if found.kind == Kind::MathAttention {
                    moved = found.scores.saturating_add(moved.saturating_mul(3));
                }
                (found.kind, stored(computed.products), Cow::Borrowed(""), found.sizes)
            }
            Some(Op::Recurrent(of)) => {
                let bf16 = u64::from(output.element == Some(ElementType::Bf16));
                let own = [of.batch, of.length, of.hidden, of.inputs, stacked(graph, layer), bf16];
                let sizes = [&own[..], &[of.cell.gates(), of.directions]].concat();
                (Kind::Recurrent, stored(computed.cudnn), Cow::Borrowed(""), sizes)
            }
            Some(Op::Norm(norm)) => {
                let arithmetic = if width == 2 { Arithmetic::Half } else { Arithmetic::Fp32 };
                // A batch norm that takes its statistics from the batch is another kernel.
                let own =
                    norm.function != NormFunction::BatchInference && layer.operator.contains("batch_norm");
                let operator = if own { Cow::Borrowed("batch_norm of the batch") } else { operator() };
                (Kind::Norm, arithmetic, operator, vec![norm.rows, norm.columns, reordered, gaps])
            }
            None | Some(Op::GridSample(_) | Op::Softmax { .. } | Op::Reduce { .. } | Op::Pool(_)) => {
                (Kind::Rows, Arithmetic::Fp32, operator(), operands.sizes())
            }
            // Another kernel, which picks them one after the other (PyTorch's
            // `indexSelectSmallIndex`).
            Some(Op::Gather { rows: ..=16, .. }) if ["embedding", "index_select"].contains(&&*operator()) => {
                let operator = Cow::Owned(format!("{} of few rows", operator()));
                (Kind::Map, Arithmetic::Fp32, operator, operands.sizes())
            }
            Some(Op::Elementwise(_) | Op::Copy { .. } | Op::Gather { .. }) => {
                (Kind::Map, Arithmetic::Fp32, operator(), operands.sizes())
            }
            _ => return None,
        };
        debug_assert_eq!(sizes.len(), kind.sizes(), "{kind:?}");
        Some(Self { kind, phase: Phase::Forward, arithmetic, operator, sizes, flops, bytes: moved })
    }

    /// The same call by a compiled model, which lays images out for all of its convolutions, and
    /// leaves a bias to another kernel unless the call `adds_bias`.
    #[must_use]
    pub fn compiled(mut self, channels_last: bool, adds_bias: bool) -> Self {
        self.phase = Phase::Compiled;
        match (self.kind, self.sizes.as_mut_slice()) {
            (
                Kind::Convolution | Kind::GroupedConvolution | Kind::DepthwiseConvolution,
                [.., bias, reordered, _],
            ) => {
                (*bias, *reordered) = (0, u64::from(channels_last));
            }
            (Kind::Product, [.., bias, _, dense]) => (*bias, *dense) = (*bias * u64::from(adds_bias), 0),
            _ => {}
        }
        self
    }

    /// Whether only rows of its own operator tell anything about it.
    pub(super) fn is_alone(&self) -> bool {
        ALONE.contains(&self.operator.as_ref())
    }

    /// What it is as far as only measured calls are like it: the dimensions of a convolution and
    /// whether it is transposed; the gates of a recurrent layer and its directions.
    pub(super) fn form(&self) -> [u64; 2] {
        match (self.kind, self.sizes.as_slice()) {
            (Kind::Convolution | Kind::GroupedConvolution | Kind::DepthwiseConvolution, sizes) => {
                [9, 10].map(|place| sizes.get(place).copied().unwrap_or(0))
            }
            (Kind::Recurrent, &[.., gates, directions]) => [gates, directions],
            _ => [0; 2],
        }
    }

    /// What it is, as one says that it was never measured.
    pub(super) fn what(&self) -> String {
        match self.phase {
            Phase::Forward | Phase::Compiled if self.is_alone() => format!("calls of {}", self.operator),
            Phase::Forward | Phase::Compiled => self.what_forward(),
            _ if self.operator.is_empty() => format!("the backward of {}", self.what_forward()),
            _ => format!("the backward of {}", self.operator),
        }
    }

    fn what_forward(&self) -> String {
        match (self.kind, self.form()) {
            (_, [0, _]) => self.kind.name().to_owned(),
            (Kind::Recurrent, [gates, directions]) => {
                let both = if directions > 1 { "bidirectional " } else { "" };
                format!("{both}recurrent layers with {gates} gates")
            }
            (_, [rank, transposed]) => {
                let transposed = if transposed == 0 { "" } else { "transposed " };
                format!("{transposed}{} of {rank}-D images", self.kind.name())
            }
        }
    }

    /// Whether it is a recurrent layer that cuDNN computes by one kernel for the whole sequence,
    /// whose weights stay in the multiprocessors: up to 192 hidden units, of cells without gates up
    /// to 384, never in bf16, and where PyTorch asks for it in fp16
    /// (`use_persist_common_heuristics` in its `RNN.cpp`). So it was in each of 589 measured calls.
    pub(super) fn persists(&self) -> bool {
        let (Kind::Recurrent, &[batch, _, hidden, inputs, stacked, bf16, gates, directions]) =
            (self.kind, self.sizes.as_slice())
        else {
            return false;
        };
        let small = hidden <= if gates == 1 { 384 } else { 192 };
        let chosen = self.arithmetic == Arithmetic::Half
            && (stacked, directions) == (1, 1)
            && gates != 3
            && hidden <= 1024
            && (hidden % 128, inputs % 128, batch % 8) == (0, 0, 0)
            && batch <= 128;
        bf16 == 0 && (small || chosen)
    }

    /// Whether so many kernels of it run beside each other: those of recurrent layers of one node,
    /// and those of groups of channels, which cuDNN launches on several streams.
    pub fn is_concurrent(&self, kernels: f64) -> bool {
        match (self.kind, self.sizes.as_slice()) {
            (Kind::Recurrent, _) => true,
            (Kind::GroupedConvolution, &[_, _, _, _, _, _, groups, ..]) => kernels >= groups as f64,
            _ => false,
        }
    }

    /// How many of its kernels wait for the one before.
    pub fn waits(&self, kernels: f64) -> f64 {
        if self.is_concurrent(kernels) { kernels.min(1.0) } else { kernels }
    }

    /// The number of ordinary launches that take the host as long as these kernels.
    pub fn launches(&self, kernels: f64) -> f64 {
        launches(kernels, self.waits(kernels))
    }

    /// How often its kernels repeat: at each place of a sequence, or for each group.
    pub(super) fn steps(&self) -> f64 {
        match (self.kind, self.arithmetic, self.sizes.as_slice()) {
            (Kind::Recurrent, _, &[_, length, ..]) if !self.persists() => length as f64,
            (Kind::GroupedConvolution, Arithmetic::Fp32, &[_, _, _, _, _, _, groups, ..]) => groups as f64,
            _ => 1.0,
        }
    }

    pub(super) fn key(&self) -> Key {
        (self.phase, self.kind, self.arithmetic)
    }

    /// The tables that it is in. Compiled models call mostly the same kernels of libraries as
    /// others, which were measured ten times as often.
    pub(super) fn keys(&self) -> impl Iterator<Item = Key> {
        let also = self.phase == Phase::Forward && self.kind.is_of_library();
        let compiled = also.then_some((Phase::Compiled, self.kind, self.arithmetic));
        std::iter::once(self.key()).chain(compiled)
    }
}

/// The number of ordinary launches that take the host as long as these kernels. Kernels that do not
/// wait count half: cuDNN launches them right after each other, in half the time.
pub(super) fn launches(kernels: f64, waits: f64) -> f64 {
    f64::midpoint(kernels, waits)
}

/// Whether a layer's products of experts are a loop, whose kernels are those of its products.
pub(super) fn is_loop(layer: &Layer) -> bool {
    matches!(layer.op, Some(Op::GroupedGemm(_))) && layer.operator.contains("fallback")
}

/// Whether a layer's operator is estimated by its own rows alone.
pub(super) fn is_alone(layer: &Layer) -> bool {
    ALONE.contains(&operator(layer))
}

/// The name of a layer's operator, without namespace and overload.
pub(super) fn operator(layer: &Layer) -> &str {
    layer.operator.split('.').nth(1).unwrap_or(&layer.operator)
}

/// The tensors of a layer.
pub(super) struct Operands<'a> {
    pub(super) inputs: Vec<&'a Tensor>,
    /// The first output.
    output: &'a Tensor,
    /// Bytes of all inputs.
    pub(super) read: u64,
    /// Bytes of all outputs.
    pub(super) written: u64,
    layouts: Vec<Layout>,
}

impl<'a> Operands<'a> {
    pub(super) fn of(graph: &'a Graph, layer: &Layer) -> Option<Self> {
        let tensors = |indexes: &[usize]| {
            indexes.iter().map(|&index| graph.tensors.get(index)).collect::<Option<Vec<&Tensor>>>()
        };
        let (inputs, outputs) = (tensors(&layer.inputs)?, tensors(&layer.outputs)?);
        let output = *outputs.first()?;
        // A tensor that is read twice is read once from memory.
        let bytes = |indexes: &[usize]| {
            let indexes: BTreeSet<usize> = indexes.iter().copied().collect();
            let bytes = indexes.iter().map(|&index| graph.tensors[index].bytes().unwrap_or(u64::MAX));
            bytes.fold(0, u64::saturating_add)
        };
        let (read, written) = (bytes(&layer.inputs), bytes(&layer.outputs));
        let layouts = inputs.iter().map(|tensor| tensor.layout()).collect();
        Some(Self { inputs, output, read, written, layouts })
    }

    /// Whether one lies in another order, and whether one has gaps.
    fn layouts(&self) -> [u64; 2] {
        [Layout::Reordered, Layout::Gaps].map(|layout| u64::from(self.layouts.contains(&layout)))
    }

    /// Sizes of a call that moves elements.
    pub(super) fn sizes(&self) -> Vec<u64> {
        let large = self.inputs.iter().filter(|tensor| tensor.elements().unwrap_or(0) > 1).count();
        let last = self.output.shape.last().copied().unwrap_or(1);
        let [reordered, gaps] = self.layouts();
        let (read, written, width) = (self.read, self.written, self.output.element_bytes);
        vec![read, written, width, last, u64::from(large > 1), reordered, gaps]
    }
}

fn size(sizes: &[u64]) -> u64 {
    sizes.iter().copied().fold(1, u64::saturating_mul)
}

/// The kind of a convolution and its sizes: those of the operation, the pixels that it writes, and
/// `flags`: a bias, channels that come last, bf16.
fn convolution(conv: &Conv, pixels: u64, flags: [u64; 3]) -> (Kind, Vec<u64>) {
    let kind = match conv.groups {
        1 => Kind::Convolution,
        groups if groups == conv.inputs => Kind::DepthwiseConvolution,
        _ => Kind::GroupedConvolution,
    };
    let sizes = [
        conv.batch,
        pixels,
        size(&conv.image),
        size(&conv.kernel),
        conv.inputs,
        conv.outputs,
        conv.groups,
        size(&conv.stride),
        size(&conv.dilation),
        conv.kernel.len() as u64,
        u64::from(conv.transposed),
    ];
    (kind, [&sizes[..], &flags].concat())
}

/// How many layers a call of PyTorch has that is this layer's: of a recurrent one all of its node,
/// such as `lstm.0` and `lstm.1`, which run beside each other; of others one.
pub fn stacked(graph: &Graph, layer: &Layer) -> u64 {
    let Some(own) = recurrent_node(layer) else { return 1 };
    graph.layers.iter().filter(|other| recurrent_node(other) == Some(own)).count() as u64
}

/// The node that a recurrent layer of an export is of.
fn recurrent_node(layer: &Layer) -> Option<&str> {
    let is_recurrent = matches!(layer.op, Some(Op::Recurrent(_))) && layer.operator.starts_with("aten.");
    layer.name.rsplit_once('.').filter(|_| is_recurrent).map(|(node, _)| node)
}

struct Attention {
    kind: Kind,
    sizes: Vec<u64>,
    /// Of all positions, masked or not: kernels of masks compute them.
    flops: u64,
    /// Bytes of the scores, as often as attention that is spelled out moves them.
    scores: u64,
}

/// Attention by its queries, keys, values and mask. PyTorch's fused kernels want the last dimension
/// of all of them dense.
fn attention(inputs: &[&Tensor], causal: bool, width: u64) -> Option<Attention> {
    let [query, key, ..] = inputs else { return None };
    let (&[ref heads @ .., queries, head_width], &[ref key_heads @ .., keys, _]) =
        (query.shape.as_slice(), key.shape.as_slice())
    else {
        return None;
    };
    let is_dense = |tensor: &&Tensor| tensor.strides.last().is_none_or(|stride| *stride == 1);
    // In 32 bits no fused kernel reads a head of keys for several of queries.
    let is_grouped = width > 2 && size(key_heads) < size(heads);
    let kind =
        if inputs.iter().all(is_dense) && !is_grouped { Kind::FusedAttention } else { Kind::MathAttention };
    let mask = inputs.get(3);
    let truth = mask.is_some_and(|mask| mask.element.is_none());
    let heads = size(heads);
    let scores = heads.saturating_mul(queries).saturating_mul(keys);
    let stored = key.bytes().unwrap_or(u64::MAX).max(1);
    let repeats = [keys, head_width, key.element_bytes].into_iter().fold(heads, u64::saturating_mul) / stored;
    let [truth, added, causal] = [truth, mask.is_some() && !truth, causal].map(u64::from);
    Some(Attention {
        kind,
        sizes: vec![heads, queries, keys, head_width, truth, added, causal, repeats],
        flops: scores.saturating_mul(4).saturating_mul(head_width),
        scores: scores.saturating_mul(8 * width),
    })
}
