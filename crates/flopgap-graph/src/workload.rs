//! The workloads of a sweep.

use serde::{Deserialize, Serialize};

use crate::error::GraphError;
use crate::family;
use crate::family::spec::{MlpSpec, ResnetSpec};
use crate::graph::Graph;
use crate::plan::plan;
use crate::step::Step;

/// A workload: a single step, a network of a family, or a file's model.
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

impl Workload {
    /// The layers and tensors of a step, an MLP or a residual network, in 32-bit floats; an engine
    /// that computes in another precision stores them in its own way.
    ///
    /// ```
    /// use flopgap_graph::{ResnetSpec, Workload};
    ///
    /// let graph = Workload::Resnet(ResnetSpec { depth: 50, batch: 1, image: 224 }).graph()?;
    /// assert_eq!(graph.multiply_adds()?, 4_089_184_256);
    /// # Ok::<(), flopgap_graph::GraphError>(())
    /// ```
    ///
    /// # Errors
    /// [`GraphError::Workload`] and [`GraphError::Count`] for sizes that describe no network; the
    /// graph of a [`Workload::File`] is in its file.
    pub fn graph(&self) -> Result<Graph, GraphError> {
        match self {
            Workload::Step(step) => family::single(step),
            Workload::Mlp(spec) => family::mlp(spec),
            Workload::Resnet(spec) => family::resnet(spec),
            Workload::File(spec) => Err(GraphError::Workload {
                what: self.label(),
                reason: format!("its graph is in the file with SHA-256 {}", spec.sha256),
            }),
        }
    }

    /// What an engine runs, in order: those of [`plan`] for a network, the step itself for a step.
    ///
    /// # Errors
    /// As [`graph`](Self::graph).
    pub fn steps(&self) -> Result<Vec<Step>, GraphError> {
        match self {
            Workload::Step(step) => Ok(vec![step.clone()]),
            Workload::File(spec) => Ok(spec.steps.clone()),
            Workload::Mlp(_) | Workload::Resnet(_) => {
                Ok(plan(&self.graph()?)?.into_iter().map(|planned| planned.step).collect())
            }
        }
    }

    /// A short description: `gemm 32x512x1024 +bias`, `mlp 784-512-10 batch 32`, `resnet50 batch
    /// 8`.
    pub fn label(&self) -> String {
        match self {
            Workload::Step(step) => step.label(),
            Workload::Mlp(spec) => spec.label(),
            Workload::Resnet(spec) => spec.label(),
            Workload::File(spec) => format!("{} batch {}", spec.name, spec.batch),
        }
    }

    /// What kind of workload it is: the operation's name for a step (`gemm`, `conv`, `elementwise`,
    /// `empty`), else `mlp`, `resnet`, `file`.
    pub fn family(&self) -> &str {
        match self {
            Workload::Step(step) => step.op.name(),
            Workload::Mlp(_) => "mlp",
            Workload::Resnet(_) => "resnet",
            Workload::File(_) => "file",
        }
    }

    /// Samples of a call; of a step the rows of its product or the samples of its convolution,
    /// where it has such.
    pub fn batch(&self) -> Option<u64> {
        match self {
            Workload::Step(step) => match &step.op {
                crate::Op::Gemm(gemm) => Some(gemm.m),
                crate::Op::Conv(conv) => Some(conv.batch),
                _ => None,
            },
            Workload::Mlp(spec) => Some(spec.batch),
            Workload::Resnet(spec) => Some(spec.batch),
            Workload::File(spec) => Some(spec.batch),
        }
    }
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

/// The launch mode.
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
