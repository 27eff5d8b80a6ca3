//! `cuda_kern_exec_trace`: every kernel with the call that launched it: call, wait, run.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::KernelName;
use super::names::{api, shape};
use super::table::{Column, Sink, Unit};
use crate::launches::{Launches, Work};
use crate::tables::{KERNEL, need, want};
use crate::{Error, GlobalId, Trace};

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
    let mut work = Work::default();
    trace.scan(&KERNEL, &[want("globalPid"), want("correlationId")], |row| {
        work.add(row.int(0).map(GlobalId), row.int(1));
        Some(())
    })?;
    let launches = Launches::of_work(trace, &work)?;
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
        let execution = call.map(|call| {
            let (call_start, call_end, thread, call) = (call.start, call.end, call.thread, call.name);
            Execution { call_start, call_end, start, end, thread, device, call, kernel, grid, block }
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
