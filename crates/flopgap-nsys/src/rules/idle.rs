//! When GPUs did nothing, or little.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use flopgap_files::present;

use super::RuleOptions;
use crate::gpu_work::recorded;
use crate::report::{Columns, Sink, Value};
use crate::tables::gpu::{Busy, Kind, busy};
use crate::{ContextId, DeviceId, Error, ProcessId, ProfilerOverhead, ThreadId, Trace, round};

static GAPS: Columns = Columns::new("Row#,Duration (ns),Start (ns),PID,Device ID,Context ID");
static UTILIZATION: Columns =
    Columns::new("Row#,In-Use (%),Duration (ns),Start (ns),PID,Device ID,Context ID");

/// Start, end and CUDA context of a kernel, copy or memset.
type Interval = (i64, i64, ContextId);

/// The work of one process on one GPU, in the order of starts.
#[derive(Default)]
struct Work {
    busy: Vec<Interval>,
}

impl Work {
    /// From the first start to the last end.
    fn extent(&self) -> Option<(i64, i64)> {
        Some((self.busy.first()?.0, self.busy.iter().map(|(_, end, _)| *end).max()?))
    }

    /// The context of what ended last, which nsys shows for all of the work.
    fn last_context(&self) -> Option<ContextId> {
        self.busy.iter().rev().max_by_key(|(_, end, _)| *end).map(|(.., context)| *context)
    }
}

/// The work on each GPU by process and device. What the profiler itself did meanwhile counts as
/// work of all GPUs of the process.
fn work(trace: &Trace) -> Result<BTreeMap<(Option<i64>, DeviceId), Work>, Error> {
    let mut devices: BTreeMap<(Option<i64>, DeviceId), Work> = BTreeMap::new();
    for rows in recorded(Kind::all(false), |kind| busy(trace, kind))? {
        for interval in rows {
            let Busy { start, end, device, context, process } = interval?;
            // nsys leaves out what carries no valid time.
            if start > 0 && end >= start {
                let work = devices.entry((process.map(ProcessId::pid), device)).or_default();
                work.busy.push((start, end, context));
            }
        }
    }
    let profiler = profiler(trace)?;
    for ((pid, _), work) in &mut devices {
        work.busy.sort_unstable();
        let (Some((first, last)), Some(context)) = (work.extent(), work.last_context()) else { continue };
        let own = profiler.iter().filter(|(other, start, end)| {
            Some(*other) == *pid && *start > first && *end < last && start <= end
        });
        work.busy.extend(own.map(|(_, start, end)| (*start, *end, context)));
        work.busy.sort_unstable();
    }
    Ok(devices)
}

/// What nsys calls the profiler's own work on a GPU in `PROFILER_OVERHEAD`.
const PROFILER: [&str; 3] =
    ["CUDA profiling data flush overhead", "CUDA profiling stop overhead", "CUDA profiling overhead"];

/// When the profiler itself held a process up, by process id: nobody else's gaps.
fn profiler(trace: &Trace) -> Result<Vec<(i64, i64, i64)>, Error> {
    let mut intervals = Vec::new();
    for overhead in present(trace.profiler_overheads())?.into_iter().flatten() {
        let ProfilerOverhead { start, end, thread, name } = overhead?;
        if let Some(pid) = thread.map(ThreadId::pid)
            && PROFILER.contains(&&*trace.string_or_id(name)?)
        {
            intervals.push((pid, start, end));
        }
    }
    Ok(intervals)
}

/// `gpu_gaps`.
pub(super) fn gaps(trace: &Trace, options: &RuleOptions, sink: &mut dyn Sink) -> Result<(), Error> {
    let shortest = options.gap.saturating_mul(1_000_000);
    let mut found = Vec::new();
    for ((pid, device), work) in work(trace)? {
        let Some((first, _)) = work.extent() else { continue };
        let Some(context) = work.last_context() else { continue };
        // The context of a gap is that of the work before it.
        let (mut until, mut before) = (first, context);
        for &(start, end, context) in &work.busy {
            let gap = start.saturating_sub(until);
            if gap > 0 && gap > shortest {
                found.push((gap, until, pid, device, before));
            }
            if end >= until {
                (until, before) = (end, context);
            }
        }
    }
    found.sort_by_key(|(gap, start, pid, device, _)| (Reverse(*gap), *start, *pid, *device));
    trace.writing(|| {
        sink.columns(&GAPS)?;
        for (row, (gap, start, pid, device, context)) in
            (1_u64..).zip(found.into_iter().take(options.limit()))
        {
            sink.row(&[row.into(), gap.into(), start.into(), pid.into(), device.into(), context.into()])?;
        }
        Ok(())
    })
}

/// Consecutive parts of the time of a GPU with little use.
struct Idle {
    used: i128,
    duration: i64,
    start: i64,
    last_chunk: usize,
    pid: Option<i64>,
    device: DeviceId,
    context: Option<ContextId>,
}

impl Idle {
    fn percent(&self) -> f64 {
        self.used as f64 * 100.0 / self.duration as f64
    }
}

/// `gpu_time_util`: work that overlaps in time adds up, so that a part may be in use for more than
/// 100%.
pub(super) fn utilization(trace: &Trace, options: &RuleOptions, sink: &mut dyn Sink) -> Result<(), Error> {
    let threshold = options.threshold as f64;
    let mut found: Vec<Idle> = Vec::new();
    for ((pid, device), work) in work(trace)? {
        let Some((first, last)) = work.extent() else { continue };
        let mut parts: Vec<Idle> = Vec::new();
        for (chunk, (start, end, used)) in
            chunks(&work.busy, first, last, options.chunks).into_iter().enumerate()
        {
            let duration = end - start;
            if duration <= 0 || used as f64 * 100.0 / duration as f64 >= threshold {
                continue;
            }
            match parts.last_mut().filter(|part| part.last_chunk + 1 == chunk) {
                Some(part) => {
                    part.used += used;
                    part.duration += duration;
                    part.last_chunk = chunk;
                }
                None => parts.push(Idle {
                    used,
                    duration,
                    start,
                    last_chunk: chunk,
                    pid,
                    device,
                    context: work.last_context(),
                }),
            }
        }
        found.extend(parts);
    }
    // nsys rounds before it sorts.
    found.sort_by(|one, other| {
        let (percent, others) = (round::to_tenth(one.percent()), round::to_tenth(other.percent()));
        let key = |idle: &Idle| (idle.duration, idle.start, idle.pid, idle.device);
        percent.total_cmp(&others).then_with(|| key(one).cmp(&key(other)))
    });
    trace.writing(|| {
        sink.columns(&UTILIZATION)?;
        for (row, part) in (1_u64..).zip(found.into_iter().take(options.limit())) {
            sink.row(&[
                row.into(),
                Value::Real(part.percent()),
                part.duration.into(),
                part.start.into(),
                part.pid.into(),
                part.device.into(),
                part.context.into(),
            ])?;
        }
        Ok(())
    })
}

/// The time from `first` to `last` in equal parts: start, end, and how much work lies in each.
fn chunks(busy: &[Interval], first: i64, last: i64, parts: u16) -> Vec<(i64, i64, i128)> {
    let total = last.saturating_sub(first);
    let parts = i64::from(parts).max(1);
    let size = (total / parts + i64::from(total % parts != 0)).max(1);
    let mut chunks = Vec::new();
    let mut start = first;
    while start < last {
        let end = start.saturating_add(size).min(last);
        chunks.push((start, end, 0));
        start = end;
    }
    for &(start, end, _) in busy {
        let from = usize::try_from((start - first) / size).unwrap_or_default();
        for (chunk_start, chunk_end, used) in chunks.iter_mut().skip(from) {
            if *chunk_start >= end {
                break;
            }
            *used += i128::from(end.min(*chunk_end)) - i128::from(start.max(*chunk_start));
        }
    }
    chunks
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// No nanosecond of work is lost or counted twice, and the parts tile the time.
        #[test]
        fn chunks_hold_all_the_work(
            raw in proptest::collection::vec((1_i64..10_000, 0_i64..3_000), 1..40),
            parts in 1_u16..60,
        ) {
            let mut busy: Vec<Interval> =
                raw.iter().map(|(start, length)| (*start, start + length, ContextId(1))).collect();
            busy.sort_unstable();
            let first = busy[0].0;
            let last = busy.iter().map(|(_, end, _)| *end).max().unwrap();
            let chunks = chunks(&busy, first, last, parts);
            prop_assert!(chunks.len() <= usize::from(parts));
            prop_assert!(chunks.windows(2).all(|pair| pair[0].1 == pair[1].0));
            let work: i64 = busy.iter().map(|(start, end, _)| end - start).sum();
            prop_assert_eq!(chunks.iter().map(|(.., used)| *used).sum::<i128>(), i128::from(work));
        }
    }
}
