//! The operation of a layer, with all sizes that its cost depends on.

mod label;
mod work;

use flopgap_flops::Activation;
use flopgap_flops::operator::{EmbeddingBag, GridSample, Recurrent};
use serde::{Deserialize, Serialize};

pub(crate) use work::product;

/// One operation with its sizes. Two layers with equal operations cost the same.
///
/// JSON is tagged by `op`: `{"op":"gemm","batch":1,"m":32,"n":512,"k":1024}`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Op {
    /// `batch` products of `m x k` by `k x n`; in a fully connected layer `m` counts samples, `n`
    /// outputs, `k` inputs.
    Gemm(Gemm),
    /// A convolution.
    Conv(Conv),
    /// A maximum or mean over windows.
    Pool(Pool),
    /// A function of each element: an activation, a sum of two tensors, a scale.
    Elementwise(Elementwise),
    /// A softmax over each of `rows` rows.
    Softmax {
        /// Rows.
        rows: u64,
        /// Elements in each.
        columns: u64,
    },
    /// A normalization.
    Norm(Norm),
    /// Scaled dot-product attention in one operation.
    Attention(flopgap_flops::Attention),
    /// A recurrent layer over whole sequences.
    Recurrent(Recurrent),
    /// Rows picked out of a table.
    Gather {
        /// Rows that are picked.
        rows: u64,
        /// Elements of a row.
        width: u64,
    },
    /// Sums, means or maxima over some dimensions.
    Reduce {
        /// Elements read.
        inputs: u64,
        /// Elements written.
        outputs: u64,
    },
    /// Elements moved without arithmetic: transpose, concatenation, slice, padding, conversion
    /// between types.
    Copy {
        /// Elements written.
        elements: u64,
    },
    /// Nothing moves: reshape, flatten, squeeze, identity; constants.
    View,
    /// An empty launch: the cost of a call before it computes.
    Empty,
    // Kinds that are new come last: fits divide their models by a hash of the steps.
    /// Images sampled at given points.
    GridSample(GridSample),
    /// Rows picked out of a table and brought together by bag.
    EmbeddingBag(EmbeddingBag),
    /// Products of rows with the matrix of their group: the experts of a mixture.
    GroupedGemm(GroupedGemm),
}

/// Sizes of products whose rows, columns or inner sums are divided into groups, each with operands
/// of its own. How long the groups are depends on data, what they multiply together does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GroupedGemm {
    /// Groups.
    pub groups: u64,
    /// Rows of all groups: tokens times experts of a token.
    pub m: u64,
    /// Columns: outputs.
    pub n: u64,
    /// Length of the inner sums: inputs.
    pub k: u64,
}

/// Sizes of a (batched) matrix product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Gemm {
    /// Products with operands of their own; 1 for a fully connected layer.
    pub batch: u64,
    /// Rows of the result: samples.
    pub m: u64,
    /// Columns of the result: outputs.
    pub n: u64,
    /// Length of the inner sums: inputs.
    pub k: u64,
}

/// Sizes of a convolution over any number of spatial dimensions.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Conv {
    /// Samples.
    pub batch: u64,
    /// Channels read.
    pub inputs: u64,
    /// Channels written.
    pub outputs: u64,
    /// Groups that both are divided into.
    pub groups: u64,
    /// Sizes of the input image: height, width.
    pub image: Vec<u64>,
    /// Sizes of the kernel.
    pub kernel: Vec<u64>,
    /// Steps of the window.
    pub stride: Vec<u64>,
    /// Steps between the elements of the kernel.
    pub dilation: Vec<u64>,
    /// Zeros before and after each dimension.
    pub padding: Vec<[u64; 2]>,
    /// Whether it is the transposed convolution, whose output is larger than its input.
    pub transposed: bool,
    /// Zeros added after each dimension of a transposed convolution's output.
    pub output_padding: Vec<u64>,
}

impl Conv {
    /// A convolution without groups, whose kernel and stride are the same in each dimension, padded
    /// by half of the kernel: a stride of 1 keeps the size of the image where the kernel is odd.
    ///
    /// ```
    /// let conv = flopgap_graph::op::Conv::new(32, [64, 128], &[56, 56], 3, 2);
    /// assert_eq!(conv.output(), Ok(vec![28, 28]));
    /// ```
    pub fn new(batch: u64, [inputs, outputs]: [u64; 2], image: &[u64], kernel: u64, stride: u64) -> Self {
        let dimensions = image.len();
        Self {
            batch,
            inputs,
            outputs,
            groups: 1,
            image: image.to_vec(),
            kernel: vec![kernel; dimensions],
            stride: vec![stride; dimensions],
            dilation: vec![1; dimensions],
            padding: vec![[kernel / 2; 2]; dimensions],
            transposed: false,
            output_padding: vec![0; dimensions],
        }
    }
}

/// Sizes of a pooling.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pool {
    /// Maximum or mean.
    pub function: PoolFunction,
    /// Samples times channels.
    pub planes: u64,
    /// Sizes of the input image.
    pub image: Vec<u64>,
    /// Sizes of the output image.
    pub output: Vec<u64>,
    /// Sizes of the window.
    pub kernel: Vec<u64>,
    /// Steps of the window.
    pub stride: Vec<u64>,
    /// What is added before and after each dimension and never wins: lowest values of a maximum,
    /// zeros of a mean.
    #[serde(default)]
    pub padding: Vec<[u64; 2]>,
}

/// What a window becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PoolFunction {
    /// Its maximum.
    Max,
    /// Its mean.
    Average,
}

/// A function of each element.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Elementwise {
    /// The function.
    pub function: ElementwiseFunction,
    /// Elements written.
    pub elements: u64,
    /// Elements read, of all operands (a broadcast operand once).
    pub read: u64,
}

/// The function of an element-wise operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ElementwiseFunction {
    /// An activation function.
    Activation(Activation),
    /// A sum or difference of two operands.
    Add,
    /// A product of two operands.
    Mul,
    /// A quotient of two operands.
    Div,
    /// A comparison, a selection, a maximum of two operands, a clamp.
    Compare,
    /// A function of one operand that is an instruction or few: negation, absolute value, square
    /// root, reciprocal.
    Simple,
    /// A function of one operand that is a polynomial or a table: exponential, logarithm, power,
    /// sine.
    Transcendental,
    /// A function that takes so many FLOPs an element: a hard sigmoid 4, a hard swish 5.
    Several(u8),
    /// To or from 8-bit integers with a scale: `QuantizeLinear`, `DequantizeLinear`.
    Quantize,
}

/// Sizes of a normalization.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Norm {
    /// What the statistics are taken over.
    pub function: NormFunction,
    /// Groups with statistics of their own (layer and group norm), or channels (batch norm).
    pub rows: u64,
    /// Elements in each.
    pub columns: u64,
    /// Elements of gains, shifts and stored statistics that are read.
    #[serde(default)]
    pub parameters: u64,
}

/// A normalization.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NormFunction {
    /// With statistics that are given: a scale and a shift by channel.
    BatchInference,
    /// Mean and variance of each row.
    Layer,
    /// The root of the mean square of each row.
    Rms,
    /// Mean and variance of each group of channels.
    Group,
}
