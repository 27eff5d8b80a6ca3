//! Sizes of the families of networks.

use flopgap_flops::Activation;
use serde::{Deserialize, Serialize};

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

/// A residual network for images of 3 channels and 1,000 classes, batch norms folded into the
/// convolutions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ResnetSpec {
    /// 18, 34, 50, 101 or 152.
    pub depth: u32,
    /// Samples of a call.
    pub batch: u64,
    /// Height and width of an image: 224.
    pub image: u64,
}

impl MlpSpec {
    /// `mlp 784-512-10 batch 32`, and the activation where it is not `ReLU`.
    pub fn label(&self) -> String {
        let sizes: Vec<String> =
            [self.input].iter().chain(&self.hidden).chain([&self.output]).map(u64::to_string).collect();
        let activation = match self.activation {
            Activation::Relu => String::new(),
            other => format!(" {other}"),
        };
        format!("mlp {} batch {}{activation}", sizes.join("-"), self.batch)
    }
}

impl ResnetSpec {
    /// `resnet50 batch 8`, and the image where it is not 224 pixels wide.
    pub fn label(&self) -> String {
        let image = if self.image == 224 { String::new() } else { format!(" image {}", self.image) };
        format!("resnet{} batch {}{image}", self.depth, self.batch)
    }
}
