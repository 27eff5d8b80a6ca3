//! CUDA API and operating system calls.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::group::{Groups, grand_total, times, with_times};
use super::names::{api, without_version};
use super::options::ReportOptions;
use super::table::{Column, Sink, Unit, Value};
use crate::repeats::Repeats;
use crate::tables::{BACKTRACE, OSRT, RUNTIME, THREADS, need, want};
use crate::{ApiCall, Error, GlobalId, Trace};

static CALLS: [Column; 9] = with_times("Num Calls", [Column::new("Name", Unit::Plain)]);
static TRACE: [Column; 9] = [
    Column::new("Start", Unit::Time),
    Column::new("Duration", Unit::Time),
    Column::new("Name", Unit::Plain),
    Column::new("Result", Unit::Plain),
    Column::new("CorrID", Unit::Plain),
    Column::new("Pid", Unit::Plain),
    Column::new("Tid", Unit::Plain),
    Column::new("T-Pri", Unit::Plain),
    Column::new("Thread Name", Unit::Plain),
];

/// The event class of a call of the operating system's libraries.
const OSRT_CLASS: i64 = 27;

/// `cuda_api_sum`.
pub(super) fn sum(trace: &Trace, options: ReportOptions, sink: &mut dyn Sink) -> Result<(), Error> {
    // nsys groups by id before it cuts versions off: two versions of one call stay two rows of the same name.
    print(trace, calls_by_id(trace, options)?, sink, without_version)
}

/// The durations of CUDA API calls by the id of their names.
pub(super) fn calls_by_id(trace: &Trace, options: ReportOptions) -> Result<Groups<i64>, Error> {
    let columns = [
        need("start"),
        need("end"),
        need("nameId"),
        want("eventClass"),
        want("globalTid"),
        want("correlationId"),
    ];
    let read = |repeats: Option<&Repeats>| -> Result<(Groups<i64>, bool), Error> {
        let (mut by_id, mut backtraces) = (Groups::default(), false);
        trace.scan(&RUNTIME, &columns, |row| {
            let (start, end, name, class) = (row.int(0)?, row.int(1)?, row.int(2)?, row.int(3));
            backtraces |= class == Some(BACKTRACE);
            let repeated =
                repeats.is_some_and(|repeats| repeats.repeats(class, row.int(4).map(GlobalId), row.int(5)));
            if !repeated {
                by_id.add(name, end.saturating_sub(start));
            }
            Some(())
        })?;
        Ok((by_id, backtraces))
    };
    let (by_id, backtraces) = read(None)?;
    if !backtraces {
        return Ok(by_id);
    }
    let repeats = Repeats::read(trace)?;
    if options.calls_once {
        return Ok(read(Some(&repeats))?.0);
    }
    repeats.warn(trace)?;
    Ok(by_id)
}

/// `osrt_sum`.
pub(super) fn osrt(trace: &Trace, sink: &mut dyn Sink) -> Result<(), Error> {
    let mut by_id = Groups::default();
    trace.scan(&OSRT, &[need("start"), need("end"), need("nameId"), want("eventClass")], |row| {
        let (start, end, name) = (row.int(0)?, row.int(1)?, row.int(2)?);
        if row.int(3).is_none_or(|class| class == OSRT_CLASS) {
            by_id.add(name, end.saturating_sub(start));
        }
        Some(())
    })?;
    print(trace, by_id, sink, Arc::clone)
}

fn print(
    trace: &Trace,
    by_id: Groups<i64>,
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
type Threads = FxHashMap<GlobalId, (Option<i64>, Arc<str>)>;

/// All threads that have names; none where the trace does not say.
fn threads(trace: &Trace) -> Result<Threads, Error> {
    let mut ids = Vec::new();
    let columns = [need("nameId"), want("priority"), need("globalTid")];
    let found = trace.scan(&THREADS, &columns, |row| {
        ids.push((row.int(0)?, row.int(1), GlobalId(row.int(2)?)));
        Some(())
    });
    match found {
        Err(error) if !error.is_absence() => return Err(error),
        _ => {}
    }
    let mut threads = FxHashMap::default();
    for (name, priority, thread) in ids {
        // A thread may be renamed; its calls are listed once, under the first name.
        if let Entry::Vacant(entry) = threads.entry(thread) {
            entry.insert((priority, trace.string_or_id(name)?));
        }
    }
    Ok(threads)
}

/// `cuda_api_trace`.
pub(super) fn trace(trace: &Trace, options: ReportOptions, sink: &mut dyn Sink) -> Result<(), Error> {
    let mut calls: Vec<ApiCall> = Vec::new();
    trace.api_calls(|call| calls.push(call))?;
    if calls.iter().any(|call| call.class == BACKTRACE) {
        let repeats = Repeats::among(&calls);
        if options.calls_once {
            calls.retain(|call| !repeats.repeats(Some(call.class), call.thread, call.correlation));
        } else {
            repeats.warn(trace)?;
        }
    }
    calls.sort_by_key(|call| call.start);
    let threads = threads(trace)?;
    let mut names: FxHashMap<i64, Arc<str>> = FxHashMap::default();
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
                call.end.saturating_sub(call.start).into(),
                names[&call.name].clone().into(),
                call.result.into(),
                call.correlation.into(),
                call.thread.map(GlobalId::pid).into(),
                call.thread.map(GlobalId::tid).into(),
                thread.and_then(|(priority, _)| *priority).into(),
                thread.map_or(Value::Absent, |(_, name)| name.clone().into()),
            ])?;
        }
        Ok(())
    })
}
