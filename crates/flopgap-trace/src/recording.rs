//! What every profiler's recording answers.

use std::error::Error;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use flopgap_files::{ErrorKind, Hint, Text};
use flopgap_flops::torch::{Marker, OperatorWork};

use crate::{
    Attribution, CorrelationId, DeviceId, GpuActivity, GpuId, Launched, Name, OperationTimes, ProcessId,
    RangeName, Ranges, StreamId, ThreadId, Work,
};

/// What a profiler recorded, whichever it was: what questions about time are asked of.
///
/// Times are nanoseconds since the recording began. What a recording lacks is an error that says so
/// ([`Hint::is_absence`]), and never an empty answer.
pub trait Recording: Send + Sync {
    /// The file, or the first of several.
    fn path(&self) -> &Path;

    /// The ranges that were marked on the host.
    ///
    /// # Errors
    /// An absence when none were marked; what keeps them from being read.
    fn ranges(&self) -> Result<Arc<Ranges>, ReadError>;

    /// All GPU work with the ranges around its launches.
    ///
    /// # Errors
    /// An absence without ranges, calls or GPU work; what keeps them from being read.
    fn launched(&self, attribution: Attribution) -> Result<Arc<Launched>, ReadError>;

    /// The durations of all GPU operations, or of those launched within some ranges, which are
    /// named by their places in [`Recording::ranges`]. An operation counts once however many of
    /// them contain its launch.
    ///
    /// # Errors
    /// As [`Recording::launched`].
    ///
    /// # Panics
    /// If a place is not that of a range.
    fn operation_times(
        &self,
        within: Option<&[usize]>,
        attribution: Attribution,
    ) -> Result<OperationTimes, ReadError>;

    /// What each GPU did for each process, by process and GPU.
    ///
    /// # Errors
    /// An absence without any GPU work; what keeps it from being read.
    fn gpu_activity(&self, attribution: Attribution) -> Result<Vec<GpuActivity>, ReadError>;

    /// Calls `visit` with every kernel, copy and memset, and on request every graph that was traced
    /// as a whole.
    ///
    /// # Errors
    /// An absence without any GPU work; what keeps it from being read.
    fn each_operation(
        &self,
        whole_graphs: bool,
        visit: &mut dyn FnMut(&Operation<'_>),
    ) -> Result<(), ReadError>;

    /// Calls `visit` with every call of a GPU's runtime or driver whose name is `wanted`.
    ///
    /// # Errors
    /// An absence when calls were not recorded; what keeps them from being read.
    fn each_call(
        &self,
        wanted: &dyn Fn(&str) -> bool,
        visit: &mut dyn FnMut(&ApiCall<'_>),
    ) -> Result<(), ReadError>;

    /// Calls `visit` with every copy; with none where none was recorded.
    ///
    /// # Errors
    /// What keeps them from being read.
    fn each_copy(&self, visit: &mut dyn FnMut(&Copied)) -> Result<(), ReadError>;

    /// When the profiler itself held threads up, by start; empty where that was not recorded.
    ///
    /// # Errors
    /// What keeps it from being read.
    fn overheads(&self) -> Result<Vec<Overhead>, ReadError> {
        Ok(Vec::new())
    }

    /// The functions of a user's Python that ran, by thread; empty where no stack was recorded.
    ///
    /// # Errors
    /// What keeps them from being read.
    fn frames(&self) -> Result<Vec<Frame>, ReadError> {
        Ok(Vec::new())
    }

    /// How fast the clocks of GPUs ran, by time; empty where that was not sampled.
    ///
    /// # Errors
    /// What keeps it from being read.
    fn clock_samples(&self) -> Result<Vec<ClockSample>, ReadError> {
        Ok(Vec::new())
    }

    /// The highest clock of each GPU that is listed with it, in hertz.
    ///
    /// # Errors
    /// What keeps it from being read.
    fn highest_clocks(&self) -> Result<Vec<(GpuId, i64)>, ReadError> {
        Ok(Vec::new())
    }

    /// What was counted of kernels: [`Operation::counted`] is a place in it. Empty where nothing
    /// was.
    ///
    /// # Errors
    /// What keeps it from being read.
    fn counted(&self) -> Result<Vec<CountedKernel>, ReadError> {
        Ok(Vec::new())
    }

    /// How active units of GPUs were, by time; empty where that was not sampled.
    ///
    /// # Errors
    /// What keeps it from being read.
    fn activity_samples(&self) -> Result<Vec<ActivitySample>, ReadError> {
        Ok(Vec::new())
    }

    /// What was counted of whole steps, each process's own. Empty where nothing was.
    ///
    /// # Errors
    /// What keeps it from being read.
    fn counted_steps(&self) -> Result<Vec<CountedStep>, ReadError> {
        Ok(Vec::new())
    }

    /// The most memory of a GPU that a framework's allocator had given out to one process at any
    /// time, in bytes; absent where that was not recorded of every process.
    fn peak_memory(&self) -> Option<u64> {
        None
    }

    /// From when to when it was recorded, where that is known.
    ///
    /// # Errors
    /// What keeps it from being read.
    fn span(&self) -> Result<Option<(i64, i64)>, ReadError>;

    /// The GPUs of each process as the machine numbers them; empty where that is not recorded.
    ///
    /// # Errors
    /// What keeps them from being read.
    fn gpu_numbers(&self) -> Result<Vec<GpuNumber>, ReadError>;

    /// What the GPUs that worked are called, such as `NVIDIA H200`, each kind once, in order; empty
    /// where that is not recorded.
    ///
    /// # Errors
    /// What keeps them from being read.
    fn gpu_names(&self) -> Result<Vec<String>, ReadError>;

    /// What operators need by their definitions, by their places in [`Recording::ranges`]; empty
    /// where nothing was recorded of what they were called with. None of them is a part of another
    /// one's name alone: operators that only call others have no work themselves. By default what
    /// names of ranges say, as `PyTorch` marks operators with their sizes.
    ///
    /// # Errors
    /// What keeps it from being read.
    fn operator_work(&self) -> Result<Arc<[(usize, OperatorWork)]>, ReadError> {
        let ranges = self.ranges()?;
        let work = |(_, name): (Name, &RangeName)| Marker::parse(&name.text)?.work();
        let by_name: Vec<Option<OperatorWork>> = ranges.names.iter().map(work).collect();
        let own = ranges.ranges.iter().enumerate();
        Ok(own.filter_map(|(at, range)| Some((at, by_name[range.name.index()]?))).collect())
    }

    /// The ranks of the processes of a job; empty where there is one process or the recording does
    /// not say it.
    fn ranks(&self) -> Vec<(ProcessId, u64)> {
        Vec::new()
    }

    /// How several recordings were put together that know nothing of each other; absent where there
    /// is one, or where they say of which ranks of which job they are.
    fn joined(&self) -> Option<Joined> {
        None
    }

    /// Whether the recording shows that all of it is of one machine.
    fn is_one_machine(&self) -> bool {
        true
    }

    /// Of which of several recordings a process is that were put together, from 0: each has a clock
    /// of its own. All are of 0 where there is one.
    fn part(&self, process: ProcessId) -> usize {
        let _ = process;
        0
    }

    /// By how much the clocks of its recordings were corrected; empty where none was.
    fn corrections(&self) -> &[ClockCorrection] {
        &[]
    }

    /// How many ranks the job has, recorded or not, where the recording says it.
    fn world_size(&self) -> Option<u64> {
        None
    }
}

/// The name that all have; none where two differ, one has none, or there is nothing.
pub fn common_name<'a>(mut names: impl Iterator<Item = Option<&'a str>>) -> Option<&'a str> {
    let first = names.next()??;
    names.all(|name| name == Some(first)).then_some(first)
}

/// A call of a GPU's runtime or driver.
#[derive(Clone, Copy, Debug)]
pub struct ApiCall<'a> {
    /// The calling thread.
    pub thread: ThreadId,
    /// When it began, in nanoseconds since the recording began.
    pub start: i64,
    /// When it returned.
    pub end: i64,
    /// Its name as it was recorded.
    pub name: &'a str,
    /// Ties it to the GPU work that it launched, within its process.
    pub correlation: Option<CorrelationId>,
}

/// By how much the times of a recording were moved, so that it and others have one clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockCorrection {
    /// Which recording ([`Recording::part`]).
    pub part: usize,
    /// What was added to its times, in nanoseconds, beside what moves all recordings alike.
    pub ns: i64,
    /// By how much its clock may still differ from that of the first recording, in nanoseconds.
    pub within_ns: i64,
    /// How many collectives say so.
    pub collectives: u64,
}

/// Recordings that were put together by when each began in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joined {
    /// How many.
    pub recordings: u64,
    /// Whether some time is in the GPU work of all of them.
    pub at_same_time: bool,
    /// Whether they are of one machine, and so by one clock, as far as is known.
    pub one_machine: bool,
}

/// Time that a profiler took for its own work: to request and flush buffers, to instrument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overhead {
    /// When it began, in nanoseconds since the recording began.
    pub start: i64,
    /// When it ended.
    pub end: i64,
    /// The process.
    pub process: ProcessId,
    /// The thread that it held up; absent where it is only known that one was in a call meanwhile.
    pub thread: Option<ThreadId>,
    /// What the profiler calls it.
    pub name: Arc<str>,
}

/// What counters say of kernels that are alike: each launch of them has as much.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountedKernel {
    /// Operations by type.
    pub operations: Vec<CountedOperations>,
    /// All floating-point operations, at least and at most: both are equal where counts repeat.
    /// Absent where not all types were counted.
    pub flops: Option<[u64; 2]>,
    /// Bytes that the memory of the GPU read and wrote, on average.
    pub dram_bytes: Option<u64>,
}

/// What counters say of ranges of a name, each counted as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedStep {
    /// The process.
    pub process: ProcessId,
    /// The name; with a star at its end, names may go on.
    pub range: String,
    /// How many ranges the rarest of the counters counted.
    pub times: u64,
    /// What one executes.
    pub counts: CountedKernel,
}

impl CountedStep {
    /// Whether a range of this name is one.
    pub fn is_named(&self, name: &str) -> bool {
        self.range.strip_suffix('*').map_or(self.range == name, |begin| name.starts_with(begin))
    }
}

/// Operations of one type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedOperations {
    /// The type, with the word `tensor` where the tensor cores executed them: `tensor bf16`,
    /// `fp32`.
    pub kind: Arc<str>,
    /// At least so many.
    pub least: u64,
    /// At most so many.
    pub most: u64,
}

/// How fast the clock of a GPU's multiprocessors ran at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockSample {
    /// When it was sampled, in nanoseconds since the recording began.
    pub time: i64,
    /// The GPU, as the machine numbers it.
    pub gpu: GpuId,
    /// Hertz.
    pub hertz: i64,
}

/// How active a unit of a GPU was between two times, whatever ran on the GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct ActivitySample {
    /// When it began, in nanoseconds since the recording began.
    pub start: i64,
    /// When it ended.
    pub end: i64,
    /// The GPU, as the machine numbers it.
    pub gpu: GpuId,
    /// The unit, by the name of its metric: `ANY_TENSOR_UTIL`.
    pub metric: Arc<str>,
    /// The mean, from 0 to 100.
    pub percent: f64,
}

/// A call of a function of Python.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The thread that ran it.
    pub thread: ThreadId,
    /// When it began, in nanoseconds since the recording began.
    pub start: i64,
    /// When it returned.
    pub end: i64,
    /// The file, a line and the function, as the profiler has it: `train.py(34): step`.
    pub name: Arc<str>,
}

/// A copy, and between which memories it moved data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// When and where it ran.
    pub work: Work,
    /// The memory of the source.
    pub from: Memory,
    /// The memory of the destination.
    pub to: Memory,
    /// How much was copied; absent where it is not recorded.
    pub bytes: Option<i64>,
}

/// A kind of memory, as far as it decides whether a copy blocks its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Of a GPU.
    Device,
    /// Of the host, which the system may page out.
    Pageable,
    /// Of the host, locked.
    Pinned,
    /// Of the host, and it is not recorded which.
    Host,
    /// Anything else, such as managed memory, or not recorded.
    Unknown,
}

/// What a kernel that communicates does, and the group of ranks that it does it in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RankGroup {
    /// Its name in the job; groups of the same ranks may have several.
    pub name: Arc<str>,
    /// Its ranks; empty where they are not recorded completely.
    pub ranks: Vec<u64>,
    /// What is done in it, as the framework calls it: `allreduce`; empty where it is not recorded.
    pub collective: Arc<str>,
}

/// A GPU by the number that a process gives it, and by that of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuNumber {
    /// The process id.
    pub pid: i64,
    /// The number that the process gives it.
    pub device: DeviceId,
    /// The number that the machine gives it.
    pub gpu: GpuId,
}

/// A piece of GPU work with its name.
#[derive(Clone, Copy, Debug)]
pub struct Operation<'a> {
    /// When and where it ran.
    pub work: Work,
    /// The stream.
    pub stream: StreamId,
    /// Stands for the name: that of a kernel differs from those of others.
    pub name_id: i64,
    /// The demangled name of a kernel, `[CUDA graph N]` for a graph, the direction of a copy.
    pub name: &'a str,
    /// How much was copied or set; of a collective kernel, the size of its message: what all ranks
    /// give together, or what each gets, whichever is whole.
    pub bytes: Option<i64>,
    /// Of a collective kernel, how many bytes its rank gives and gets, what it keeps for itself
    /// included; absent where it is not recorded.
    pub exchanged: Option<[u64; 2]>,
    /// The group of ranks of a collective; absent where it is not recorded.
    pub group: Option<&'a RankGroup>,
    /// What was counted of a kernel: a place in [`Recording::counted`].
    pub counted: Option<u32>,
}

/// Why a recording could not be read, as its reader says it.
#[derive(Debug)]
pub struct ReadError(Box<dyn Hint + Send + Sync>);

impl ReadError {
    /// The error of a reader.
    pub fn new(error: impl Hint + Send + Sync + 'static) -> ReadError {
        ReadError(Box::new(error))
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for ReadError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

impl Hint for ReadError {
    fn hint(&self) -> Option<Text<'_>> {
        self.0.hint()
    }

    fn kind(&self) -> ErrorKind {
        self.0.kind()
    }
}
