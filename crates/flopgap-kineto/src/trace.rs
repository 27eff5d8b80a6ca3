//! A trace: its operators with their FLOPs, in file order.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
    /// The FLOPs that the framework assigns to it, and where they come from. `None` where it has no
    /// formula, and where the formula lacks a shape (there is a warning then).
    pub flops: Option<(u64, Source)>,
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
    pub device: Option<i64>,
    /// The CUDA context.
    pub context: Option<i64>,
    /// The stream.
    pub stream: Option<i64>,
    /// Identifies the call that launched it.
    pub correlation: Option<i64>,
    /// Blocks in x, y, z; of a kernel.
    pub grid: Option<[u64; 3]>,
    /// Threads of a block in x, y, z; of a kernel.
    pub block: Option<[u64; 3]>,
    /// Registers of a thread; of a kernel.
    pub registers: Option<u64>,
    /// Shared memory of a block, in bytes; of a kernel.
    pub shared_bytes: Option<u64>,
    /// Bytes copied or set.
    pub bytes: Option<u64>,
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

/// A trace of `torch.profiler`.
#[derive(Debug, Clone)]
pub struct Trace {
    pub(crate) path: PathBuf,
    /// The name of the first GPU, where the trace names one.
    pub device: Option<String>,
    /// The operators, in the order of the file (which is not the order in which they ran).
    pub operators: Vec<Operator>,
    /// Kernels, copies and memsets, in the order of the file.
    pub gpu_work: Vec<GpuWork>,
    /// Problems found. A warning about an operator's FLOPs means that sums that include it are too
    /// small.
    pub warnings: Vec<Warning>,
}

impl Trace {
    /// The file that it was read from.
    pub fn path(&self) -> &Path {
        &self.path
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
