//! `cuda_kern_exec_trace`: every kernel with the call that launched it: call, wait, run.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::names::{api, shape};
use super::table::{Columns, Sink};
use crate::KernelName;
use crate::launches::{Launches, Work};
use crate::tables::gpu::{Kind, LaunchId, NamedWork, launch_ids, placed_kernels};
use crate::{DeviceId, Dim3, Error, StringId, ThreadId, Trace};

static TRACE: Columns = Columns::new(
    "API Start (ns),API Dur (ns),Queue Start (ns),Queue Dur (ns),Kernel Start (ns),\
     Kernel Dur (ns),Total Dur (ns),PID,TID,DevId,API Function,GridXYZ,BlockXYZ,Kernel Name",
);

/// A kernel and the call that launched it.
struct Execution {
    call_start: i64,
    call_end: i64,
    start: i64,
    end: i64,
    thread: ThreadId,
    device: DeviceId,
    call: StringId,
    kernel: StringId,
    grid: Dim3,
    block: Dim3,
}

impl Execution {
    /// From the return of the call to the start of the kernel; `None` when it started before the
    /// call returned.
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
    let mut work = Work::default();
    for id in launch_ids(trace, Kind::Kernel)? {
        let LaunchId { process, correlation } = id?;
        work.add(process, correlation);
    }
    let launches = Launches::of_work(trace, &work)?;
    let mut executions = Vec::new();
    for kernel in placed_kernels(trace, names)? {
        let (NamedWork { work, name: kernel }, grid, block) = kernel?;
        let Some(call) = launches.find(work.process, work.correlation) else { continue };
        executions.push(Execution {
            call_start: call.start,
            call_end: call.end,
            start: work.start,
            end: work.end,
            thread: call.thread,
            device: work.device,
            call: call.name,
            kernel: StringId(kernel),
            grid,
            block,
        });
    }
    Ok(executions)
}

/// Texts by id.
type Texts = FxHashMap<StringId, Arc<str>>;

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
