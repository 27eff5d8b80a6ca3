//! A trace: its operators with their FLOPs, in file order.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flopgap_flops::torch::OperatorWork;
use flopgap_trace::{ContextId, CorrelationId, DeviceId, Dim3, ExternalId, GraphNodeId, RankGroup, StreamId};

use crate::formula::{FormulaError, Kind};
use crate::{Error, Part};

/// Where an operator's FLOPs come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// The trace holds them.
    Recorded,
    /// The framework's formula over the recorded shapes.
    Formula,
}

/// One call of an operator of the framework.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operator {
    /// Its name: `aten::mm`.
    pub name: Arc<str>,
    /// The part of the training step that it ran in.
    pub part: Part,
    /// Its start on the host, in nanoseconds on the trace's own clock.
    pub start: i64,
    /// Time that the host spent in it, in nanoseconds.
    pub duration: u64,
    /// The thread that ran it: its place in [`Trace::threads`].
    pub thread: u32,
    /// Ties the work of GPUs to it ([`GpuWork::external`]).
    pub external: Option<ExternalId>,
    /// The FLOPs that the framework assigns to it, and where they come from. `None` where it has no
    /// formula, and where the formula lacks a shape (there is a warning then).
    pub flops: Option<(u64, Source)>,
    /// What it needs by its definition; absent where that, or what it was called with, is not
    /// known, and for an operator that leaves the work to others.
    pub work: Option<OperatorWork>,
}

/// A kind of GPU work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum GpuKind {
    /// A kernel.
    Kernel,
    /// A memory copy.
    Copy,
    /// A memset.
    Memset,
}

/// A kernel, copy or memset of the trace. Fields that the trace does not contain are absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuWork {
    /// What it is.
    pub kind: GpuKind,
    /// The kernel's demangled name, or the name of the copy or memset: `Memcpy HtoD (Pageable ->
    /// Device)`.
    pub name: Arc<str>,
    /// When it began, in nanoseconds on the trace's own clock.
    pub start: i64,
    /// How long it ran, in nanoseconds.
    pub duration: u64,
    /// The GPU.
    pub device: Option<DeviceId>,
    /// The CUDA context.
    pub context: Option<ContextId>,
    /// The stream.
    pub stream: Option<StreamId>,
    /// Identifies the call that launched it ([`Call::correlation`]).
    pub correlation: Option<CorrelationId>,
    /// Identifies the innermost operator or annotation around its launch ([`Operator::external`]).
    pub external: Option<ExternalId>,
    /// The node of a CUDA graph that it ran for.
    pub graph_node: Option<GraphNodeId>,
    /// Blocks in x, y, z; of a kernel.
    pub grid: Option<Dim3>,
    /// Threads of a block in x, y, z; of a kernel.
    pub block: Option<Dim3>,
    /// Registers of a thread; of a kernel.
    pub registers: Option<u64>,
    /// Shared memory of a block, in bytes; of a kernel.
    pub shared_bytes: Option<u64>,
    /// Bytes copied or set; of a collective kernel, those of its message.
    pub bytes: Option<u64>,
    /// Bytes of what this rank gives and of what it gets; of a collective kernel.
    pub exchanged: Option<Box<[u64; 2]>>,
    /// The group of ranks that it communicates in; of a collective kernel.
    pub group: Option<Arc<RankGroup>>,
}

/// A call of a GPU's runtime or driver: `cudaLaunchKernel`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The function.
    pub name: Arc<str>,
    /// When it began, in nanoseconds on the trace's own clock.
    pub start: i64,
    /// How long it took, in nanoseconds.
    pub duration: u64,
    /// The thread that called: its place in [`Trace::threads`].
    pub thread: u32,
    /// Ties the work of GPUs to it.
    pub correlation: Option<CorrelationId>,
}

/// What marked a range of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum AnnotationKind {
    /// `record_function`, and the profiler's and optimizer's own: `ProfilerStep#3`,
    /// `Optimizer.step#AdamW.step`.
    User,
    /// A module (`with_modules=True`): `nn.Module: Linear_0`.
    Module,
}

/// A range of the host that a user, the framework or a module marked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Annotation {
    /// What marked it.
    pub kind: AnnotationKind,
    /// Its text.
    pub name: Arc<str>,
    /// When it began, in nanoseconds on the trace's own clock.
    pub start: i64,
    /// How long it lasted, in nanoseconds.
    pub duration: u64,
    /// The thread: its place in [`Trace::threads`].
    pub thread: u32,
    /// Ties the work of GPUs to it ([`GpuWork::external`]).
    pub external: Option<ExternalId>,
}

/// A thread of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// Its process, as the system numbers it; absent where a trace has a text.
    pub process: Option<i64>,
    /// The thread, as the system or the profiler numbers it; absent where a trace has a text.
    pub number: Option<i64>,
    /// What the trace calls it.
    pub name: Option<Arc<str>>,
    /// The thread whose operators it runs backward: its place in [`Trace::threads`]. Known by the
    /// arrows from forward to backward operators, or by their sequence numbers.
    pub backward_of: Option<u32>,
}

/// Which of several processes of a job recorded a trace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Distributed {
    /// Its number, from 0.
    pub rank: Option<u64>,
    /// How many there are.
    pub world_size: Option<u64>,
    /// What they communicate by: `nccl`.
    pub backend: Option<String>,
}

/// A GPU of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Its number, as the process numbers it.
    pub id: Option<DeviceId>,
    /// Its name.
    pub name: Option<String>,
    /// Its multiprocessors.
    pub multiprocessors: Option<u64>,
    /// Its memory, in bytes.
    pub memory_bytes: Option<u64>,
}

/// A problem that did not stop the reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The event, counted from 1 in the list of events; `None` for the trace as a whole.
    pub event: Option<u64>,
    /// The problem.
    pub kind: WarningKind,
}

/// A problem in a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WarningKind {
    /// An event without a start or a duration was skipped.
    NoTimes {
        /// Its name.
        name: String,
    },
    /// The arguments of events are no list of names and values; they count as absent.
    Arguments {
        /// How many events.
        events: u64,
    },
    /// Events with a duration of a category that is not read, such as those of other accelerators.
    Unread {
        /// The category.
        category: String,
        /// How many.
        events: u64,
    },
    /// An operator has no FLOPs because its shapes are missing or contradict each other.
    Uncounted {
        /// Its name.
        operator: String,
        /// What is missing.
        reason: FormulaError,
    },
    /// Further events without a start or a duration, beyond those listed.
    MoreWithoutTimes {
        /// How many more.
        events: u64,
    },
    /// Further operators without FLOPs, beyond those listed.
    MoreUncounted {
        /// How many more.
        operators: u64,
    },
    /// The framework counts an operator that another counted operator calls.
    CountedTwice {
        /// How often.
        calls: usize,
    },
    /// Events that only begin or only end.
    Unpaired {
        /// How many.
        events: u64,
    },
    /// Events of a trace of XLA that are not read: frames of Python, and lines of a device that
    /// repeat its streams, such as `XLA Ops`.
    Repeated {
        /// How many.
        events: u64,
    },
    /// Work of a thread of which nothing says for whom it works counts in the steps during which it
    /// was launched.
    OtherThread {
        /// The thread, as the system or the profiler numbers it.
        thread: Option<i64>,
        /// How many kernels, copies and memsets.
        operations: u64,
    },
    /// Work whose launch was not recorded counts in the step during which it began.
    CountedByTime {
        /// How many kernels, copies and memsets.
        operations: u64,
        /// The sum of their durations.
        nanoseconds: u128,
    },
}

impl WarningKind {
    /// Whether events are lost with it that the trace should have.
    pub fn is_loss(&self) -> bool {
        matches!(
            self,
            WarningKind::NoTimes { .. } | WarningKind::MoreWithoutTimes { .. } | WarningKind::Unpaired { .. }
        )
    }
}

/// `event 17: …`.
impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.event {
            Some(event) => write!(f, "event {event}: {}", self.kind),
            None => self.kind.fmt(f),
        }
    }
}

impl fmt::Display for WarningKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WarningKind::NoTimes { name } => write!(f, "`{name}` has no start or no duration; skipped"),
            WarningKind::Arguments { events } => {
                write!(f, "the arguments of {events} events cannot be read; they count as absent")
            }
            WarningKind::Unread { category, events } if category.is_empty() => {
                write!(f, "{events} events without a category are not read")
            }
            WarningKind::Unpaired { events } => {
                write!(f, "{events} events begin without an end or end without a beginning; skipped")
            }
            WarningKind::Repeated { events } => write!(
                f,
                "a trace of XLA: {events} frames of Python and events that repeat those of streams (such as \
                 `XLA Ops`) are not read"
            ),
            WarningKind::Unread { category, events } => {
                write!(f, "{events} events of the category `{category}` are not read")
            }
            WarningKind::Uncounted { operator, reason } => write!(f, "`{operator}` is not counted: {reason}"),
            WarningKind::MoreWithoutTimes { events } => {
                write!(f, "{events} more events have no start or no duration; skipped")
            }
            WarningKind::MoreUncounted { operators } => {
                write!(f, "{operators} more operators are not counted because shapes are missing")
            }
            WarningKind::CountedTwice { calls } => write!(
                f,
                "the framework counts an operator that another counted operator calls, too ({calls} times)"
            ),
            WarningKind::OtherThread { thread, operations } => {
                let thread =
                    thread.map_or_else(|| "a thread".to_owned(), |thread| format!("thread {thread}"));
                write!(
                    f,
                    "{operations} GPU operations of {thread} count in the steps during which it launched \
                     them; nothing in the trace says for which thread it works"
                )
            }
            WarningKind::CountedByTime { operations, nanoseconds } => write!(
                f,
                "{operations} GPU operations ({:.3} ms) have no recorded launch; they count in the steps \
                 during which they began",
                *nanoseconds as f64 / 1e6
            ),
        }
    }
}

/// All calls of one operator in one part of the step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorTotal {
    /// Its name.
    pub name: Arc<str>,
    /// The part.
    pub part: Part,
    /// What it does; `None` for an operator without a formula.
    pub kind: Option<Kind>,
    /// How often it was called.
    pub calls: u64,
    /// Calls with FLOPs.
    pub counted: u64,
    /// The FLOPs of the calls that have some; `None` when none has.
    pub flops: Option<u64>,
}

/// Who recorded a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Profiler {
    /// `torch.profiler`, and what writes the like.
    #[default]
    Torch,
    /// XLA's, as JAX and `TensorFlow` use it.
    Xla,
}

impl Profiler {
    /// The name used in text.
    pub const fn name(self) -> &'static str {
        match self {
            Profiler::Torch => "torch.profiler",
            Profiler::Xla => "the profiler of XLA (JAX, TensorFlow)",
        }
    }
}

/// Times from here on count from 1970: it is 2001, in nanoseconds. Less is a machine's own clock.
const SINCE_1970: i64 = 1_000_000_000_000_000_000;

/// A trace of `torch.profiler`, or of XLA as far as it says the same.
#[derive(Debug, Clone)]
pub struct Trace {
    pub(crate) path: PathBuf,
    /// Who recorded it.
    pub profiler: Profiler,
    /// The name of the first GPU, where the trace names one.
    pub device: Option<String>,
    /// The GPUs of the machine.
    pub devices: Vec<Device>,
    /// Of a job of several processes, which one this is.
    pub distributed: Option<Distributed>,
    /// What it calls its job, by the keys that schedulers use: `mast_job_name`.
    pub job: BTreeMap<String, String>,
    /// What times count from: 0 of the trace's own clock, in nanoseconds since 1970; 0 where times
    /// do so themselves.
    pub base: i64,
    /// The threads of the host, in the order in which they first occur.
    pub threads: Vec<Thread>,
    /// The operators, in the order of the file (which is not the order in which they ran).
    pub operators: Vec<Operator>,
    /// Kernels, copies and memsets, in the order of the file.
    pub gpu_work: Vec<GpuWork>,
    /// Calls of the GPUs' runtime and driver, in the order of the file.
    pub calls: Vec<Call>,
    /// The ranges that were marked on the host, in the order of the file.
    pub annotations: Vec<Annotation>,
    /// When the profiler itself held up a call: what it says that it did, from when to when.
    pub(crate) overheads: Vec<(Arc<str>, i64, i64)>,
    /// The functions of a user's Python: name, thread, start and duration.
    pub(crate) frames: Vec<(Arc<str>, u32, i64, u64)>,
    /// The most memory of a GPU that the framework's allocator had given out at any time, in bytes;
    /// absent where its changes were not recorded (`profile_memory=True`).
    pub peak_memory: Option<u64>,
    /// Problems found. A warning about an operator's FLOPs means that sums that include it are too
    /// small.
    pub warnings: Vec<Warning>,
}

impl Trace {
    /// The file that it was read from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// When its first event began, in nanoseconds on its own clock; `None` when it has none.
    pub fn begin(&self) -> Option<i64> {
        let starts = [
            self.annotations.iter().map(|range| range.start).min(),
            self.operators.iter().map(|operator| operator.start).min(),
            self.calls.iter().map(|call| call.start).min(),
            self.gpu_work.iter().map(|work| work.start).min(),
        ];
        starts.into_iter().flatten().min()
    }

    /// When its last event ended, in nanoseconds on its own clock; `None` when it has none.
    pub fn end(&self) -> Option<i64> {
        let end = |start: i64, duration: u64| start.saturating_add_unsigned(duration);
        let ends = [
            self.annotations.iter().map(|range| end(range.start, range.duration)).max(),
            self.operators.iter().map(|operator| end(operator.start, operator.duration)).max(),
            self.calls.iter().map(|call| end(call.start, call.duration)).max(),
            self.gpu_work.iter().map(|work| end(work.start, work.duration)).max(),
        ];
        ends.into_iter().flatten().max()
    }

    /// From when to when it was recorded, in nanoseconds since 1970; `None` where its times do not
    /// say so.
    pub fn recorded(&self) -> Option<(i64, i64)> {
        let (start, end) = (self.begin()?.checked_add(self.base)?, self.end()?.checked_add(self.base)?);
        (start >= SINCE_1970).then_some((start, end))
    }

    /// The operators added up by name and part: the ones with the most FLOPs first, then by calls
    /// and name. Like the profiler's own table, it includes operators that other operators call, so
    /// that calls are no measure of time.
    ///
    /// # Errors
    /// [`Error::Overflow`].
    pub fn totals(&self) -> Result<Vec<OperatorTotal>, Error> {
        let mut totals: BTreeMap<(&str, Part), OperatorTotal> = BTreeMap::new();
        for operator in &self.operators {
            let total = totals.entry((&operator.name, operator.part)).or_insert_with(|| OperatorTotal {
                name: Arc::clone(&operator.name),
                part: operator.part,
                kind: Kind::of(&operator.name),
                calls: 0,
                counted: 0,
                flops: None,
            });
            total.calls += 1;
            if let Some((flops, _)) = operator.flops {
                total.counted += 1;
                let sum = total.flops.unwrap_or(0).checked_add(flops);
                total.flops =
                    Some(sum.ok_or_else(|| Error::Overflow { operator: operator.name.to_string() })?);
            }
        }
        let mut totals: Vec<_> = totals.into_values().collect();
        totals.sort_by(|a, b| b.flops.cmp(&a.flops).then(b.calls.cmp(&a.calls)));
        Ok(totals)
    }
}
