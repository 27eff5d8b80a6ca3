//! Kernels with the calls that launched them: call, wait, run.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::KernelName;
use super::names::{api, shape};
use super::table::{Column, Sink, Unit, Value};
use crate::launches::Launches;
use crate::tables::KERNEL;
use crate::trace::{need, want};
use crate::{Error, GlobalId, Summary, Trace};

static SUM: [Column; 27] = [
    Column::new("PID", Unit::Plain),
    Column::new("TID", Unit::Plain),
    Column::new("DevId", Unit::Plain),
    Column::new("Count", Unit::Plain),
    Column::new("QCount", Unit::Plain),
    Column::new("TAvg", Unit::Time),
    Column::new("TMed", Unit::Time),
    Column::new("TMin", Unit::Time),
    Column::new("TMax", Unit::Time),
    Column::new("TStdDev", Unit::Time),
    Column::new("AAvg", Unit::Time),
    Column::new("AMed", Unit::Time),
    Column::new("AMin", Unit::Time),
    Column::new("AMax", Unit::Time),
    Column::new("AStdDev", Unit::Time),
    Column::new("QAvg", Unit::Time),
    Column::new("QMed", Unit::Time),
    Column::new("QMin", Unit::Time),
    Column::new("QMax", Unit::Time),
    Column::new("QStdDev", Unit::Time),
    Column::new("KAvg", Unit::Time),
    Column::new("KMed", Unit::Time),
    Column::new("KMin", Unit::Time),
    Column::new("KMax", Unit::Time),
    Column::new("KStdDev", Unit::Time),
    Column::new("API Name", Unit::Plain),
    Column::new("Kernel Name", Unit::Plain),
];
static TRACE: [Column; 14] = [
    Column::new("API Start", Unit::Time),
    Column::new("API Dur", Unit::Time),
    Column::new("Queue Start", Unit::Time),
    Column::new("Queue Dur", Unit::Time),
    Column::new("Kernel Start", Unit::Time),
    Column::new("Kernel Dur", Unit::Time),
    Column::new("Total Dur", Unit::Time),
    Column::new("PID", Unit::Plain),
    Column::new("TID", Unit::Plain),
    Column::new("DevId", Unit::Plain),
    Column::new("API Function", Unit::Plain),
    Column::new("GridXYZ", Unit::Plain),
    Column::new("BlockXYZ", Unit::Plain),
    Column::new("Kernel Name", Unit::Plain),
];

/// A kernel and the call that launched it.
struct Execution {
    call_start: i64,
    call_end: i64,
    start: i64,
    end: i64,
    thread: GlobalId,
    device: i64,
    call: i64,
    kernel: i64,
    grid: [i64; 3],
    block: [i64; 3],
}

impl Execution {
    /// From the return of the call to the start of the kernel; nothing when it started before the call returned.
    fn queued(&self) -> Option<i64> {
        (self.start >= self.call_end).then(|| self.start.saturating_sub(self.call_end))
    }

    fn total(&self) -> i64 {
        self.call_end.max(self.end).saturating_sub(self.call_start)
    }

    fn call_duration(&self) -> i64 {
        self.call_end.saturating_sub(self.call_start)
    }

    fn duration(&self) -> i64 {
        self.end.saturating_sub(self.start)
    }
}

/// Every kernel whose launch was recorded, in the order of the file.
fn executions(trace: &Trace, names: KernelName) -> Result<Vec<Execution>, Error> {
    trace.require(&KERNEL)?;
    let launches = Launches::read(trace)?;
    let mut executions = Vec::new();
    let [first, second] = names.columns();
    let columns = [
        need("start"),
        need("end"),
        need("deviceId"),
        want("correlationId"),
        want("globalPid"),
        first,
        second,
        need("gridX"),
        need("gridY"),
        need("gridZ"),
        need("blockX"),
        need("blockY"),
        need("blockZ"),
    ];
    trace.scan(&KERNEL, &columns, |row| {
        let kernel = row.int(5).or_else(|| row.int(6))?;
        let (start, end, device) = (row.int(0)?, row.int(1)?, row.int(2)?);
        let grid = [row.int(7)?, row.int(8)?, row.int(9)?];
        let block = [row.int(10)?, row.int(11)?, row.int(12)?];
        let call = launches.of(row.int(4).map(GlobalId), row.int(3));
        let execution = call.and_then(|call| {
            let (call_start, call_end, thread, call) = (call.start, call.end, call.thread?, call.name);
            Some(Execution { call_start, call_end, start, end, thread, device, call, kernel, grid, block })
        });
        executions.extend(execution);
        Some(())
    })?;
    Ok(executions)
}

/// Texts by id.
type Texts = FxHashMap<i64, Arc<str>>;

fn texts(trace: &Trace, executions: &[Execution]) -> Result<(Texts, Texts), Error> {
    let (mut calls, mut kernels) = (Texts::default(), Texts::default());
    for execution in executions {
        if let Entry::Vacant(entry) = calls.entry(execution.call) {
            entry.insert(api(trace, execution.call)?);
        }
        if let Entry::Vacant(entry) = kernels.entry(execution.kernel) {
            entry.insert(trace.string_or_id(execution.kernel)?);
        }
    }
    Ok((calls, kernels))
}

/// `cuda_kern_exec_trace`.
pub(super) fn trace(trace: &Trace, names: KernelName, sink: &mut dyn Sink) -> Result<(), Error> {
    let mut executions = executions(trace, names)?;
    let (calls, kernels) = texts(trace, &executions)?;
    executions.sort_by_key(|execution| execution.call_start);
    trace.writing(|| {
        sink.columns(&TRACE)?;
        for execution in &executions {
            let queued = execution.queued();
            sink.row(&[
                execution.call_start.into(),
                execution.call_duration().into(),
                queued.map(|_| execution.call_end).into(),
                queued.into(),
                execution.start.into(),
                execution.duration().into(),
                execution.total().into(),
                execution.thread.pid().into(),
                execution.thread.tid().into(),
                execution.device.into(),
                calls[&execution.call].clone().into(),
                shape(execution.grid).into(),
                shape(execution.block).into(),
                kernels[&execution.kernel].clone().into(),
            ])?;
        }
        Ok(())
    })
}

/// What a row of the summary is about: thread, device, call, kernel.
type Group<'a> = (GlobalId, i64, &'a Arc<str>, &'a Arc<str>);

/// The times of all executions of one group.
#[derive(Default)]
struct Times {
    total: Vec<i64>,
    call: Vec<i64>,
    queued: Vec<i64>,
    kernel: Vec<i64>,
}

/// `cuda_kern_exec_sum`.
pub(super) fn sum(trace: &Trace, names: KernelName, sink: &mut dyn Sink) -> Result<(), Error> {
    let executions = executions(trace, names)?;
    let (calls, kernels) = texts(trace, &executions)?;
    let mut groups: FxHashMap<Group<'_>, Times> = FxHashMap::default();
    for execution in &executions {
        let key = (execution.thread, execution.device, &calls[&execution.call], &kernels[&execution.kernel]);
        let times = groups.entry(key).or_default();
        times.total.push(execution.total());
        times.call.push(execution.call_duration());
        times.queued.extend(execution.queued());
        times.kernel.push(execution.duration());
    }
    let rows = groups.into_iter().filter_map(|(key, mut times)| {
        let total = Summary::of(&mut times.total)?;
        let queued = Summary::of(&mut times.queued);
        Some((key, [Some(total), Summary::of(&mut times.call), queued, Summary::of(&mut times.kernel)]))
    });
    let mut rows: Vec<_> = rows.collect();
    let mean = |summaries: &[Option<Summary>; 4]| summaries[0].map_or(0.0, |total| total.mean);
    rows.sort_by(|(key, one), (other_key, other)| {
        mean(other).total_cmp(&mean(one)).then_with(|| key.cmp(other_key))
    });
    trace.writing(|| {
        sink.columns(&SUM)?;
        for ((thread, device, call, kernel), summaries) in rows {
            let count = |summary: Option<Summary>| summary.map_or(0, |summary| summary.count);
            let mut row: Vec<Value> = vec![
                thread.pid().into(),
                thread.tid().into(),
                device.into(),
                count(summaries[0]).into(),
                count(summaries[2]).into(),
            ];
            for summary in summaries {
                row.extend([
                    summary.map_or(Value::Absent, |summary| Value::Real(summary.mean)),
                    summary.map_or(Value::Absent, |summary| Value::Real(summary.median)),
                    summary.map(|summary| summary.min).into(),
                    summary.map(|summary| summary.max).into(),
                    // nsys prints a deviation of 0 even where no kernel waited.
                    Value::Real(summary.map_or(0.0, |summary| summary.stddev)),
                ]);
            }
            row.extend([call.clone().into(), kernel.clone().into()]);
            sink.row(&row)?;
        }
        Ok(())
    })
}
