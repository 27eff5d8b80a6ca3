//! `cuda_kern_exec_sum`: kernels with the calls that launched them, by thread, device, call and
//! kernel: call, wait, run.
//!
//! Kernels wait, each in sixteen bytes, for their call to be read; the bytes then hold its times.

use std::sync::Arc;

use flopgap_trace::Correlations;
use flopgap_trace::Values;
use rustc_hash::{FxHashMap, FxHashSet};

use super::names::api;
use super::table::{Columns, Sink, Value};
use crate::KernelName;
use crate::gpu_work::Backward;
use crate::tables::gpu::KERNEL;
use crate::tables::host::{RUNTIME, TimedCall, call_ids, launch_calls};
use crate::{CorrelationId, DeviceId, Error, Name, Names, ProcessId, StringId, Summary, ThreadId, Trace};

static SUM: Columns = Columns::new(
    "PID,TID,DevId,Count,QCount,TAvg (ns),TMed (ns),TMin (ns),TMax (ns),TStdDev (ns),AAvg (ns),\
     AMed (ns),AMin (ns),AMax (ns),AStdDev (ns),QAvg (ns),QMed (ns),QMin (ns),QMax (ns),\
     QStdDev (ns),KAvg (ns),KMed (ns),KMin (ns),KMax (ns),KStdDev (ns),API Name,Kernel Name",
);
/// Stands for the process of kernels of which none was recorded.
const NO_PROCESS: ProcessId = ProcessId(i64::MIN);

/// No kernel.
const NONE: u32 = u32::MAX;

/// A kernel, before and after its call was found.
#[derive(Clone, Copy)]
struct Slot {
    /// The start of the kernel; later the times from the call to the end, and of the call.
    times: u64,
    /// How long the kernel ran, or [`Slot::LONG`].
    duration: u32,
    /// The kind of the kernel; later what [`Slot::GROUP`] keeps is the group of the execution.
    group: u32,
}

impl Slot {
    const LONG: u32 = u32::MAX;
    /// Set when the call was found.
    const FOUND: u32 = 1 << 31;
    /// Set when the kernel waited after the call.
    const QUEUED: u32 = 1 << 30;
    const GROUP: u32 = Slot::QUEUED - 1;
    /// Of a kernel whose times do not fit.
    const ELSEWHERE: u32 = u32::MAX;
}

/// The times of one execution, in nanoseconds.
#[derive(Clone, Copy)]
struct Times {
    total: i64,
    call: i64,
    /// From the return of the call to the start of the kernel; `None` when it started before the
    /// call returned.
    queued: Option<i64>,
    kernel: i64,
}

/// What a row is about: thread, kind of kernel, call.
type Group = (ThreadId, u32, Name);

/// Kernels that wait for their calls.
#[derive(Default)]
struct Waiting {
    slots: Vec<Slot>,
    /// The first kernel of each call.
    first: Correlations,
    /// The next kernel of the same call; shorter than `slots` until there is a call of several.
    next: Vec<u32>,
    /// Durations that 32 bits do not hold, by slot.
    long: FxHashMap<u32, i64>,
    /// Devices and names.
    kinds: Vec<(DeviceId, Name)>,
    kind_of: FxHashMap<(DeviceId, Name), u32>,
    /// Whether some kernels have no process.
    strays: bool,
    groups: Vec<Group>,
    group_of: FxHashMap<Group, u32>,
    /// Executions whose times do not fit, by group.
    elsewhere: FxHashMap<u32, Vec<Times>>,
}

impl Waiting {
    fn add(
        &mut self,
        start: i64,
        duration: i64,
        device: DeviceId,
        name: Name,
        process: Option<ProcessId>,
        correlation: CorrelationId,
    ) {
        let at = u32::try_from(self.slots.len()).expect("fewer than 2^32 kernels");
        let kinds = &mut self.kinds;
        let kind = *self.kind_of.entry((device, name)).or_insert_with(|| {
            kinds.push((device, name));
            small(kinds.len() - 1)
        });
        let short = u32::try_from(duration).ok().filter(|duration| *duration != Slot::LONG);
        if short.is_none() {
            self.long.insert(at, duration);
        }
        self.strays |= process.is_none();
        self.slots.push(Slot {
            times: start.cast_unsigned(),
            duration: short.unwrap_or(Slot::LONG),
            group: kind,
        });
        if let Some(first) = self.first.insert(process.unwrap_or(NO_PROCESS), correlation, at) {
            self.next.resize(self.slots.len(), NONE);
            let second = std::mem::replace(&mut self.next[first as usize], at);
            self.next[at as usize] = second;
        }
    }

    /// Gives the kernels of a call their times.
    fn found(&mut self, process: ProcessId, correlation: CorrelationId, call: TimedCall, name: Name) {
        let mut next = self.first.get(Some(process), correlation);
        while let Some(at) = next {
            self.execution(at, call, name);
            next = self.next.get(at as usize).copied().filter(|next| *next != NONE);
        }
    }

    fn execution(&mut self, at: u32, call: TimedCall, name: Name) {
        let Slot { times, duration, group: kind } = self.slots[at as usize];
        if kind & Slot::FOUND != 0 {
            return;
        }
        let start = times.cast_signed();
        let kernel = if duration == Slot::LONG { self.long[&at] } else { duration.into() };
        let Some(thread) = call.id.thread else { return };
        let group = (thread, kind, name);
        let groups = &mut self.groups;
        let group = *self.group_of.entry(group).or_insert_with(|| {
            groups.push(group);
            small(groups.len() - 1)
        });
        let times = Times {
            total: call.end.max(start.saturating_add(kernel)).saturating_sub(call.start),
            call: call.end.saturating_sub(call.start),
            queued: (start >= call.end).then(|| start.saturating_sub(call.end)),
            kernel,
        };
        let packed = Waiting::pack(times, group);
        if packed.is_none() {
            self.elsewhere.entry(group).or_default().push(times);
        }
        let elsewhere = Slot { times: 0, duration: 0, group: Slot::ELSEWHERE };
        self.slots[at as usize] = packed.unwrap_or(elsewhere);
    }

    /// The time in the queue is what the other two leave of the total.
    fn pack(times: Times, group: u32) -> Option<Slot> {
        let short = |time: i64| u32::try_from(time).ok();
        let (total, call) = (short(times.total)?, short(times.call)?);
        let duration = short(times.kernel)?;
        let queued = match times.queued {
            Some(queued) if queued == i64::from(total) - i64::from(call) - i64::from(duration) => {
                Slot::QUEUED
            }
            Some(_) => return None,
            None => 0,
        };
        let group = group | Slot::FOUND | queued;
        let times = u64::from(total) << 32 | u64::from(call);
        (group != Slot::ELSEWHERE).then_some(Slot { times, duration, group })
    }
}

impl Slot {
    /// The times of an execution.
    fn times(self) -> Times {
        let (total, call) =
            ((self.times >> 32).cast_signed(), (self.times & u64::from(u32::MAX)).cast_signed());
        let kernel = i64::from(self.duration);
        let queued = (self.group & Slot::QUEUED != 0).then_some(total - call - kernel);
        Times { total, call, queued, kernel }
    }
}

/// A number of few.
///
/// # Panics
/// With 2³⁰, which no trace of less than 50 GB can have.
fn small(number: usize) -> u32 {
    let number = u32::try_from(number).ok().filter(|number| *number < Slot::QUEUED);
    number.expect("fewer than 2^30 kinds and groups")
}

/// The process of all calls, when there is only one.
fn only_process(trace: &Trace) -> Result<Option<ProcessId>, Error> {
    let mut processes = FxHashSet::default();
    for call in call_ids(trace)? {
        let (call, _) = call?;
        processes.extend(call.of_process().map(|(process, _)| process));
    }
    Ok((processes.len() == 1).then(|| processes.into_iter().next()).flatten())
}

/// Every kernel whose launch was recorded, with its times; and the names of calls and of kernels.
fn executions(trace: &Trace, names: KernelName) -> Result<(Waiting, Names, Names), Error> {
    trace.require(&KERNEL)?;
    trace.require(&RUNTIME)?;
    let mut waiting = Waiting::default();
    let kernels = trace.named_kernels(names, false, Backward::AsNsys, |work, name| {
        if let Some(correlation) = work.correlation {
            waiting.add(work.start, work.duration(), work.device, name, work.process, correlation);
        }
    })?;
    let only = if waiting.strays { only_process(trace)? } else { None };
    let mut calls = Names::default();
    let mut known: FxHashMap<StringId, Name> = FxHashMap::default();
    let mut found = |call: TimedCall, id: StringId| -> Result<(), Error> {
        let Some((process, correlation)) = call.id.of_process() else { return Ok(()) };
        let name = match known.get(&id) {
            Some(name) => *name,
            None => *known.entry(id).or_insert(calls.intern(&api(trace, id)?)),
        };
        waiting.found(process, correlation, call, name);
        if only == Some(process) {
            waiting.found(NO_PROCESS, correlation, call, name);
        }
        Ok(())
    };
    let mut backtraces = Vec::new();
    for call in launch_calls(trace)? {
        let (call, name) = call?;
        if call.id.has_backtrace {
            backtraces.push((call, name));
        } else {
            found(call, name)?;
        }
    }
    // A call that was recorded only with its backtrace is a call.
    for (call, name) in backtraces {
        found(call, name)?;
    }
    Ok((waiting, calls, kernels))
}

/// The times of all executions of one group.
#[derive(Default)]
struct Collected {
    total: Values,
    call: Values,
    queued: Values,
    kernel: Values,
}

impl Collected {
    fn add(&mut self, times: Times) {
        self.total.add(times.total);
        self.call.add(times.call);
        if let Some(queued) = times.queued {
            self.queued.add(queued);
        }
        self.kernel.add(times.kernel);
    }
}

/// A row: pid, tid, device, call and kernel with their statistics.
struct Row<'a> {
    thread: ThreadId,
    device: DeviceId,
    call: &'a Arc<str>,
    kernel: &'a Arc<str>,
    summaries: [Option<Summary>; 4],
}

impl Row<'_> {
    fn mean(&self) -> f64 {
        self.summaries[0].map_or(0.0, |total| total.mean)
    }
}

/// `cuda_kern_exec_sum`.
pub(super) fn sum(trace: &Trace, names: KernelName, sink: &mut dyn Sink) -> Result<(), Error> {
    let (waiting, calls, kernels) = executions(trace, names)?;
    let Waiting { mut slots, kinds, groups, mut elsewhere, first, next, .. } = waiting;
    drop((first, next));
    slots.retain(|slot| slot.group & Slot::FOUND != 0 && slot.group != Slot::ELSEWHERE);
    slots.sort_unstable_by_key(|slot| slot.group & Slot::GROUP);
    let mut by_group =
        slots.chunk_by(|one, other| one.group & Slot::GROUP == other.group & Slot::GROUP).peekable();
    let mut rows = Vec::with_capacity(groups.len());
    for (at, (thread, kind, call)) in (0..).zip(groups) {
        let mut collected = Collected::default();
        if let Some(slots) = by_group.next_if(|slots| slots[0].group & Slot::GROUP == at) {
            for slot in slots {
                collected.add(slot.times());
            }
        }
        for times in elsewhere.remove(&at).unwrap_or_default() {
            collected.add(times);
        }
        let Collected { total, call: called, queued, kernel } = collected;
        let summaries = [total.summary(), called.summary(), queued.summary(), kernel.summary()];
        let (device, name) = kinds[kind as usize];
        rows.push(Row { thread, device, call: calls.text(call), kernel: kernels.text(name), summaries });
    }
    rows.sort_by(|one, other| {
        let key = |row: &Row<'_>| (row.thread, row.device, row.call.clone(), row.kernel.clone());
        other.mean().total_cmp(&one.mean()).then_with(|| key(one).cmp(&key(other)))
    });
    trace.writing(|| {
        sink.columns(&SUM)?;
        for row in &rows {
            let count = |summary: Option<Summary>| summary.map_or(0, |summary| summary.count);
            let mut printed: Vec<Value> = vec![
                row.thread.pid().into(),
                row.thread.tid().into(),
                row.device.into(),
                count(row.summaries[0]).into(),
                count(row.summaries[2]).into(),
            ];
            for summary in row.summaries {
                printed.extend([
                    summary.map_or(Value::Absent, |summary| Value::Real(summary.mean)),
                    summary.map_or(Value::Absent, |summary| Value::Real(summary.median)),
                    summary.map(|summary| summary.min).into(),
                    summary.map(|summary| summary.max).into(),
                    // nsys prints a deviation of 0 even where no kernel waited.
                    Value::Real(summary.map_or(0.0, |summary| summary.stddev)),
                ]);
            }
            printed.extend([row.call.clone().into(), row.kernel.clone().into()]);
            sink.row(&printed)?;
        }
        Ok(())
    })
}
