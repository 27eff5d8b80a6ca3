//! Puts traces together.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex};

use flopgap_flops::torch::OperatorWork;
use flopgap_trace::{
    CorrelationId, DeviceId, ExternalId, Frame, Interval, Name, Overhead, ProcessId, Range, RangeId,
    RangeName, RangeNames, RangeStyle, Ranges, RankGroup, StreamId, ThreadId, Work, WorkKind,
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::passes::passes;
use super::steps::{Steps, framed, is_step};
use super::{Job, LaunchCall, Piece, Process};
use crate::{GpuKind, Thread, Trace, Warning, WarningKind};

/// Bits of process and thread ids in a [`ThreadId`].
const ID_BITS: u32 = 24;
/// Numbers from here on stand for ids that are no numbers of the system's, such as addresses.
const SUBSTITUTES: i64 = 0xf0_0000;

/// Different names, each with its place.
#[derive(Default)]
struct Texts {
    all: Vec<Arc<str>>,
    places: FxHashMap<Arc<str>, u32>,
}

impl Texts {
    fn place(&mut self, text: &Arc<str>) -> u32 {
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        let place = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        self.all.push(text.clone());
        self.places.insert(text.clone(), place);
        place
    }
}

/// Numbers in `0..SUBSTITUTES` for ids, the ids themselves where they are such numbers.
struct Numbers<T>(FxHashMap<T, i64>);

impl<T: Hash + Eq> Numbers<T> {
    fn of(&mut self, key: T, id: Option<i64>) -> i64 {
        if let Some(id @ 0..SUBSTITUTES) = id {
            id
        } else {
            let next = SUBSTITUTES + i64::try_from(self.0.len()).unwrap_or_default();
            *self.0.entry(key).or_insert(next)
        }
    }
}

/// The ids of the threads of the trace at a place.
fn thread_ids(at: usize, threads: &[Thread]) -> Vec<ThreadId> {
    let mut processes = Numbers(FxHashMap::default());
    let mut numbers = Numbers(FxHashMap::default());
    let machine = i64::try_from(at + 1).unwrap_or_default() << (2 * ID_BITS);
    let ids = threads.iter().enumerate().map(|(place, thread)| {
        let process = processes.of(thread.process, thread.process);
        let number = numbers.of(place, thread.number);
        ThreadId(machine | process << ID_BITS | number)
    });
    ids.collect()
}

/// The place of the trace of which a thread or process is.
pub(super) fn trace_of(id: i64) -> usize {
    usize::try_from((id >> (2 * ID_BITS)) - 1).unwrap_or_default()
}

/// The process that most of `threads` are of.
fn main_process(at: usize, ids: &[ThreadId], threads: impl Iterator<Item = u32>) -> ProcessId {
    let mut counts: BTreeMap<ProcessId, u64> = BTreeMap::new();
    for thread in threads {
        *counts.entry(ids[thread as usize].process()).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|(process, count)| (*count, std::cmp::Reverse(*process)));
    let none = ProcessId(i64::try_from(at + 1).unwrap_or_default() << (2 * ID_BITS));
    most.map_or(none, |(process, _)| process)
}

/// What is put together.
#[derive(Default)]
struct Together {
    ranges: Vec<Range>,
    names: RangeNames,
    known: FxHashMap<Arc<str>, Name>,
    backward: Vec<(ThreadId, ThreadId)>,
    framed: Vec<(ThreadId, Vec<usize>)>,
    calls: Vec<LaunchCall>,
    call_names: Texts,
    work: Vec<Piece>,
    exchanged: FxHashMap<usize, [u64; 2]>,
    work_names: Texts,
    groups: Vec<Arc<RankGroup>>,
    group_places: BTreeMap<Arc<RankGroup>, u32>,
    operator_work: Vec<(usize, OperatorWork)>,
    overheads: Vec<Overhead>,
    frames: Vec<Frame>,
    span: Option<(i64, i64)>,
}

pub(super) fn job(traces: Vec<Trace>) -> Job {
    // Clocks count from one instant where all traces say from which. Where none does, they may be
    // those of several machines, which is certain where the ranks never ran at the same time.
    let last_begin = traces.iter().filter_map(Trace::begin).max();
    let first_end = traces.iter().filter_map(Trace::end).min();
    let has_base = traces.iter().all(|trace| trace.base != 0)
        || (traces.iter().all(|trace| trace.base == 0) && last_begin <= first_end);
    let begin = |trace: &Trace| trace.begin().map(|first| trace.base.saturating_add(first));
    let origin = traces.iter().filter_map(begin).min().unwrap_or_default();
    let mut together = Together::default();
    let mut processes = Vec::new();
    for (at, trace) in traces.into_iter().enumerate() {
        let shift = if has_base {
            trace.base.saturating_sub(origin)
        } else {
            trace.begin().unwrap_or_default().saturating_neg()
        };
        processes.push(together.add(at, trace, shift));
    }
    let last_range = together.ranges.iter().filter_map(|range| range.end).max().unwrap_or_default();
    let ranges = Ranges {
        ranges: together.ranges,
        names: together.names,
        last_event: last_range,
        last_range,
        last_push_pop: last_range,
    };
    together.overheads.sort_by_key(|own| own.start);
    Job {
        processes,
        overheads: together.overheads,
        frames: together.frames,
        ranges: Arc::new(ranges),
        backward: together.backward,
        framed: together.framed,
        calls: together.calls,
        call_names: together.call_names.all,
        work: together.work,
        exchanged: together.exchanged,
        work_names: together.work_names.all,
        groups: together.groups,
        operator_work: together.operator_work.into(),
        span: together.span,
        corrections: Vec::new(),
        launched: Mutex::default(),
    }
}

/// The clock of a trace: how far it is from that of the recording.
#[derive(Clone, Copy)]
struct Clock(i64);

impl Clock {
    fn time(self, time: i64) -> i64 {
        time.saturating_add(self.0)
    }

    fn interval(self, start: i64, duration: u64) -> Interval {
        Interval { start: self.time(start), end: self.time(start.saturating_add_unsigned(duration)) }
    }
}

impl Together {
    /// Adds for whom each thread works; those of which nothing says it, and whose work counts in
    /// the steps during which it was launched.
    fn push_threads(&mut self, trace: &Trace, ids: &[ThreadId], steps: &Steps) -> FxHashSet<u32> {
        for (worker, thread) in trace.threads.iter().enumerate() {
            if let Some(forward) = thread.backward_of {
                self.backward.push((ids[forward as usize], ids[worker]));
            }
        }
        // Annotations are the first ranges of a trace.
        let first_range = self.ranges.len();
        let mut odd = FxHashSet::default();
        for (thread, ranges) in framed(trace, steps) {
            if ranges.iter().any(|at| is_step(&trace.annotations[*at])) {
                odd.insert(thread);
            }
            let ranges = ranges.into_iter().map(|at| first_range + at).collect();
            self.framed.push((ids[thread as usize], ranges));
        }
        odd
    }

    /// Adds the ranges; where those are that work names.
    fn push_ranges(
        &mut self,
        trace: &Trace,
        ids: &[ThreadId],
        clock: Clock,
    ) -> FxHashMap<ExternalId, (ThreadId, Interval)> {
        let mut external: FxHashMap<ExternalId, (ThreadId, Interval)> = FxHashMap::default();
        let first_operator = self.ranges.len() + trace.annotations.len();
        let with_work = trace.operators.iter().enumerate();
        let with_work = with_work.filter_map(|(at, operator)| Some((first_operator + at, operator.work?)));
        self.operator_work.extend(with_work);
        let marked = trace.annotations.iter().map(|range| {
            (&range.name, range.thread, clock.interval(range.start, range.duration), range.external)
        });
        let operators = trace.operators.iter().map(|operator| {
            let interval = clock.interval(operator.start, operator.duration);
            (&operator.name, operator.thread, interval, operator.external)
        });
        let marked = marked.map(|range| (range, RangeStyle::PushPop));
        let operators = operators.map(|range| (range, RangeStyle::Operator));
        for ((name, thread, interval, number), style) in marked.chain(operators) {
            let thread = ids[thread as usize];
            if let Some(number) = number {
                external.insert(number, (thread, interval));
            }
            self.push_range(name, thread, interval, style);
        }
        for (name, thread, Interval { start, end }) in passes(trace) {
            let interval = Interval { start: clock.time(start), end: clock.time(end) };
            self.push_range(&Arc::from(name), ids[thread as usize], interval, RangeStyle::Derived);
        }
        external
    }

    fn add(&mut self, at: usize, trace: Trace, shift: i64) -> Process {
        let ids = thread_ids(at, &trace.threads);
        let clock = Clock(shift);
        let callers = trace.calls.iter().map(|call| call.thread);
        let others = trace.annotations.iter().map(|range| range.thread);
        let others = others.chain(trace.operators.iter().map(|operator| operator.thread));
        let mut callers = callers.peekable();
        let id = match callers.peek() {
            Some(_) => main_process(at, &ids, callers),
            None => main_process(at, &ids, others),
        };
        let steps = Steps::new(&trace);
        let odd_threads = self.push_threads(&trace, &ids, &steps);
        let external = self.push_ranges(&trace, &ids, clock);
        let asked: FxHashSet<CorrelationId> =
            trace.gpu_work.iter().filter_map(|work| work.correlation).collect();
        let mut called: FxHashSet<CorrelationId> = FxHashSet::default();
        // Launches within a step by threads of which nothing says for whom they work.
        let mut odd: FxHashMap<CorrelationId, u32> = FxHashMap::default();
        let first_call = self.calls.len();
        for call in &trace.calls {
            let correlation = call.correlation.filter(|correlation| asked.contains(correlation));
            called.extend(correlation);
            if let (true, Some(correlation), Some(step)) =
                (odd_threads.contains(&call.thread), correlation, steps.at(call.start))
                && call.start.saturating_add_unsigned(call.duration) <= step.end
            {
                odd.insert(correlation, call.thread);
            }
            self.calls.push(LaunchCall {
                thread: ids[call.thread as usize],
                interval: clock.interval(call.start, call.duration),
                correlation,
                name: Some(self.call_names.place(&call.name)),
            });
        }
        self.overheads.extend(trace.overheads.iter().map(|(name, start, end)| {
            let (start, end) = (clock.time(*start), clock.time(*end));
            Overhead { start, end, process: id, thread: None, name: name.clone() }
        }));
        self.frames.extend(trace.frames.iter().map(|(name, thread, start, duration)| {
            let Interval { start, end } = clock.interval(*start, *duration);
            Frame { thread: ids[*thread as usize], start, end, name: name.clone() }
        }));
        // What has no correlation gets one that no call has.
        let mut substitute = called.iter().min().map_or(0, |least| least.0.min(0));
        let mut by_time = (0, 0);
        let mut by_thread: BTreeMap<u32, u64> = BTreeMap::new();
        for work in &trace.gpu_work {
            let found = work.correlation.filter(|correlation| called.contains(correlation));
            if let Some(thread) = found.and_then(|correlation| odd.get(&correlation)) {
                *by_thread.entry(*thread).or_default() += 1;
            }
            let named = work.external.and_then(|number| external.get(&number).copied());
            let correlation = found.or_else(|| {
                let stand_in = named.or_else(|| {
                    let Interval { start, end } = steps.at(work.start)?;
                    by_time = (by_time.0 + 1, by_time.1 + u128::from(work.duration));
                    let thread = ids[steps.thread? as usize];
                    Some((thread, Interval { start: clock.time(start), end: clock.time(end) }))
                });
                let (thread, interval) = stand_in?;
                let correlation = work.correlation.or_else(|| {
                    substitute = substitute.checked_sub(1)?;
                    Some(CorrelationId(substitute))
                })?;
                self.calls.push(LaunchCall { thread, interval, correlation: Some(correlation), name: None });
                Some(correlation)
            });
            let Interval { start, end } = clock.interval(work.start, work.duration);
            let kind = match work.kind {
                GpuKind::Kernel => WorkKind::Kernel,
                GpuKind::Copy => WorkKind::Copy,
                GpuKind::Memset => WorkKind::Set,
            };
            let device = work.device.unwrap_or(DeviceId(0));
            let group = work.group.as_ref().map(|group| self.group(group));
            if let Some(exchanged) = &work.exchanged {
                self.exchanged.insert(self.work.len(), **exchanged);
            }
            self.work.push(Piece {
                work: Work { kind, start, end, device, process: Some(id), correlation },
                stream: work.stream.unwrap_or(StreamId(0)),
                name: self.work_names.place(&work.name),
                bytes: work.bytes.and_then(|bytes| i64::try_from(bytes).ok()),
                group,
            });
            self.extend_span(start, end);
        }
        for at in first_call..self.calls.len() {
            let Interval { start, end } = self.calls[at].interval;
            self.extend_span(start, end);
        }
        let of_threads = by_thread.into_iter().map(|(thread, operations)| WarningKind::OtherThread {
            thread: trace.threads[thread as usize].number,
            operations,
        });
        let (operations, nanoseconds) = by_time;
        let of_times = (operations > 0).then_some(WarningKind::CountedByTime { operations, nanoseconds });
        process(id, of_threads.chain(of_times).collect(), trace)
    }

    /// The place of a group of ranks.
    fn group(&mut self, group: &Arc<RankGroup>) -> u32 {
        let groups = &mut self.groups;
        *self.group_places.entry(group.clone()).or_insert_with(|| {
            groups.push(group.clone());
            u32::try_from(groups.len() - 1).unwrap_or(u32::MAX)
        })
    }

    fn push_range(
        &mut self,
        name: &Arc<str>,
        thread: ThreadId,
        Interval { start, end }: Interval,
        style: RangeStyle,
    ) {
        let name = if let Some(name) = self.known.get(name) {
            *name
        } else {
            let place = self.names.push(RangeName { domain: None, text: name.clone() });
            self.known.insert(name.clone(), place);
            place
        };
        let id = RangeId(i64::try_from(self.ranges.len()).unwrap_or(i64::MAX).saturating_add(1));
        self.ranges.push(Range { id, start, end: Some(end), thread, name, style, crosses_threads: false });
        self.extend_span(start, end);
    }

    fn extend_span(&mut self, start: i64, end: i64) {
        let (first, last) = self.span.unwrap_or((start, end));
        self.span = Some((first.min(start), last.max(end)));
    }
}

/// What is said of a trace that was added.
fn process(id: ProcessId, more: Vec<WarningKind>, trace: Trace) -> Process {
    let Trace { path, profiler, distributed, devices, peak_memory, mut warnings, .. } = trace;
    // What FLOPs lack is of no interest to who asks for times.
    warnings.retain(|warning| {
        !matches!(
            warning.kind,
            WarningKind::Uncounted { .. }
                | WarningKind::MoreUncounted { .. }
                | WarningKind::CountedTwice { .. }
        )
    });
    warnings.extend(more.into_iter().map(|kind| Warning { event: None, kind }));
    Process { path, id, profiler, distributed, devices, peak_memory, warnings }
}
