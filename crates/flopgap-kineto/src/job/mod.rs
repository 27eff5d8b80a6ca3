//! The traces of a job, one for each of its processes, as one recording.

mod alike;
mod collect;
mod passes;
mod steps;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use flopgap_flops::torch::OperatorWork;
use flopgap_trace::{
    Activities, ApiCall, AttributeBy, Attribution, ClockCorrection, Copied, CorrelationId, DeviceId, Frame,
    GpuActivity, GpuNumber, Interval, Kinds, LaunchCalls, Launched, Memory, Nesting, Operation,
    OperationSums, OperationTimes, Overhead, Owners, OwnersByThread, ProcessId, Ranges, RankGroup, ReadError,
    Recording, StreamId, Summary, ThreadId, Values, Work, WorkKind, common_name,
};
use rustc_hash::FxHashMap;

use crate::{Device, Distributed, Error, Profiler, Trace, Warning, WarningKind};

/// The traces of a job, one for each of its processes, as one recording; of one process, one trace.
///
/// Times count from the first event of all traces: by the clocks of their machines, where traces
/// say what their own clocks count from.
///
/// - Ranges are annotations, operators, and the forward and backward passes that the operators make
///   ([`RangeStyle::Derived`](flopgap_trace::RangeStyle::Derived)).
/// - Work that a thread launches while it runs another thread's operators backward belongs to the
///   ranges of both ([`AttributeBy::Process`]), or to its own alone ([`AttributeBy::Thread`]).
/// - Work of any other thread of the process belongs to the annotations, such as steps, during
///   which it is launched, too ([`AttributeBy::Process`]), unless that thread marks the like
///   itself.
/// - Where a call was not recorded, the operator or annotation that the work names stands for it,
///   or else the step of the profiler during which the work began.
///
/// ```
/// use flopgap_kineto::Job;
/// use flopgap_trace::{Attribution, Recording as _};
///
/// let json = br#"[
///     {"ph":"X","cat":"user_annotation","name":"step","pid":1,"tid":1,"ts":0,"dur":9},
///     {"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":1,"dur":2,
///      "args":{"correlation":5}},
///     {"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":4,"dur":3,
///      "args":{"correlation":5}}]"#;
/// let trace = flopgap_kineto::Trace::options().without_shapes(true).read(&json[..], "t.json")?;
/// let job = Job::of(vec![trace])?;
/// let work = job.launched(Attribution::default())?.work_of(&[0]);
/// assert_eq!(work[0].unwrap().busy, 3_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Job {
    processes: Vec<Process>,
    ranges: Arc<Ranges>,
    /// Threads that run another thread's operators backward: the other one, and its own.
    backward: Vec<(ThreadId, ThreadId)>,
    /// Other threads, and the ranges of their process that contain what they launch.
    framed: Vec<(ThreadId, Vec<usize>)>,
    calls: Vec<LaunchCall>,
    /// What calls are called.
    call_names: Vec<Arc<str>>,
    work: Vec<Piece>,
    /// What ranks give to collectives and get, in bytes, by the places of their kernels.
    exchanged: FxHashMap<usize, [u64; 2]>,
    /// What kernels, copies and memsets are called.
    work_names: Vec<Arc<str>>,
    /// In which collectives communicate.
    groups: Vec<Arc<RankGroup>>,
    /// What operators need, by the places of their ranges.
    operator_work: Arc<[(usize, OperatorWork)]>,
    overheads: Vec<Overhead>,
    frames: Vec<Frame>,
    span: Option<(i64, i64)>,
    corrections: Vec<ClockCorrection>,
    launched: Mutex<Vec<(AttributeBy, Arc<Launched>)>>,
}

/// A process of a job.
#[derive(Clone, Debug)]
pub struct Process {
    /// The file of its trace.
    pub path: PathBuf,
    /// The number that stands for it.
    pub id: ProcessId,
    /// Who recorded it.
    pub profiler: Profiler,
    /// Its rank, where the trace says it.
    pub distributed: Option<Distributed>,
    /// The GPUs of its machine.
    pub devices: Vec<Device>,
    /// The most memory that its framework's allocator had given out ([`Trace::peak_memory`]).
    pub peak_memory: Option<u64>,
    /// Problems of its trace.
    pub warnings: Vec<Warning>,
}

/// A call, or what stands for it.
#[derive(Clone, Copy, Debug)]
struct LaunchCall {
    thread: ThreadId,
    interval: Interval,
    correlation: Option<CorrelationId>,
    /// Its place among the names; none for what stands for a call.
    name: Option<u32>,
}

/// A piece of GPU work.
#[derive(Clone, Copy, Debug)]
struct Piece {
    work: Work,
    stream: StreamId,
    name: u32,
    bytes: Option<i64>,
    /// Its place among the groups of ranks.
    group: Option<u32>,
}

impl Piece {
    /// What distinguishes its kind from others.
    fn id(&self) -> Option<i64> {
        if self.work.kind == WorkKind::Kernel { Some(i64::from(self.name)) } else { self.bytes }
    }
}

impl Job {
    /// Reads the traces of a job.
    ///
    /// # Errors
    /// When one of them cannot be read; [`Error::SameRank`].
    pub fn open(paths: &[impl AsRef<Path> + Sync]) -> Result<Job, Error> {
        let read =
            flopgap_files::each_on_all_cores(paths, |path| Trace::options().without_shapes(true).open(path));
        Job::of(read.into_iter().collect::<Result<_, _>>()?)
    }

    /// The recording of some traces, by rank.
    ///
    /// # Errors
    /// [`Error::SameRank`] when two of them are of one rank of a job, and [`Error::NotOneJob`] when
    /// they are not of one: by their ranks, by the names and ids of their jobs, and by when they
    /// were recorded.
    pub fn of(mut traces: Vec<Trace>) -> Result<Job, Error> {
        let rank = |trace: &Trace| trace.distributed.as_ref().and_then(|distributed| distributed.rank);
        traces.sort_by_key(rank);
        alike::require_one(&traces)?;
        Ok(collect::job(traces))
    }

    /// Whether some traces are the ranks of one job, so that [`Job::of`] takes them together.
    ///
    /// # Errors
    /// As [`Job::of`]: why not.
    pub fn require_one(traces: &[Trace]) -> Result<(), Error> {
        alike::require_one(traces)
    }

    /// Corrects the clocks of its traces. Times count from the first event again.
    pub fn correct(&mut self, corrections: Vec<ClockCorrection>) {
        self.move_times(|part| corrections.iter().filter(|own| own.part == part).map(|own| own.ns).sum());
        let first = self.span.map_or(0, |(start, _)| start);
        self.move_times(|_| first.saturating_neg());
        self.corrections = corrections;
    }

    /// Adds to all times of each trace.
    fn move_times(&mut self, by: impl Fn(usize) -> i64) {
        let mut span: Option<(i64, i64)> = None;
        let mut add = |part: usize, start: &mut i64, end: &mut i64, is_in_span: bool| {
            let by = by(part);
            (*start, *end) = (start.saturating_add(by), end.saturating_add(by));
            if is_in_span {
                let (first, last) = span.unwrap_or((*start, *end));
                span = Some((first.min(*start), last.max(*end)));
            }
        };
        let ranges = Arc::make_mut(&mut self.ranges);
        for range in &mut ranges.ranges {
            let mut end = range.end.unwrap_or(ranges.last_range);
            add(collect::trace_of(range.thread.0), &mut range.start, &mut end, true);
            range.end = Some(end);
        }
        let last = ranges.ranges.iter().filter_map(|range| range.end).max().unwrap_or_default();
        (ranges.last_event, ranges.last_range, ranges.last_push_pop) = (last, last, last);
        for call in &mut self.calls {
            add(collect::trace_of(call.thread.0), &mut call.interval.start, &mut call.interval.end, true);
        }
        for Piece { work, .. } in &mut self.work {
            let part = work.process.map_or(0, |process| collect::trace_of(process.0));
            add(part, &mut work.start, &mut work.end, true);
        }
        for own in &mut self.overheads {
            add(collect::trace_of(own.process.0), &mut own.start, &mut own.end, false);
        }
        self.overheads.sort_by_key(|own| own.start);
        for frame in &mut self.frames {
            add(collect::trace_of(frame.thread.0), &mut frame.start, &mut frame.end, false);
        }
        self.span = span;
        self.launched.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The processes, by rank.
    pub fn processes(&self) -> &[Process] {
        &self.processes
    }

    /// How long calls of the runtime and driver took by name, largest total first.
    pub fn call_times(&self) -> Vec<(Arc<str>, Summary)> {
        let mut times: Vec<Values> = vec![Values::default(); self.call_names.len()];
        for call in &self.calls {
            if let Some(name) = call.name {
                times[name as usize].add(call.interval.end.saturating_sub(call.interval.start));
            }
        }
        let named = self.call_names.iter().zip(times);
        let named = named.filter_map(|(name, times)| Some((name.clone(), times.summary()?)));
        let mut named: Vec<(Arc<str>, Summary)> = named.collect();
        named.sort_by(|(name, one), (other_name, other)| {
            other.total.cmp(&one.total).then_with(|| name.cmp(other_name))
        });
        named
    }

    fn require_work(&self) -> Result<(), Error> {
        if !self.work.is_empty() {
            return Ok(());
        }
        let unread = self.processes.iter().flat_map(|process| &process.warnings);
        let unread = unread.filter_map(|warning| match &warning.kind {
            WarningKind::Unread { category, .. } => Some(category.clone()),
            _ => None,
        });
        Err(Error::NoGpuWork { path: self.path().to_owned(), unread: unread.min() })
    }

    fn read(&self, by: AttributeBy) -> Launched {
        let mut threads = OwnersByThread::default();
        for (at, range) in self.ranges.ranges.iter().enumerate() {
            threads.add(range.thread, at);
            let derived = range.style == flopgap_trace::RangeStyle::Derived;
            if by == AttributeBy::Process || derived {
                for (_, worker) in self.backward.iter().filter(|(thread, _)| *thread == range.thread) {
                    threads.add(*worker, at);
                }
            }
        }
        for (thread, ranges) in self.framed.iter().filter(|_| by == AttributeBy::Process) {
            for at in ranges {
                threads.add(*thread, *at);
            }
        }
        let interval = |range: &flopgap_trace::Range| Interval {
            start: range.start,
            end: range.end.unwrap_or(self.ranges.last_range),
        };
        let owners = Owners::new(self.ranges.ranges.iter().map(interval).collect(), threads);
        let mut calls = LaunchCalls::default();
        for call in &self.calls {
            if let Some(correlation) = call.correlation {
                calls.add(call.thread, call.interval, correlation, call.name.is_none());
            }
        }
        let mut launched = Launched::collect(self.ranges.clone(), Nesting::new(calls, &owners, by));
        let mut kinds = Kinds::default();
        for piece in &self.work {
            launched.add(&piece.work, kinds.place(piece.work.kind, piece.id()));
        }
        launched.finish(kinds)
    }
}

impl Recording for Job {
    fn path(&self) -> &Path {
        self.processes.first().map_or(Path::new(""), |process| &process.path)
    }

    fn overheads(&self) -> Result<Vec<Overhead>, ReadError> {
        Ok(self.overheads.clone())
    }

    fn frames(&self) -> Result<Vec<Frame>, ReadError> {
        Ok(self.frames.clone())
    }

    fn operator_work(&self) -> Result<Arc<[(usize, OperatorWork)]>, ReadError> {
        Ok(self.operator_work.clone())
    }

    fn ranges(&self) -> Result<Arc<Ranges>, ReadError> {
        if self.ranges.ranges.is_empty() {
            return Err(ReadError::new(Error::NoRanges { path: self.path().to_owned() }));
        }
        Ok(self.ranges.clone())
    }

    fn launched(&self, attribution: Attribution) -> Result<Arc<Launched>, ReadError> {
        self.ranges()?;
        self.require_work().map_err(ReadError::new)?;
        let mut known = self.launched.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, launched)) = known.iter().find(|(by, _)| *by == attribution.by) {
            return Ok(launched.clone());
        }
        let launched = Arc::new(self.read(attribution.by));
        known.push((attribution.by, launched.clone()));
        Ok(launched)
    }

    fn operation_times(
        &self,
        within: Option<&[usize]>,
        attribution: Attribution,
    ) -> Result<OperationTimes, ReadError> {
        self.require_work().map_err(ReadError::new)?;
        let mut sums = OperationSums::default();
        let mut own = Kinds::default();
        let launched;
        let kinds = if let Some(ranges) = within {
            launched = self.launched(attribution)?;
            launched.within(ranges, |process, device, piece| {
                sums.add(process, device, piece.kind, piece.duration());
            });
            launched.kinds()
        } else {
            for piece in &self.work {
                let kind = own.place(piece.work.kind, piece.id());
                sums.add(piece.work.process, piece.work.device, kind, piece.work.duration());
            }
            &own
        };
        sums.finish(kinds, |_, id| {
            let name = id.and_then(|id| self.work_names.get(usize::try_from(id).ok()?));
            Ok(name.cloned())
        })
    }

    fn gpu_activity(&self, _: Attribution) -> Result<Vec<GpuActivity>, ReadError> {
        self.require_work().map_err(ReadError::new)?;
        let mut activities = Activities::default();
        for Piece { work, .. } in &self.work {
            activities.add(work.process, work.device, work.kind, work.start, work.end);
        }
        Ok(activities.finish())
    }

    fn each_operation(&self, _: bool, visit: &mut dyn FnMut(&Operation<'_>)) -> Result<(), ReadError> {
        self.require_work().map_err(ReadError::new)?;
        for (at, Piece { work, stream, name, bytes, group }) in self.work.iter().enumerate() {
            let (name_id, name) = (i64::from(*name), &self.work_names[*name as usize]);
            let group = group.map(|group| &*self.groups[group as usize]);
            let exchanged = group.and_then(|_| self.exchanged.get(&at).copied());
            visit(&Operation {
                work: *work,
                stream: *stream,
                name_id,
                name,
                bytes: *bytes,
                exchanged,
                group,
                counted: None,
            });
        }
        Ok(())
    }

    fn each_call(
        &self,
        wanted: &dyn Fn(&str) -> bool,
        visit: &mut dyn FnMut(&ApiCall<'_>),
    ) -> Result<(), ReadError> {
        if self.call_names.is_empty() {
            return Err(ReadError::new(Error::NoCalls { path: self.path().to_owned() }));
        }
        let wanted: Vec<bool> = self.call_names.iter().map(|name| wanted(name)).collect();
        for call in &self.calls {
            let Some(name) = call.name.filter(|name| wanted[*name as usize]) else { continue };
            visit(&ApiCall {
                thread: call.thread,
                start: call.interval.start,
                end: call.interval.end,
                name: &self.call_names[name as usize],
                correlation: call.correlation,
            });
        }
        Ok(())
    }

    fn each_copy(&self, visit: &mut dyn FnMut(&Copied)) -> Result<(), ReadError> {
        for Piece { work, name, bytes, .. } in &self.work {
            if work.kind == WorkKind::Copy {
                let [from, to] = memories(&self.work_names[*name as usize]);
                visit(&Copied { work: *work, from, to, bytes: *bytes });
            }
        }
        Ok(())
    }

    fn peak_memory(&self) -> Option<u64> {
        // Of a rank whose trace does not say it, it may be more.
        let all: Option<Vec<u64>> = self.processes.iter().map(|process| process.peak_memory).collect();
        all?.into_iter().max()
    }

    fn span(&self) -> Result<Option<(i64, i64)>, ReadError> {
        Ok(self.span)
    }

    fn gpu_numbers(&self) -> Result<Vec<GpuNumber>, ReadError> {
        // A process numbers the GPUs that it sees; which these are is not recorded.
        Ok(Vec::new())
    }

    fn gpu_names(&self) -> Result<Vec<String>, ReadError> {
        // Where all are alike, it does not matter which of them each piece of work ran on.
        let all = self.processes.iter().flat_map(|process| &process.devices);
        let kind = common_name(all.map(|device| device.name.as_deref()));
        if let Some(kind) = kind.filter(|_| !self.work.is_empty()) {
            return Ok(vec![kind.to_owned()]);
        }
        let used = self.gpu_activity(Attribution::default())?;
        let names = used.iter().filter_map(|used| {
            let own = self.processes.iter().find(|process| Some(process.id) == used.process)?;
            own.devices.iter().find(|device| device.id == Some(used.device))?.name.clone()
        });
        Ok(names.collect::<BTreeSet<_>>().into_iter().collect())
    }

    fn ranks(&self) -> Vec<(ProcessId, u64)> {
        let rank = |process: &Process| Some((process.id, process.distributed.as_ref()?.rank?));
        let ranks: Vec<_> = self.processes.iter().filter_map(rank).collect();
        if self.processes.len() > 1 && ranks.len() == self.processes.len() { ranks } else { Vec::new() }
    }

    fn is_one_machine(&self) -> bool {
        let [first, others @ ..] = self.processes.as_slice() else { return false };
        let mut used: FxHashMap<DeviceId, ProcessId> = FxHashMap::default();
        // Ranks of two machines would use GPUs of the same numbers.
        let are_apart = self.work.iter().all(|Piece { work, .. }| {
            work.process.is_some_and(|process| *used.entry(work.device).or_insert(process) == process)
        });
        let lists_all = first.devices.len() >= self.processes.len()
            && used.keys().all(|used| first.devices.iter().any(|own| own.id == Some(*used)));
        others.is_empty() || (are_apart && lists_all && others.iter().all(|own| own.devices == first.devices))
    }

    fn part(&self, process: ProcessId) -> usize {
        collect::trace_of(process.0)
    }

    fn corrections(&self) -> &[ClockCorrection] {
        &self.corrections
    }

    fn world_size(&self) -> Option<u64> {
        self.processes.iter().filter_map(|process| process.distributed.as_ref()?.world_size).max()
    }
}

/// Between which memories a copy of this name moves data: `Memcpy DtoH (Device -> Pageable)`.
fn memories(name: &str) -> [Memory; 2] {
    let memory = |text: &str| match text {
        "Device" | "Array" => Memory::Device,
        "Pageable" => Memory::Pageable,
        "Pinned" => Memory::Pinned,
        "Host" => Memory::Host,
        _ => Memory::Unknown,
    };
    let inside = name.split_once('(').and_then(|(_, inside)| inside.split_once(')'));
    let ends = inside.and_then(|(inside, _)| inside.split_once(" -> "));
    ends.map_or([Memory::Unknown; 2], |(from, to)| [memory(from), memory(to)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_copies_say_between_which_memories() {
        for (name, expected) in [
            ("Memcpy DtoH (Device -> Pageable)", [Memory::Device, Memory::Pageable]),
            ("Memcpy HtoD (Pinned -> Device)", [Memory::Pinned, Memory::Device]),
            ("Memcpy HtoD (Host -> Device)", [Memory::Host, Memory::Device]),
            ("Memcpy PtoP (Device -> Device)", [Memory::Device, Memory::Device]),
            ("Memcpy (Managed -> Device)", [Memory::Unknown, Memory::Device]),
            ("CopyDeviceToHost", [Memory::Unknown; 2]),
            ("", [Memory::Unknown; 2]),
        ] {
            assert_eq!(memories(name), expected, "{name}");
        }
    }
}
