//! NVTX ranges in host time.

use std::borrow::Cow;
use std::sync::Arc;

use super::ReportOptions;
use super::group::{Groups, grand_total, times, with_times};
use super::shared::Shared;
use super::table::{Column, Sink, Unit, Value};
use crate::hierarchy::{Hierarchy, Span};
use crate::{Error, RangeStyle, Summary, Trace, fold_name};

static BOTH: [Column; 10] =
    with_times("Instances", [Column::new("Style", Unit::Plain), Column::new("Range", Unit::Plain)]);
static ONE: [Column; 9] = with_times("Instances", [Column::new("Range", Unit::Plain)]);
static TRACE: [Column; 14] = [
    Column::new("Start", Unit::Time),
    Column::new("End", Unit::Time),
    Column::new("Duration", Unit::Time),
    Column::new("DurChild", Unit::Time),
    Column::new("DurNonChild", Unit::Time),
    Column::new("Name", Unit::Plain),
    Column::new("PID", Unit::Plain),
    Column::new("TID", Unit::Plain),
    Column::new("Lvl", Unit::Plain),
    Column::new("NumChild", Unit::Plain),
    Column::new("RangeId", Unit::Plain),
    Column::new("ParentId", Unit::Plain),
    Column::new("RangeStack", Unit::Plain),
    Column::new("NameTree", Unit::Plain),
];

/// Which ranges a summary covers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Styles {
    PushPop,
    StartEnd,
    Both,
}

/// Ranges by name and style, with their times.
pub(super) type Ranges = Vec<((Arc<str>, RangeStyle), Summary)>;

/// The times of all ranges. None of them is held: an open one alone waits for the last event, which ends it.
fn times_by_name(trace: &Trace, options: ReportOptions) -> Result<Ranges, Error> {
    let mut groups = Groups::default();
    let mut open = Vec::new();
    let mut names = trace.nvtx_rows(|range, domain| {
        let key = (range.thread.process(), domain, range.name, range.style);
        match range.end {
            Some(end) => groups.add(key, end.saturating_sub(range.start)),
            None => open.push((key, range.start)),
        }
    })?;
    for (key, start) in open {
        groups.add(key, names.last_event.saturating_sub(start));
    }
    let groups = groups.rekey(|(process, domain, text, style)| {
        let name = names.full(process, domain, text);
        let name = names.names.text(name);
        let name = match options.fold_names.then(|| fold_name(name)) {
            Some(Cow::Owned(folded)) => folded.into(),
            _ => name.clone(),
        };
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
    let summaries: Ranges = ranges.iter().filter(|((_, style), _)| listed(*style)).cloned().collect();
    let all = grand_total(&summaries);
    trace.writing(|| {
        sink.columns(if styles == Styles::Both { &BOTH } else { &ONE })?;
        for ((name, style), summary) in summaries {
            let mut row = times(&summary, all);
            if styles == Styles::Both {
                row.push(Value::text(style.as_str()));
            }
            row.push(name.into());
            sink.row(&row)?;
        }
        Ok(())
    })
}

/// `nvtx_pushpop_trace`.
pub(super) fn trace(trace: &Trace, sink: &mut dyn Sink) -> Result<(), Error> {
    let nvtx = trace.nvtx_ranges()?;
    let ranges: Vec<_> = nvtx.ranges.iter().filter(|range| range.style == RangeStyle::PushPop).collect();
    let spans: Vec<Span> = ranges
        .iter()
        .map(|range| Span {
            id: range.id,
            start: range.start,
            end: range.end.unwrap_or(nvtx.last_push_pop),
            thread: range.thread,
        })
        .collect();
    let tree = Hierarchy::of(&spans);
    let children = tree.sum_over_children(|child| spans[child].end.saturating_sub(spans[child].start));
    let counts = tree.sum_over_children(|_| 1);
    let mut order: Vec<usize> = (0..spans.len()).collect();
    order.sort_by_key(|&at| (spans[at].start, spans[at].end.saturating_sub(spans[at].start), spans[at].id));
    trace.writing(|| {
        sink.columns(&TRACE)?;
        for at in order {
            let (span, level) = (spans[at], tree.level(at));
            let name = nvtx.names.text(ranges[at].name);
            let duration = span.end.saturating_sub(span.start);
            sink.row(&[
                span.start.into(),
                span.end.into(),
                duration.into(),
                children[at].into(),
                duration.saturating_sub(children[at]).into(),
                name.clone().into(),
                span.thread.pid().into(),
                span.thread.tid().into(),
                (level as u64).into(),
                counts[at].into(),
                span.id.into(),
                tree.parent(at).map(|parent| spans[parent].id).into(),
                Value::Text(tree.path(&spans, at).into()),
                Value::Text(format!("{}{name}", "--".repeat(level)).into()),
            ])?;
        }
        Ok(())
    })
}
