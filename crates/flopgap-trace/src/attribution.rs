//! How GPU work is attributed to the ranges of the host, and what a range or a GPU then did.

use crate::{DeviceId, ProcessId};

/// How GPU work is attributed to NVTX ranges.
///
/// The default is nsys's: a kernel, copy or memset belongs to every range that contains the whole
/// call that launched it, on the thread that made the call. Ranges that end on another thread than
/// they began on own nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attribution {
    /// The rule that attributes GPU work to ranges.
    pub by: AttributeBy,
    /// Whether CUDA graphs that were traced as a whole (`--cuda-graph-trace=graph`, nsys's default)
    /// count as GPU work. nsys shows them in no report. Each launch of a graph is then one
    /// operation, and one kernel called `[CUDA graph N]`, N being its id.
    pub whole_graphs: bool,
}

/// Where the ranges come from that own a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum AttributeBy {
    /// From the launching thread, as in nsys.
    #[default]
    Thread,
    /// From the launching thread; if none of its ranges contains the launch, from the main thread
    /// of the process.
    ///
    /// So the backward pass of PyTorch, which its autograd thread launches, belongs to the range in
    /// which the main thread waits for it. The main thread is the one with the number of the
    /// process; when that has no range, the one with the most.
    Process,
}

/// The GPU work launched within one instance of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuWork {
    /// When the first of it began, in nanoseconds since the recording began.
    pub start: i64,
    /// When the last of it ended.
    pub end: i64,
    /// How long any of it was running, in nanoseconds: what runs at the same time on one device
    /// counts once. With work on several devices this is the sum over them.
    pub busy: i64,
    /// From the first of it to the last, in nanoseconds: on one device `end - start`, on several
    /// the sum over them.
    pub extent: i64,
    /// The sum of all durations, in nanoseconds.
    pub total: i128,
    /// How many kernels ran; graphs that were traced as a whole do not count.
    pub kernels: u64,
    /// How many calls launched it, nsys's `GPU Ops`: the launch of a graph is one, however many
    /// nodes it has.
    pub operations: u64,
}

/// The work of one GPU for one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuActivity {
    /// The process; absent in trimmed exports.
    pub process: Option<ProcessId>,
    /// Which GPU, as the process numbers them.
    pub device: DeviceId,
    /// When the first work began, in nanoseconds since the recording began.
    pub start: i64,
    /// When the last work ended.
    pub end: i64,
    /// How long any work was running, in nanoseconds; what runs at the same time counts once.
    pub busy: i64,
    /// How many kernels ran.
    pub kernels: u64,
    /// The sum of their durations, in nanoseconds.
    pub kernel_time: i128,
    /// How many copies ran.
    pub copies: u64,
    /// The sum of their durations, in nanoseconds.
    pub copy_time: i128,
    /// How many memsets ran.
    pub sets: u64,
    /// The sum of their durations, in nanoseconds.
    pub set_time: i128,
    /// How many graphs that were traced as a whole ran; 0 unless [`Attribution::whole_graphs`].
    pub graphs: u64,
    /// The sum of their durations, in nanoseconds.
    pub graph_time: i128,
}
