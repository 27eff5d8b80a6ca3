//! A model as layers.

use flopgap_flops::{ElementType, Work};
use serde::{Deserialize, Serialize};

use crate::op::Op;

/// A model: its layers in an order in which they can run, and the tensors between them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Graph {
    /// Name of the model.
    pub name: String,
    /// All tensors: inputs, parameters, what layers compute.
    pub tensors: Vec<Tensor>,
    /// The layers, each after those whose results it reads.
    pub layers: Vec<Layer>,
    /// Indexes of the tensors that a caller supplies.
    pub inputs: Vec<usize>,
    /// Indexes of the tensors that a caller gets.
    pub outputs: Vec<usize>,
}

/// A tensor of known shape.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tensor {
    /// Its name in the model.
    pub name: String,
    /// Its sizes.
    pub shape: Vec<u64>,
    /// How its elements are stored; `None` for types that no arithmetic of networks is done in (64-bit indexes, booleans, text).
    pub element: Option<ElementType>,
    /// Bytes of an element.
    pub element_bytes: u64,
    /// Whether it is stored with the model.
    pub parameter: bool,
}

/// One operation of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Layer {
    /// Its name in the model: `/layer1/0/conv1/Conv`.
    pub name: String,
    /// The module it belongs to, dots between the parts: `layer1.0.conv1`; empty where the model does not tell.
    pub module: String,
    /// The operator as the model names it: `Conv`, `aten.convolution.default`.
    pub operator: String,
    /// What it computes, or `None` where this crate has no formula for the operator.
    pub op: Option<Op>,
    /// Exact FLOPs and compulsory bytes, or `None` where there is no formula. Never 0 for what is not known.
    pub work: Option<Work>,
    /// Indexes of the tensors that it reads.
    pub inputs: Vec<usize>,
    /// Indexes of the tensors that it writes.
    pub outputs: Vec<usize>,
}
