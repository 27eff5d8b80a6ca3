//! A step and its parts, as answers have them.

use flopgap_trace::GpuId;
use serde::{Deserialize, Serialize};

use crate::cause::{Cause, Limit, Part};
use crate::steps::Clock;

/// A step of one process on one GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// As it is marked; `after NAME` for the time until the next.
    pub name: String,
    /// The rank of the process in its job, where the recording says it.
    pub rank: Option<u64>,
    /// The process id, where the recording says it.
    pub process: Option<i64>,
    /// The GPU as the machine numbers it, or where that is not recorded, as its process does.
    pub gpu: Option<GpuId>,
    /// When it began, in nanoseconds since the recording began.
    pub start_ns: i64,
    /// How long it lasted: the sum of its parts.
    pub wall_ns: i64,
    /// By which clock it begins and ends.
    pub clock: Clock,
    /// Whether it is left out of sums, as warm-up.
    pub warm_up: bool,
    /// Its parts by cause, none of them 0.
    pub parts: Vec<Share>,
}

/// A part of a step, or of several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Busy, exposed or idle.
    pub part: Part,
    /// On what.
    pub cause: Cause,
    /// The group of the cause.
    pub limit: Limit,
    /// Nanoseconds.
    pub ns: i64,
    /// In how many pieces.
    pub pieces: u64,
    /// What it consists of, largest first; only in sums.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<Detail>,
}

/// What a part consists of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Detail {
    /// The kernel, copy or call; absent where none was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub what: Option<String>,
    /// The operator, module or range around its launch, with numbers folded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The innermost function of a user's Python, as the profiler has it: `train.py(34): step`. Of
    /// idle time that in which the host was late, of nodes of CUDA graphs that which was captured;
    /// absent elsewhere, and where no stack was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Nanoseconds.
    pub ns: i64,
    /// In how many pieces.
    pub pieces: u64,
}
