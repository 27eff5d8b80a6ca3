//! Summaries of GPU work by kernel and operation.

use std::sync::Arc;

use super::KernelName;
use super::group::{Groups, fewest_first, grand_total, largest_first, times, with_times};
use super::memory;
use super::names::{api, shape};
use super::shared::{Kernels, Shared};
use super::table::{Column, Sink, Unit};
use crate::tables::{KERNEL, RUNTIME};
use crate::trace::need;
use crate::{Error, Summary, Trace};

static KERNELS: [Column; 9] = with_times("Instances", [Column::new("Name", Unit::Plain)]);
static SHAPES: [Column; 11] = with_times(
    "Instances",
    [
        Column::new("GridXYZ", Unit::Plain),
        Column::new("BlockXYZ", Unit::Plain),
        Column::new("Name", Unit::Plain),
    ],
);
static GPU: [Column; 10] =
    with_times("Instances", [Column::new("Category", Unit::Plain), Column::new("Operation", Unit::Plain)]);

/// The times of kernels by the text of their name.
fn times_by_name(trace: &Trace, shared: &Shared, names: KernelName) -> Result<Arc<Kernels>, Error> {
    shared.kernels(names).get(|| Ok(durations(trace, names)?.summaries()))
}

/// Kernel durations by the text of their name.
fn durations(trace: &Trace, names: KernelName) -> Result<Groups<Arc<str>>, Error> {
    let mut by_id = Groups::default();
    let [first, second] = names.columns();
    trace.scan(&KERNEL, &[need("start"), need("end"), first, second], |row| {
        let name = row.int(2).or_else(|| row.int(3))?;
        by_id.add(name, row.int(1)?.saturating_sub(row.int(0)?));
        Some(())
    })?;
    by_id.rekey(|id| trace.string_or_id(id))
}

/// `cuda_gpu_kern_sum`.
pub(super) fn kernels(
    trace: &Trace,
    shared: &Shared,
    names: KernelName,
    sink: &mut dyn Sink,
) -> Result<(), Error> {
    let mut summaries = times_by_name(trace, shared, names)?.to_vec();
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
    let [first, second] = names.columns();
    let columns = [
        need("start"),
        need("end"),
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
        let name = row.int(2).or_else(|| row.int(3))?;
        let grid = [row.int(4)?, row.int(5)?, row.int(6)?];
        let block = [row.int(7)?, row.int(8)?, row.int(9)?];
        by_id.add((name, grid, block), row.int(1)?.saturating_sub(row.int(0)?));
        Some(())
    })?;
    let by_text: Groups<(Arc<str>, [i64; 3], [i64; 3])> =
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

/// `cuda_gpu_sum`, and with `calls` `cuda_api_gpu_sum`: kernels, memory operations (and API calls) in one list.
pub(super) fn gpu(
    trace: &Trace,
    shared: &Shared,
    names: KernelName,
    calls: bool,
    sink: &mut dyn Sink,
) -> Result<(), Error> {
    let mut summaries: Vec<((Arc<str>, &str), Summary)> = Vec::new();
    let mut absences = Vec::new();
    let mut add = |category, name: &Arc<str>, summary: &Summary| {
        summaries.push(((name.clone(), category), *summary));
    };
    match times_by_name(trace, shared, names) {
        Ok(kernels) => kernels.iter().for_each(|(name, times)| add("CUDA_KERNEL", name, times)),
        Err(error) => absences.push(error),
    }
    match memory::operations(trace, shared) {
        Ok(operations) => {
            operations.times.iter().for_each(|(label, times)| add("MEMORY_OPER", label, times));
        }
        Err(error) => absences.push(error),
    }
    if calls {
        let mut by_id = Groups::default();
        let found = trace.scan(&RUNTIME, &[need("start"), need("end"), need("nameId")], |row| {
            by_id.add(row.int(2)?, row.int(1)?.saturating_sub(row.int(0)?));
            Some(())
        });
        match found {
            Ok(()) => {
                let by_name = by_id.rekey(|id| api(trace, id))?.summaries();
                for (name, times) in &by_name {
                    add("CUDA_API", name, times);
                }
            }
            Err(error) => absences.push(error),
        }
    }
    // Any one kind of work is enough; all three missing, or anything worse than missing, is an error.
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
