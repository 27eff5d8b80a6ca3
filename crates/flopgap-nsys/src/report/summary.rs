//! Summaries of GPU work by kernel and operation.

use std::sync::Arc;

use flopgap_trace::Owners;

use super::api::calls_by_id;
use super::group::{Groups, fewest_first, grand_total, largest_first, times};
use super::memory;
use super::names::{api, shape};
use super::shared::{Kernels, Shared};
use super::table::{Columns, Sink};
use super::{KernelName, Report, ReportKind, ReportOptions};
use crate::error::if_recorded;
use crate::gpu_work::Backward;
use crate::launched::nesting;
use crate::tables::gpu::{kernel_durations, shaped_kernels};
use crate::{AttributeBy, Dim3, Error, Name, Summary, Trace};

static KERNELS: Columns =
    Columns::new("Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name");
static SHAPES: Columns = Columns::new(
    "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),\
     GridXYZ,BlockXYZ,Name",
);
static GPU: Columns = Columns::new(
    "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),\
     Category,Operation",
);

/// The times of kernels by the text of their name.
fn times_by_name(trace: &Trace, shared: &Shared, report: Report) -> Result<Arc<Kernels>, Error> {
    let names = report.names;
    if report.in_range {
        return Ok(Arc::new(durations_in_ranges(trace, names)?.summaries()));
    }
    shared.kernels(names).get(|| Ok(durations(trace, names)?.summaries()))
}

/// Kernel durations by the text of their name.
fn durations(trace: &Trace, names: KernelName) -> Result<Groups<Arc<str>>, Error> {
    let mut by_id = Groups::default();
    for kernel in kernel_durations(trace, names)? {
        let (duration, name) = kernel?;
        by_id.add(name, duration);
    }
    by_id.rekey(|id| trace.string_or_id(id))
}

/// Kernel durations by the text of `range/name`, with the innermost range (the one that began last)
/// around the launch, without its domain; by the name alone where there is none.
fn durations_in_ranges(trace: &Trace, names: KernelName) -> Result<Groups<Arc<str>>, Error> {
    // As with nsys, a filter chooses kernels, not the ranges around their launches.
    let whole = trace.with_filter(None);
    let Some(nvtx) = if_recorded(whole.nvtx_ranges())? else { return durations(trace, names) };
    let nesting = if_recorded(nesting(&whole, &Owners::of(&nvtx), AttributeBy::Thread))?;
    let Some(nesting) = nesting else { return durations(trace, names) };
    let mut groups: Groups<(Name, Option<Name>)> = Groups::default();
    let kernels = trace.named_kernels(names, false, Backward::AsNsys, |work, kernel| {
        let node = nesting.node(work.process, work.correlation);
        let around = node.and_then(|node| nesting.range_and_parent(node));
        groups.add((kernel, around.map(|(range, _)| nvtx.ranges[range].name)), work.duration());
    })?;
    groups.rekey(|(kernel, range)| {
        let kernel = kernels.text(kernel);
        Ok(range.map_or_else(
            || kernel.clone(),
            |range| format!("{}/{kernel}", nvtx.names.get(range).text).into(),
        ))
    })
}

/// `cuda_gpu_kern_sum`.
pub(super) fn kernels(
    trace: &Trace,
    shared: &Shared,
    report: Report,
    sink: &mut dyn Sink,
) -> Result<(), Error> {
    let mut summaries = times_by_name(trace, shared, report)?.to_vec();
    fewest_first(&mut summaries);
    let all = grand_total(&summaries);
    trace.writing(|| {
        sink.columns(&KERNELS)?;
        for (name, summary) in summaries {
            let mut row = times(&summary, all);
            row.push(name.into());
            sink.row(&row)?;
        }
        Ok(())
    })
}

/// `cuda_gpu_kern_gb_sum`.
pub(super) fn kernels_by_shape(trace: &Trace, names: KernelName, sink: &mut dyn Sink) -> Result<(), Error> {
    let mut by_id = Groups::default();
    for kernel in shaped_kernels(trace, names)? {
        let kernel = kernel?;
        by_id.add((kernel.name, kernel.grid, kernel.block), kernel.duration());
    }
    let by_text: Groups<(Arc<str>, Dim3, Dim3)> =
        by_id.rekey(|(id, grid, block)| Ok::<_, Error>((trace.string_or_id(id)?, grid, block)))?;
    let mut summaries = by_text.summaries();
    fewest_first(&mut summaries);
    let all = grand_total(&summaries);
    trace.writing(|| {
        sink.columns(&SHAPES)?;
        for ((name, grid, block), summary) in summaries {
            let mut row = times(&summary, all);
            row.extend([shape(grid).into(), shape(block).into(), name.into()]);
            sink.row(&row)?;
        }
        Ok(())
    })
}

/// `cuda_gpu_sum`, and `cuda_api_gpu_sum`: kernels, memory operations (and API calls) in one list.
pub(super) fn gpu(
    trace: &Trace,
    shared: &Shared,
    report: Report,
    options: ReportOptions,
    sink: &mut dyn Sink,
) -> Result<(), Error> {
    let mut summaries: Vec<((Arc<str>, &str), Summary)> = Vec::new();
    let mut absences = Vec::new();
    let mut add = |category, name: &Arc<str>, summary: &Summary| {
        summaries.push(((name.clone(), category), *summary));
    };
    match times_by_name(trace, shared, report) {
        Ok(kernels) => kernels.iter().for_each(|(name, times)| add("CUDA_KERNEL", name, times)),
        Err(error) => absences.push(error),
    }
    match memory::operations(trace, shared) {
        Ok(operations) => {
            operations.times.iter().for_each(|(label, times)| add("MEMORY_OPER", label, times));
        }
        Err(error) => absences.push(error),
    }
    if report.kind == ReportKind::CudaApiGpuSum {
        match calls_by_id(trace, options) {
            Ok(by_id) => {
                let by_name = by_id.rekey(|id| api(trace, id))?.summaries();
                for (name, times) in &by_name {
                    add("CUDA_API", name, times);
                }
            }
            Err(error) => absences.push(error),
        }
    }
    // Any one kind of work is enough; all three missing, or anything worse than missing, is an
    // error.
    if let Some(at) = absences.iter().position(|error| !error.is_no_table()) {
        return Err(absences.swap_remove(at));
    }
    if summaries.is_empty() && !absences.is_empty() {
        return Err(absences.swap_remove(0));
    }
    largest_first(&mut summaries);
    let all = grand_total(&summaries);
    trace.writing(|| {
        sink.columns(&GPU)?;
        for ((name, category), summary) in summaries {
            let mut row = times(&summary, all);
            row.extend([super::Value::text(category), name.into()]);
            sink.row(&row)?;
        }
        Ok(())
    })
}
