//! Memory operations, and calls of the runtime and driver.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use flopgap_files::present;
use flopgap_nsys::{ReportKind, ReportTable, Units};
use flopgap_report::ReportError;
use flopgap_report::table::{Cell, Column, Table};
use flopgap_table::Trace;
use flopgap_timings::Times;
use flopgap_trace::{CorrelationId, Recording, Summary, ThreadId, Values, WorkKind};

use super::trace::TracePage;
use super::{PageOptions, recorded};
use crate::error::Error;
use crate::open::Opened;
use crate::tables;

/// Copies and sets.
pub(crate) fn section(page: &mut TracePage, opened: &Opened) -> Result<(), Error> {
    let mut tables: Vec<Result<Table, ReportError>> = Vec::new();
    match opened.trace() {
        Trace::Nsys(trace) => {
            let reports = [
                (ReportKind::CudaGpuMemTimeSum, "Time of memory operations (cuda_gpu_mem_time_sum)"),
                (ReportKind::CudaGpuMemSizeSum, "Bytes of memory operations (cuda_gpu_mem_size_sum)"),
            ];
            for (kind, title) in reports {
                if let Some(found) = recorded::report(trace, kind)? {
                    tables.push(tables::report(title, &found, Units::default()));
                }
            }
        }
        Trace::Exports(job) => tables.extend(operations(&**job)?),
        Trace::Kineto(job) => tables.extend(operations(&**job)?),
    }
    if tables.is_empty() {
        page.skip("memory operations", "no copies and no sets were recorded");
        return Ok(());
    }
    page.heading("Memory operations");
    tables.into_iter().try_for_each(|table| page.table(table))
}

/// The copies and sets of a job by what its profiler calls them; nothing where there are none.
fn operations(job: &dyn Recording) -> Result<Option<Result<Table, ReportError>>, Error> {
    let mut sums: BTreeMap<String, (Vec<i64>, Option<i64>)> = BTreeMap::new();
    let read = job.each_operation(false, &mut |operation| {
        if matches!(operation.work.kind, WorkKind::Copy | WorkKind::Set) {
            let (durations, bytes) = sums.entry(operation.name.to_owned()).or_insert((Vec::new(), Some(0)));
            durations.push(operation.work.duration());
            *bytes = bytes.zip(operation.bytes).and_then(|(sum, bytes)| sum.checked_add(bytes));
        }
    });
    read?;
    let mut rows: Vec<(String, Times, Option<i64>)> = sums
        .into_iter()
        .filter_map(|(name, (durations, bytes))| Some((name, Times::of(durations)?, bytes)))
        .collect();
    rows.sort_by_key(|(_, times, _)| std::cmp::Reverse(times.total_ns));
    Ok((!rows.is_empty()).then(|| {
        let mut table = times_table("Time and bytes of memory operations", "operation", Some("bytes"))?;
        for (name, times, bytes) in &rows {
            table.push(times_row(name, times).into_iter().chain([Cell::from(*bytes)]))?;
        }
        Ok(table)
    }))
}

/// How long calls of the runtime and driver took by name, largest total first. A call that was
/// recorded twice, once with its backtrace, is one call.
pub(crate) fn call_times(trace: &dyn Recording) -> Result<Vec<(Arc<str>, Summary)>, Error> {
    let mut times: BTreeMap<Arc<str>, Values> = BTreeMap::new();
    let mut known: HashSet<(ThreadId, Option<CorrelationId>, i64)> = HashSet::new();
    let read = trace.each_call(&|_| true, &mut |call| {
        if known.insert((call.thread, call.correlation, call.start)) {
            let ns = call.end.saturating_sub(call.start);
            if let Some(own) = times.get_mut(call.name) {
                own.add(ns);
            } else {
                times.entry(call.name.into()).or_default().add(ns);
            }
        }
    });
    present(read)?;
    let summed = times.into_iter().filter_map(|(name, times)| Some((name, times.summary()?)));
    let mut summed: Vec<(Arc<str>, Summary)> = summed.collect();
    summed.sort_by_key(|(_, times)| std::cmp::Reverse(times.total));
    Ok(summed)
}

/// Calls of the CUDA APIs.
pub(crate) enum Calls {
    /// `cuda_api_sum`; nothing when none were recorded.
    Report(Option<ReportTable>),
    /// By name, largest total first.
    Times(Vec<(Arc<str>, Summary)>),
}

impl Calls {
    /// How many; nothing when none were recorded.
    pub(crate) fn count(&self) -> Option<i128> {
        match self {
            Calls::Report(found) => found.as_ref().map(recorded::api_calls),
            Calls::Times(calls) => {
                (!calls.is_empty()).then(|| calls.iter().map(|(_, times)| i128::from(times.count)).sum())
            }
        }
    }

    pub(crate) fn section(self, page: &mut TracePage, options: &PageOptions) -> Result<(), Error> {
        let (table, all) = match self {
            Calls::Report(Some(mut found)) => {
                let all = found.rows.len();
                found.rows.truncate(options.top);
                (tables::report("Host time by call (cuda_api_sum)", &found, Units::default()), all)
            }
            Calls::Times(calls) if !calls.is_empty() => {
                (calls_table(&calls[..options.top.min(calls.len())]), calls.len())
            }
            Calls::Report(None) | Calls::Times(_) => {
                page.skip("CUDA API calls", "none were recorded");
                return Ok(());
            }
        };
        page.heading("CUDA API calls");
        page.table(table)?;
        if all > options.top {
            page.text(format!("{} more are not shown.", all - options.top));
        }
        Ok(())
    }
}

fn calls_table(calls: &[(Arc<str>, Summary)]) -> Result<Table, ReportError> {
    let mut table = times_table("Host time by call", "call", None)?;
    for (name, times) in calls {
        table.push(times_row(name, &Times::from(*times)))?;
    }
    Ok(table)
}

fn times_table(title: &str, what: &str, more: Option<&str>) -> Result<Table, ReportError> {
    let mut columns = vec![
        Column::text(what.to_owned(), what.to_owned()),
        Column::number("count", "count"),
        Column::number("total_ns", "total").unit("ns").rank(0),
        Column::number("mean_ns", "mean").unit("ns"),
        Column::number("median_ns", "median").unit("ns").rank(2),
        Column::number("min_ns", "min").unit("ns").rank(2),
        Column::number("max_ns", "max").unit("ns"),
    ];
    columns.extend(more.map(|more| Column::number(more.to_owned(), more.to_owned())));
    Table::new(title, columns)
}

fn times_row(name: &str, times: &Times) -> [Cell; 7] {
    [
        Cell::text(name),
        Cell::from(times.count),
        Cell::from(times.total_ns),
        Cell::float(times.mean_ns, 1),
        Cell::float(times.median_ns, 1),
        Cell::from(times.min_ns),
        Cell::from(times.max_ns),
    ]
}
