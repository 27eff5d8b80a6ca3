//! Which steps a trace has, and from when to when each lasts on a GPU.

mod forwards;
mod found;
mod windows;

use flopgap_trace::{ProcessId, ThreadId};
use serde::{Deserialize, Serialize};

pub(crate) use self::found::ByRanges;
pub(crate) use self::windows::{Window, windows};
use crate::operation::Lane;

/// How the steps were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FoundBy {
    /// Ranges mark them.
    Marked,
    /// From each fetch of a batch by PyTorch's `DataLoader` to the next.
    DataLoader,
    /// From the end of each step of an optimizer to that of the next.
    Optimizer,
    /// From the first attention of each forward pass of a language model to that of the next, which
    /// sees one key more.
    GrowingCache,
    /// From each launch of a CUDA graph to the next: the graph is replayed at least three times.
    GraphReplays,
    /// The same kernels run in the same order at least three times.
    RepeatedKernels,
    /// There are none: the whole recording is taken apart as one.
    None,
}

/// The clock by which steps begin and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clock {
    /// Of the host: from the beginning to the end of the range, or of what stands for it.
    Host,
    /// Of the GPU: from the end of the last work of the step before to the end of its own. The host
    /// is so far ahead that more than a tenth of the work runs after the range that launched it.
    Gpu,
}

/// A step on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostStep {
    pub(crate) name: String,
    pub(crate) process: Option<ProcessId>,
    /// The thread that marked it.
    pub(crate) thread: Option<ThreadId>,
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) warm_up: bool,
}

impl HostStep {
    /// Whether the work of a lane may be its own: that of its process, where both are recorded.
    pub(crate) fn is_of(&self, lane: &Lane) -> bool {
        lane.process.is_none() || self.process.is_none() || self.process == lane.process
    }
}

/// All steps.
#[derive(Clone, Debug)]
pub(crate) struct HostSteps {
    pub(crate) found: FoundBy,
    /// The folded name of the steps.
    pub(crate) name: String,
    /// By start.
    pub(crate) steps: Vec<HostStep>,
}
