//! Pieces of GPU work.

use crate::{CorrelationId, DeviceId, ProcessId};

/// The kind of a piece of GPU work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkKind {
    /// A kernel.
    Kernel,
    /// A memory copy.
    Copy,
    /// A memset.
    Set,
    /// A CUDA graph that was traced as a whole.
    Graph,
}

impl WorkKind {
    /// The kinds of GPU work; whole graphs on request.
    pub fn all(whole_graphs: bool) -> &'static [WorkKind] {
        const ALL: &[WorkKind] = &[WorkKind::Kernel, WorkKind::Copy, WorkKind::Set, WorkKind::Graph];
        if whole_graphs { ALL } else { &ALL[..3] }
    }
}

/// What all GPU work has in common. Times are nanoseconds since the recording began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// What it is.
    pub kind: WorkKind,
    /// When it began.
    pub start: i64,
    /// When it ended.
    pub end: i64,
    /// The GPU, as the process numbers it.
    pub device: DeviceId,
    /// The process; absent where a recording does not say it.
    pub process: Option<ProcessId>,
    /// Identifies the call that launched it, within its process.
    pub correlation: Option<CorrelationId>,
}

impl Work {
    /// From start to end, in nanoseconds.
    #[inline]
    pub fn duration(&self) -> i64 {
        self.end.saturating_sub(self.start)
    }
}
