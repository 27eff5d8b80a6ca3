//! What an engine runs: operations with what is fused behind them.

use flopgap_flops::Activation;
use serde::{Deserialize, Serialize};

use crate::op::Op;

/// One operation and what an engine computes in the same kernel before the result is written.
///
/// Engines fuse in the same way (cuBLASLt and cuDNN by their epilogues, ONNX Runtime by `FusedGemm` and `FusedConv`), so a step is what is measured and predicted.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Step {
    /// The operation.
    #[serde(flatten)]
    pub op: Op,
    /// What follows in the same kernel.
    #[serde(default)]
    pub epilogue: Epilogue,
}

/// What is applied to each element of a result before it is written, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Epilogue {
    /// A bias by output channel is added.
    #[serde(default)]
    pub bias: bool,
    /// Another tensor of the same shape is added (a residual connection).
    #[serde(default)]
    pub residual: bool,
    /// An activation is applied.
    #[serde(default = "identity")]
    pub activation: Activation,
}

fn identity() -> Activation {
    Activation::Identity
}

impl Default for Epilogue {
    fn default() -> Self {
        Epilogue { bias: false, residual: false, activation: Activation::Identity }
    }
}

/// A [`Step`] of a graph with the tensors it touches.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedStep {
    /// What is computed.
    pub step: Step,
    /// Indexes of the layers of the graph that it stands for, the operation's own first.
    pub layers: Vec<usize>,
    /// The tensor of the operation's first operand (activations).
    pub input: usize,
    /// The tensors of its weights and bias, where it has them; for a product of two activations, the second operand.
    pub weights: Option<usize>,
    /// The bias.
    pub bias: Option<usize>,
    /// The tensor added before the activation.
    pub residual: Option<usize>,
    /// The tensor written.
    pub output: usize,
}

/// The configuration of the kernel that computed a step, as far as the library tells.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Algorithm {
    /// The library's number or name of the algorithm.
    pub id: String,
    /// Rows and columns of a tile of the result.
    pub tile: Option<[u32; 2]>,
    /// Stages of the pipeline, the library's number.
    pub stages: Option<u32>,
    /// Parts that the inner sum is split into; 1 is not split.
    pub split_k: Option<u32>,
    /// Blocks of a cluster, in each dimension.
    pub cluster: Option<[u32; 2]>,
    /// Waves of blocks, as the library's heuristic says, in thousandths.
    pub waves_thousandths: Option<u64>,
    /// Bytes of workspace it uses.
    pub workspace: Option<u64>,
    /// Other attributes: inner shape, swizzle, reduction scheme, by the library's names.
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub attributes: std::collections::BTreeMap<String, i64>,
}
