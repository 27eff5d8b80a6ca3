//! Memory operations: time and bytes.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::group::{Groups, grand_total, times, with_times};
use super::table::{Column, Sink, Unit, Value};
use crate::tables::{MEMCPY, MEMSET};
use crate::trace::need;
use crate::{Error, Trace, copy_label};

static TIMES: [Column; 9] = with_times("Count", [Column::new("Operation", Unit::Plain)]);
static SIZES: [Column; 8] = [
    Column::new("Total", Unit::Memory),
    Column::new("Count", Unit::Plain),
    Column::new("Avg", Unit::Memory),
    Column::new("Med", Unit::Memory),
    Column::new("Min", Unit::Memory),
    Column::new("Max", Unit::Memory),
    Column::new("StdDev", Unit::Memory),
    Column::new("Operation", Unit::Plain),
];

/// A copy or set, as far as summaries need it.
pub(super) struct Operation {
    pub(super) label: Arc<str>,
    pub(super) duration: i64,
    bytes: i64,
}

/// What nsys calls a copy of this kind.
pub(super) fn copy_name(kind: i64) -> Arc<str> {
    match copy_label(kind) {
        Some(label) => format!("[CUDA memcpy {label}]").into(),
        None => format!("[CUDA memcpy of unknown kind {kind}]").into(),
    }
}

/// What nsys calls a set.
pub(super) fn set_name() -> Arc<str> {
    "[CUDA memset]".into()
}

/// Calls `visit` with every copy and every set.
///
/// # Errors
/// [`Error::NoTable`] when the trace has neither.
pub(super) fn operations(trace: &Trace, mut visit: impl FnMut(Operation)) -> Result<(), Error> {
    let mut labels: FxHashMap<i64, Arc<str>> = FxHashMap::default();
    let columns = [need("start"), need("end"), need("bytes"), need("copyKind")];
    let copies = trace.scan(&MEMCPY, &columns, |row| {
        let (start, end, bytes, kind) = (row.int(0)?, row.int(1)?, row.int(2)?, row.int(3)?);
        let label = labels.entry(kind).or_insert_with(|| copy_name(kind)).clone();
        visit(Operation { label, duration: end.saturating_sub(start), bytes });
        Some(())
    });
    let label = set_name();
    let sets = trace.scan(&MEMSET, &[need("start"), need("end"), need("bytes")], |row| {
        let (start, end, bytes) = (row.int(0)?, row.int(1)?, row.int(2)?);
        visit(Operation { label: label.clone(), duration: end.saturating_sub(start), bytes });
        Some(())
    });
    match (copies, sets) {
        (Err(error), _) | (_, Err(error)) if !error.is_no_table() => Err(error),
        (Err(error), Err(_)) => Err(error),
        _ => Ok(()),
    }
}

/// `cuda_gpu_mem_time_sum`.
pub(super) fn times_of(trace: &Trace, sink: &mut dyn Sink) -> Result<(), Error> {
    let mut groups: Groups<Arc<str>> = Groups::default();
    operations(trace, |operation| groups.add(operation.label, operation.duration))?;
    let summaries = groups.summaries();
    let all = grand_total(&summaries);
    trace.writing(|| {
        sink.columns(&TIMES)?;
        for (label, summary) in summaries {
            let mut row = times(&summary, all);
            row.push(label.into());
            sink.row(&row)?;
        }
        Ok(())
    })
}

/// `cuda_gpu_mem_size_sum`.
pub(super) fn sizes(trace: &Trace, sink: &mut dyn Sink) -> Result<(), Error> {
    let mut groups: Groups<Arc<str>> = Groups::default();
    operations(trace, |operation| groups.add(operation.label, operation.bytes))?;
    trace.writing(|| {
        sink.columns(&SIZES)?;
        for (label, summary) in groups.summaries() {
            sink.row(&[
                Value::Int(summary.total),
                summary.count.into(),
                Value::Real(summary.mean),
                Value::Real(summary.median),
                summary.min.into(),
                summary.max.into(),
                Value::Real(summary.stddev),
                label.into(),
            ])?;
        }
        Ok(())
    })
}
