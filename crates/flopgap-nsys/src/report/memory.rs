//! Memory operations: time and bytes.

use std::sync::Arc;

use super::group::{Groups, grand_total, times};
use super::shared::{Operations, Shared};
use super::table::{Columns, Sink, Value};
use crate::error::if_recorded;
use crate::tables::gpu::{MEMCPY, copy_sizes, memset_sizes};
use crate::{CopyKind, Error, Trace};

static TIMES: Columns =
    Columns::new("Time (%),Total Time (ns),Count,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Operation");
static SIZES: Columns =
    Columns::new("Total (MB),Count,Avg (MB),Med (MB),Min (MB),Max (MB),StdDev (MB),Operation");

/// What nsys calls a copy of this kind.
pub(super) fn copy_name(kind: CopyKind) -> Arc<str> {
    match kind.label() {
        Some(label) => format!("[CUDA memcpy {label}]").into(),
        None => format!("[CUDA memcpy of unknown kind {kind}]").into(),
    }
}

/// What nsys calls a set.
pub(super) fn set_name() -> Arc<str> {
    "[CUDA memset]".into()
}

/// All copies and memsets.
///
/// # Errors
/// [`Error::NoTable`] when the trace has neither.
pub(super) fn operations(trace: &Trace, shared: &Shared) -> Result<Arc<Operations>, Error> {
    shared.operations.get(|| {
        let (mut times, mut bytes) = (Groups::default(), Groups::default());
        let (copies, sets) = (if_recorded(copy_sizes(trace))?, if_recorded(memset_sizes(trace))?);
        if copies.is_none() && sets.is_none() {
            trace.require(&MEMCPY)?;
        }
        for operation in copies.into_iter().flatten() {
            let operation = operation?;
            times.add(operation.kind, operation.duration());
            bytes.add(operation.kind, operation.bytes);
        }
        for operation in sets.into_iter().flatten() {
            let operation = operation?;
            times.add(operation.kind, operation.duration());
            bytes.add(operation.kind, operation.bytes);
        }
        let label = |kind: Option<CopyKind>| Ok::<_, Error>(kind.map_or_else(set_name, copy_name));
        Ok(Operations { times: times.rekey(label)?.summaries(), bytes: bytes.rekey(label)?.summaries() })
    })
}

/// `cuda_gpu_mem_time_sum`.
pub(super) fn times_of(trace: &Trace, shared: &Shared, sink: &mut dyn Sink) -> Result<(), Error> {
    let operations = operations(trace, shared)?;
    let all = grand_total(&operations.times);
    trace.writing(|| {
        sink.columns(&TIMES)?;
        for (label, summary) in &operations.times {
            let mut row = times(summary, all);
            row.push(label.clone().into());
            sink.row(&row)?;
        }
        Ok(())
    })
}

/// `cuda_gpu_mem_size_sum`.
pub(super) fn sizes(trace: &Trace, shared: &Shared, sink: &mut dyn Sink) -> Result<(), Error> {
    let operations = operations(trace, shared)?;
    trace.writing(|| {
        sink.columns(&SIZES)?;
        for (label, summary) in &operations.bytes {
            sink.row(&[
                Value::Int(summary.total),
                summary.count.into(),
                Value::Real(summary.mean),
                Value::Real(summary.median),
                summary.min.into(),
                summary.max.into(),
                Value::Real(summary.stddev),
                label.clone().into(),
            ])?;
        }
        Ok(())
    })
}
