//! What was measured on a GPU: where, what is paid beside the kernels, how far estimates were off.

use serde::{Deserialize, Serialize};

use super::call::{Arithmetic, Kind, Phase};

/// What the GPU can do at most, by its data sheet.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Peaks {
    /// Bytes per second of the memory.
    pub bytes_per_second: f64,
    /// FLOP/s in fp32, without tensor cores.
    pub fp32: f64,
    /// Dense FLOP/s in TF32.
    pub tf32: f64,
    /// Dense FLOP/s in 16 bits.
    pub half: f64,
    /// Multiprocessors, by which tiles are divided into waves.
    pub units: f64,
}

/// Nanoseconds beside the kernels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// Between two nodes of a graph.
    pub node: f64,
    /// Of a replay.
    pub replay: f64,
    /// Of the host for an operator that computes; of training, with its backward.
    pub operator: f64,
    /// Of the host for a view, forward or backward.
    pub view: f64,
    /// Of the host for a module; 0 of training.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub module: f64,
    /// Of the host for a kernel.
    pub launch: f64,
    /// Of the host for a norm, beside what every operator takes; 0 of training.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub norm: f64,
    /// The same for attention in one kernel, forward or backward.
    pub attention: f64,
    /// The same for a recurrent layer, forward or backward; 0 of inference.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub recurrent: f64,
    /// Of the host for a tensor that the optimizer changes, and for its gradient; 0 of inference.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tensor: f64,
    /// Of the host for a step, whatever is in it; 0 of inference.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub step: f64,
}

impl Costs {
    /// What the host takes for a call of a kind, beside what every operator takes.
    pub(super) const fn of_kind(&self, kind: Kind) -> f64 {
        match kind {
            Kind::Norm => self.norm,
            Kind::FusedAttention => self.attention,
            Kind::Recurrent => self.recurrent,
            _ => 0.0,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(cost: &f64) -> bool {
    *cost == 0.0
}

/// Errors on models of architectures that were left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Errors {
    /// Runs: models, each in several precisions. 0 of steps that no one timed on this GPU: their
    /// intervals are those of another one.
    pub runs: usize,
    /// Mean relative error.
    pub mape: f64,
    /// Median relative error.
    pub median: f64,
    /// The error that a tenth exceeds.
    pub p90: f64,
    /// The share within intervals of 90 %, whose widths come from other architectures.
    pub coverage: f64,
    /// The 5th and 95th percentile of ln(measured / estimated) where the GPU decides, in
    /// [deviations](super::Estimate::deviation) of the estimate.
    pub tails: [f64; 2],
    /// The same where steps wait for their host, plain, with how far hosts of one kind are apart; 0
    /// of graphs.
    #[serde(default)]
    pub waits: [f64; 2],
}

/// What was measured, where.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// The GPU as the driver calls it.
    pub device: String,
    /// `PyTorch 2.11.0, cuDNN 9.19`.
    pub software: String,
    /// The host that launched.
    pub host: String,
    /// Bytes of the GPU's memory.
    pub memory_bytes: u64,
    /// Peaks of the GPU.
    pub peaks: Peaks,
    /// What is paid beside the kernels.
    pub costs: Costs,
    /// Models that were measured.
    pub models: usize,
    /// Errors of whole models, in eager mode and as a graph.
    pub eager: Errors,
    /// See `eager`.
    pub graph: Errors,
    /// What `torch.compile` takes, where that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compiled: Option<Compilation>,
    /// How wide intervals of calls are, by table.
    pub reaches: Vec<Reach>,
}

/// What `torch.compile` takes beside the calls that are in the tables.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Compilation {
    /// Nanoseconds of the host for a step: guards, and what is around the kernels.
    pub step: f64,
    /// Nanoseconds of the host for a kernel.
    pub launch: f64,
    /// Nanoseconds of the host for a module.
    pub module: f64,
    /// Errors of whole models in the default mode.
    pub launched: Errors,
    /// Errors of whole models as a graph.
    pub graph: Errors,
}

/// How wide the intervals of a table are.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Reach {
    /// The table.
    pub kind: Kind,
    /// See `kind`.
    #[serde(default, skip_serializing_if = "Phase::is_forward")]
    pub phase: Phase,
    /// See `kind`.
    pub arithmetic: Arithmetic,
    /// Standard deviations of an estimate within which nine tenths of the calls of architectures
    /// that were left out are.
    pub reach: f64,
}
