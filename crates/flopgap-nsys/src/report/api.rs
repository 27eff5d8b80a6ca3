//! CUDA API and operating system calls.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use flopgap_files::present;
use rustc_hash::FxHashMap;

use super::group::{Groups, grand_total, times};
use super::names::{api, without_version};
use super::options::ReportOptions;
use super::table::{Columns, Sink, Value};
use crate::repeats::Repeats;
use crate::tables::host::{NamedCall, api_calls, named_calls, os_calls};
use crate::{ApiCall, Error, StringId, ThreadId, ThreadName, Trace};

static CALLS: Columns =
    Columns::new("Time (%),Total Time (ns),Num Calls,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name");
static TRACE: Columns = Columns::new("Start (ns),Duration (ns),Name,Result,CorrID,Pid,Tid,T-Pri,Thread Name");

/// `cuda_api_sum`.
pub(super) fn sum(trace: &Trace, options: ReportOptions, sink: &mut dyn Sink) -> Result<(), Error> {
    // nsys groups by id before it cuts versions off: two versions of one call stay two rows of the
    // same name.
    print(trace, calls_by_id(trace, options)?, sink, without_version)
}

/// The durations of CUDA API calls by the id of their names.
pub(super) fn calls_by_id(trace: &Trace, options: ReportOptions) -> Result<Groups<StringId>, Error> {
    let (mut by_id, mut backtraces) = (Groups::default(), false);
    for call in named_calls(trace)? {
        let NamedCall { duration, name, has_backtrace } = call?;
        backtraces |= has_backtrace;
        by_id.add(name, duration);
    }
    if !backtraces {
        return Ok(by_id);
    }
    let repeats = Repeats::read(trace)?;
    if !options.calls_once {
        repeats.warn(trace)?;
        return Ok(by_id);
    }
    let mut by_id = Groups::default();
    for call in api_calls(trace)? {
        let call = call?;
        if !repeats.repeats(call.id()) {
            by_id.add(call.name, call.duration());
        }
    }
    Ok(by_id)
}

/// `osrt_sum`.
pub(super) fn osrt(trace: &Trace, sink: &mut dyn Sink) -> Result<(), Error> {
    let mut by_id = Groups::default();
    for call in os_calls(trace)? {
        let call = call?;
        if call.is_call() {
            by_id.add(call.name, call.end.saturating_sub(call.start));
        }
    }
    print(trace, by_id, sink, Arc::clone)
}

fn print(
    trace: &Trace,
    by_id: Groups<StringId>,
    sink: &mut dyn Sink,
    printed: impl Fn(&Arc<str>) -> Arc<str>,
) -> Result<(), Error> {
    let summaries = by_id.rekey(|id| Ok::<_, Error>((trace.string_or_id(id)?, id)))?.summaries();
    let all = grand_total(&summaries);
    trace.writing(|| {
        sink.columns(&CALLS)?;
        for ((name, _), summary) in summaries {
            let mut row = times(&summary, all);
            row.push(printed(&name).into());
            sink.row(&row)?;
        }
        Ok(())
    })
}

/// The priority and the name of each thread.
type Threads = FxHashMap<ThreadId, (Option<i64>, Arc<str>)>;

/// All threads that have names; none where the trace does not say.
fn threads(trace: &Trace) -> Result<Threads, Error> {
    let mut threads = FxHashMap::default();
    for ThreadName { thread, name, priority } in present(trace.thread_names())?.unwrap_or_default() {
        // A thread may be renamed; its calls are listed once, under the first name.
        if let Entry::Vacant(entry) = threads.entry(thread) {
            entry.insert((priority, trace.string_or_id(name)?));
        }
    }
    Ok(threads)
}

/// `cuda_api_trace`.
pub(super) fn trace(trace: &Trace, options: ReportOptions, sink: &mut dyn Sink) -> Result<(), Error> {
    let mut calls: Vec<ApiCall> = api_calls(trace)?.collect::<Result<_, _>>()?;
    if calls.iter().any(ApiCall::has_backtrace) {
        let repeats = Repeats::among(&calls);
        if options.calls_once {
            calls.retain(|call| !repeats.repeats(call.id()));
        } else {
            repeats.warn(trace)?;
        }
    }
    calls.sort_by_key(|call| call.start);
    let threads = threads(trace)?;
    let mut names: FxHashMap<StringId, Arc<str>> = FxHashMap::default();
    for call in &calls {
        if let Entry::Vacant(entry) = names.entry(call.name) {
            entry.insert(api(trace, call.name)?);
        }
    }
    trace.writing(|| {
        sink.columns(&TRACE)?;
        for call in &calls {
            let thread = call.thread.and_then(|thread| threads.get(&thread));
            sink.row(&[
                call.start.into(),
                call.duration().into(),
                names[&call.name].clone().into(),
                call.result.into(),
                call.correlation.into(),
                call.thread.map(ThreadId::pid).into(),
                call.thread.map(ThreadId::tid).into(),
                thread.and_then(|(priority, _)| *priority).into(),
                thread.map_or(Value::Absent, |(_, name)| name.clone().into()),
            ])?;
        }
        Ok(())
    })
}
