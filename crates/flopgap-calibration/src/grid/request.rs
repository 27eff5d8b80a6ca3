//! The request for a sweep.

use std::fmt;
use std::str::FromStr;

use flopgap_flops::Precision;
use flopgap_graph::{Mode, Workload};

use super::scenario::{Caches, Scenario};

/// The default seed of plans.
pub const SEED: u64 = 14;

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Size {
    /// 150 rows of each family.
    Quick,
    /// All rows that accuracy is judged on.
    Full,
}

/// The kind of device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Target {
    /// On CPU cores.
    Cpu,
    /// On an NVIDIA GPU.
    Cuda,
}

/// A kind of workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// Fully connected networks, their layers, and products of matrices, down to empty launches.
    Mlp,
    /// Convolutions and poolings.
    Conv,
    /// Residual networks.
    Resnet,
    /// Functions of each element, softmax, norms, copies.
    Memory,
}

impl Family {
    /// Every family.
    pub const ALL: [Family; 4] = [Family::Mlp, Family::Conv, Family::Resnet, Family::Memory];

    /// The name on command lines.
    pub const fn name(self) -> &'static str {
        match self {
            Family::Mlp => "mlp",
            Family::Conv => "conv",
            Family::Resnet => "resnet",
            Family::Memory => "memory",
        }
    }

    /// The family that a workload belongs to; `None` for a model from a file.
    pub fn of(workload: &Workload) -> Option<Family> {
        use flopgap_graph::Op;
        match workload {
            Workload::Mlp(_) => Some(Family::Mlp),
            Workload::Resnet(_) => Some(Family::Resnet),
            Workload::File(_) => None,
            Workload::Step(step) => Some(match step.op {
                Op::Gemm(_) | Op::Empty => Family::Mlp,
                Op::Conv(_) | Op::Pool(_) => Family::Conv,
                _ => Family::Memory,
            }),
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Family {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Family::ALL.into_iter().find(|family| family.name().eq_ignore_ascii_case(text));
        known.ok_or_else(|| format!("`{text}` is not a family: mlp, conv, resnet, or memory"))
    }
}

/// A request for a sweep of one engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The device.
    pub target: Target,
    /// The amount.
    pub size: Size,
    /// The families; empty: `mlp` in a quick sweep, else all.
    pub families: Vec<Family>,
    /// Numbers of samples; empty: the design's own.
    pub batches: Vec<u64>,
    /// Precisions; empty: fp32 and fp16 in a quick sweep of a GPU, all of them in a full one; fp32
    /// on cores, and int8 in a full sweep.
    pub precisions: Vec<Precision>,
    /// How the engine launches, or those of its modes that are requested.
    pub modes: Vec<Mode>,
    /// Only working sets of this scenario.
    pub scenario: Option<Scenario>,
    /// The caches of the machine.
    pub caches: Caches,
    /// What everything is drawn from.
    pub seed: u64,
}

impl Request {
    /// The families that are measured.
    pub(super) fn families(&self) -> &[Family] {
        match (&self.families[..], self.size) {
            ([], Size::Quick) => &[Family::Mlp],
            ([], Size::Full) => &Family::ALL,
            (asked, _) => asked,
        }
    }

    /// The precisions with their part of the rows in percent; what is requested by name counts
    /// whole. There are few residual networks, and many fully connected ones.
    pub(super) fn precisions(&self, kind: Kind) -> Vec<(Precision, usize)> {
        use Precision::{Bf16, Fp16, Fp32, Int8, Tf32};
        if !self.precisions.is_empty() {
            return self.precisions.iter().map(|&precision| (precision, 100)).collect();
        }
        match (self.target, self.size, kind) {
            (Target::Cpu, Size::Quick, _) => vec![(Fp32, 100)],
            (Target::Cpu, Size::Full, Kind::Resnet) => vec![(Fp32, 100), (Int8, 100)],
            (Target::Cpu, Size::Full, _) => vec![(Fp32, 100), (Int8, 50)],
            (Target::Cuda, Size::Quick, _) => vec![(Fp32, 100), (Fp16, 100)],
            (Target::Cuda, Size::Full, Kind::Step | Kind::Memory) => {
                vec![(Fp32, 100), (Fp16, 100), (Int8, 50), (Tf32, 20), (Bf16, 20)]
            }
            (Target::Cuda, Size::Full, Kind::Network) => {
                vec![(Fp32, 100), (Fp16, 35), (Int8, 15), (Tf32, 6), (Bf16, 6)]
            }
            (Target::Cuda, Size::Full, Kind::Resnet) => {
                vec![(Fp32, 100), (Fp16, 100), (Int8, 100), (Tf32, 40), (Bf16, 40)]
            }
        }
    }

    /// The mode that steps are measured in, and the others, in which a few are: launches cost what
    /// they cost, whatever they launch.
    pub(super) fn modes(&self) -> Option<(Mode, Vec<Mode>)> {
        let order = [Mode::Graph, Mode::Call, Mode::Stream];
        let mut modes = order.into_iter().filter(|mode| self.modes.contains(mode));
        let first = modes.next()?;
        Some((first, modes.collect()))
    }

    /// Multiply-adds of a workload at most. Networks may take more than steps, since there are few.
    pub(super) fn most_multiply_adds(&self, precision: Precision, network: bool) -> u64 {
        let octave = match (self.target, self.size, precision, network) {
            (Target::Cuda, _, Precision::Fp32, false) => 37,
            (Target::Cuda, ..) => 39,
            (Target::Cpu, Size::Quick, ..) => 27,
            (Target::Cpu, Size::Full, _, false) => 32,
            (Target::Cpu, Size::Full, _, true) => 35,
        };
        1 << octave
    }

    /// Bytes that a workload's working set takes at most.
    pub(super) fn most_bytes(&self) -> u64 {
        let octave = match (self.target, self.size) {
            (Target::Cuda, _) => 32,
            (Target::Cpu, Size::Full) => 30,
            // A scenario that spills from a large cache needs its memory, also in a quick sweep.
            (Target::Cpu, Size::Quick) if self.scenario.is_some() => 30,
            (Target::Cpu, Size::Quick) => 27,
        };
        1 << octave
    }
}

/// What rows are shared out by.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A step with a product or convolution, or nothing at all.
    Step,
    /// A step that memory decides.
    Memory,
    /// A network of fully connected layers.
    Network,
    /// A residual network.
    Resnet,
}
