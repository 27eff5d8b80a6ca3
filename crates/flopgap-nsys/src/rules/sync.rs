//! Calls that make the host wait.

use std::cmp::Reverse;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::RuleOptions;
use crate::launches::Launches;
use crate::report::{Column, Sink, Unit, Value};
use crate::tables::MEMSET;
use crate::{ApiCall, Error, GlobalId, MemoryCopy, Trace, memory_label};

static CALLS: [Column; 5] = [
    Column::new("Duration", Unit::Time),
    Column::new("Start", Unit::Time),
    Column::new("PID", Unit::Plain),
    Column::new("TID", Unit::Plain),
    Column::new("API Name", Unit::Plain),
];
static COPIES: [Column; 11] = [
    Column::new("Duration", Unit::Time),
    Column::new("Start", Unit::Time),
    Column::new("Src Kind", Unit::Plain),
    Column::new("Dst Kind", Unit::Plain),
    Column::new("Bytes", Unit::Memory),
    Column::new("PID", Unit::Plain),
    Column::new("Device ID", Unit::Plain),
    Column::new("Context ID", Unit::Plain),
    Column::new("Green Context ID", Unit::Plain),
    Column::new("Stream ID", Unit::Plain),
    Column::new("API Name", Unit::Plain),
];
static SETS: [Column; 10] = [
    Column::new("Duration", Unit::Time),
    Column::new("Start", Unit::Time),
    Column::new("Memory Kind", Unit::Plain),
    Column::new("Bytes", Unit::Memory),
    Column::new("PID", Unit::Plain),
    Column::new("Device ID", Unit::Plain),
    Column::new("Context ID", Unit::Plain),
    Column::new("Green Context ID", Unit::Plain),
    Column::new("Stream ID", Unit::Plain),
    Column::new("API Name", Unit::Plain),
];

const PAGEABLE: i64 = 0;
const PINNED: i64 = 1;
const MANAGED: i64 = 4;
const HOST_TO_DEVICE: i64 = 1;
const DEVICE_TO_DEVICE: i64 = 8;
/// Up to this size a copy to the device returns before it is done.
const SMALL: i64 = 64_000;

/// The names of calls, each looked up once.
struct CallNames<'a> {
    trace: &'a Trace,
    texts: FxHashMap<i64, Arc<str>>,
}

impl<'a> CallNames<'a> {
    fn new(trace: &'a Trace) -> CallNames<'a> {
        CallNames { trace, texts: FxHashMap::default() }
    }

    fn get(&mut self, id: i64) -> Result<Arc<str>, Error> {
        if let Some(text) = self.texts.get(&id) {
            return Ok(text.clone());
        }
        let text = self.trace.string_or_id(id)?;
        self.texts.insert(id, text.clone());
        Ok(text)
    }
}

/// Whether a name begins with `prefix`, in any case, as SQL's LIKE compares.
fn begins_with(name: &str, prefix: &str) -> bool {
    name.get(..prefix.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(prefix))
}

/// Whether a name of an API call says that it does not wait.
fn is_async(name: &str) -> bool {
    name.to_ascii_lowercase().contains("async")
}

/// `cuda_api_sync`.
pub(super) fn waiting_calls(trace: &Trace, options: &RuleOptions, sink: &mut dyn Sink) -> Result<(), Error> {
    let mut calls: Vec<ApiCall> = Vec::new();
    trace.api_calls(|call| calls.push(call))?;
    calls.sort_by_key(|call| Reverse(call.end.saturating_sub(call.start)));
    let mut names = CallNames::new(trace);
    let mut rows = Vec::new();
    for call in calls {
        let name = names.get(call.name)?;
        if ["cudaDeviceSynchronize", "cudaStreamSynchronize"].iter().any(|waits| begins_with(&name, waits)) {
            rows.push([
                call.end.saturating_sub(call.start).into(),
                call.start.into(),
                call.thread.map(GlobalId::pid).into(),
                call.thread.map(GlobalId::tid).into(),
                name.into(),
            ]);
        }
        if rows.len() >= options.limit() {
            break;
        }
    }
    write(trace, sink, &CALLS, &rows)
}

/// `cuda_memcpy_async`.
pub(super) fn pageable_copies(
    trace: &Trace,
    options: &RuleOptions,
    sink: &mut dyn Sink,
) -> Result<(), Error> {
    copies(trace, options, sink, |copy, name| {
        [copy.source, copy.destination].contains(&Some(PAGEABLE)) && is_async(name)
    })
}

/// `cuda_memcpy_sync`.
pub(super) fn waiting_copies(trace: &Trace, options: &RuleOptions, sink: &mut dyn Sink) -> Result<(), Error> {
    copies(trace, options, sink, |copy, name| {
        let small = copy.kind == HOST_TO_DEVICE && copy.bytes <= SMALL;
        // Exports name the devices only where they may differ. nsys means to leave all copies within a device out, but then lists
        // those that name none.
        let one_device = copy.source_device == copy.destination_device;
        let within = one_device && (copy.source_device.is_some() || copy.kind == DEVICE_TO_DEVICE);
        !is_async(name) && !small && !within
    })
}

fn copies(
    trace: &Trace,
    options: &RuleOptions,
    sink: &mut dyn Sink,
    found: impl Fn(&MemoryCopy, &str) -> bool,
) -> Result<(), Error> {
    let mut copies = Vec::new();
    trace.copies(|copy| copies.push(copy))?;
    let launches = Launches::read(&trace.unfiltered())?;
    copies.sort_by_key(|copy| Reverse(copy.at.duration()));
    let mut names = CallNames::new(trace);
    let mut rows = Vec::new();
    for copy in &copies {
        let Some(call) = launches.of(copy.at.process, copy.at.correlation) else { continue };
        let name = names.get(call.name)?;
        if begins_with(&name, "cudaMemcpy") && found(copy, &name) {
            rows.push([
                copy.at.duration().into(),
                copy.at.start.into(),
                memory(copy.source),
                memory(copy.destination),
                copy.bytes.into(),
                call.thread.map(GlobalId::pid).into(),
                copy.at.device.into(),
                copy.at.context.into(),
                copy.at.green_context.filter(|context| *context != 0).into(),
                copy.at.stream.into(),
                name.into(),
            ]);
        }
        if rows.len() >= options.limit() {
            break;
        }
    }
    write(trace, sink, &COPIES, &rows)
}

/// `cuda_memset_sync`.
pub(super) fn waiting_sets(trace: &Trace, options: &RuleOptions, sink: &mut dyn Sink) -> Result<(), Error> {
    trace.require(&MEMSET)?;
    let launches = Launches::read(&trace.unfiltered())?;
    let mut sets = Vec::new();
    trace.sets(|set| sets.push(set))?;
    sets.sort_by_key(|set| Reverse(set.at.duration()));
    let mut names = CallNames::new(trace);
    let mut rows = Vec::new();
    for set in sets.iter().filter(|set| [Some(PINNED), Some(MANAGED)].contains(&set.memory)) {
        let Some(call) = launches.of(set.at.process, set.at.correlation) else { continue };
        let name = names.get(call.name)?;
        if begins_with(&name, "cudaMemset") && !is_async(&name) {
            rows.push([
                set.at.duration().into(),
                set.at.start.into(),
                memory(set.memory),
                set.bytes.into(),
                call.thread.map(GlobalId::pid).into(),
                set.at.device.into(),
                set.at.context.into(),
                set.at.green_context.filter(|context| *context != 0).into(),
                set.at.stream.into(),
                name.into(),
            ]);
        }
        if rows.len() >= options.limit() {
            break;
        }
    }
    write(trace, sink, &SETS, &rows)
}

fn memory(kind: Option<i64>) -> Value {
    match kind {
        Some(kind) => memory_label(kind).map_or_else(|| kind.into(), Value::text),
        None => Value::Absent,
    }
}

fn write<const N: usize>(
    trace: &Trace,
    sink: &mut dyn Sink,
    columns: &'static [Column],
    rows: &[[Value; N]],
) -> Result<(), Error> {
    trace.writing(|| {
        sink.columns(columns)?;
        rows.iter().try_for_each(|row| sink.row(row))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_as_sql_does() {
        assert!(begins_with("CUDAMEMCPY2D_v3020", "cudaMemcpy"));
        assert!(!begins_with("cuMemcpyHtoD_v2", "cudaMemcpy") && !begins_with("cu", "cudaMemcpy"));
        assert!(is_async("cudaMemcpyAsync_v3020") && !is_async("cudaMemcpy_v3020"));
    }
}
