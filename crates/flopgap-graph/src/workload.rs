//! What a sweep measures.

use flopgap_flops::Activation;
use serde::{Deserialize, Serialize};

use crate::step::Step;

/// One thing to measure: a single step, a network of a family, or a file's model.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "workload", rename_all = "snake_case")]
pub enum Workload {
    /// One step alone.
    Step(Step),
    /// A network of fully connected layers.
    Mlp(MlpSpec),
    /// A residual network.
    Resnet(ResnetSpec),
    /// A model from a file.
    File(FileSpec),
}

/// A network of fully connected layers with biases, the activation after all but the last layer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MlpSpec {
    /// Features of a sample.
    pub input: u64,
    /// Widths of the hidden layers.
    pub hidden: Vec<u64>,
    /// Features of a result.
    pub output: u64,
    /// Samples of a call.
    pub batch: u64,
    /// After each hidden layer.
    pub activation: Activation,
}

/// A residual network for images of 3 channels and 1,000 classes, batch norms folded into the convolutions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ResnetSpec {
    /// 18, 34, 50, 101 or 152.
    pub depth: u32,
    /// Samples of a call.
    pub batch: u64,
    /// Height and width of an image: 224.
    pub image: u64,
}

/// A model from a file, by what it computes: equal for equal files.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FileSpec {
    /// Name of the model.
    pub name: String,
    /// SHA-256 of the file, hexadecimal.
    pub sha256: String,
    /// Samples of a call.
    pub batch: u64,
    /// Its steps, in order.
    pub steps: Vec<Step>,
}

/// How work reaches the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// A CPU's call.
    Call,
    /// Launches on a stream, one after the other.
    Stream,
    /// Replays of a CUDA graph.
    Graph,
}
