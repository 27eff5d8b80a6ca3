//! NVTX ranges in host time.

use super::ReportOptions;
use super::group::{Groups, times};
use super::shared::{Ranges, Shared};
use super::table::{Columns, Sink, Value};
use crate::{Error, RangeStyle, Trace, fold_name};

static BOTH: Columns = Columns::new(
    "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Style,\
     Range",
);
static ONE: Columns =
    Columns::new("Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Range");

/// Which ranges a summary covers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Styles {
    PushPop,
    StartEnd,
    Both,
}

/// The times of all ranges. None of them is held: an open one alone waits for the last event, which
/// ends it.
fn times_by_name(trace: &Trace, options: ReportOptions) -> Result<Ranges, Error> {
    let mut groups = Groups::default();
    let mut open = Vec::new();
    let mut rows = trace.range_rows()?;
    for row in rows.by_ref() {
        let (range, domain) = row?;
        let key = (range.thread.process(), domain, range.name, range.style);
        match range.end {
            Some(end) => groups.add(key, end.saturating_sub(range.start)),
            None => open.push((key, range.start)),
        }
    }
    let names = rows.names;
    for (key, start) in open {
        groups.add(key, names.last_event.saturating_sub(start));
    }
    let groups = groups.rekey(|(process, domain, text, style)| {
        let name = names.label(names.domain(process, domain), text).to_string();
        let name = if options.fold_names { fold_name(&name).into() } else { name.into() };
        Ok::<_, Error>((name, style))
    })?;
    Ok(groups.summaries())
}

/// `nvtx_sum`, `nvtx_pushpop_sum`, `nvtx_startend_sum`.
pub(super) fn sum(
    trace: &Trace,
    shared: &Shared,
    styles: Styles,
    options: ReportOptions,
    sink: &mut dyn Sink,
) -> Result<(), Error> {
    let ranges = shared.ranges.get(|| times_by_name(trace, options))?;
    let listed = |style| match styles {
        Styles::Both => true,
        Styles::PushPop => style == RangeStyle::PushPop,
        Styles::StartEnd => style == RangeStyle::StartEnd,
    };
    let summaries = || ranges.iter().filter(|((_, style), _)| listed(*style));
    let all = summaries().map(|(_, summary)| summary.total).sum();
    trace.writing(|| {
        sink.columns(if styles == Styles::Both { &BOTH } else { &ONE })?;
        for ((name, style), summary) in summaries() {
            let mut row = times(summary, all);
            if styles == Styles::Both {
                row.push(Value::text(style.as_str()));
            }
            row.push(name.clone().into());
            sink.row(&row)?;
        }
        Ok(())
    })
}
