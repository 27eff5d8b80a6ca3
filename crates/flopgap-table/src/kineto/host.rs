//! The host: ranges and calls in the columns of an export of nsys, and operators.

use flopgap_kineto::{Annotation, Call, Operator, Source};

use super::Row;
use crate::column::{Column, count, int, maybe_count, maybe_int, text};

pub(super) fn ranges() -> Vec<Column<Row<Annotation>>> {
    type Range = Row<Annotation>;
    vec![
        int("id", "Its place among the ranges of the trace, from 1.", |range: &Range| {
            i64::try_from(range.at).unwrap_or(i64::MAX).saturating_add(1)
        }),
        int("start_ns", "When it began, in nanoseconds since the first event.", |range: &Range| {
            range.since_begin(range.it().start)
        }),
        maybe_int("end_ns", "When it ended, the sum of `start_ns` and `duration_ns`.", |range: &Range| {
            Some(range.since_begin(range.it().start.saturating_add_unsigned(range.it().duration)))
        }),
        maybe_int("duration_ns", "From start to end, on the host.", |range: &Range| {
            i64::try_from(range.it().duration).ok()
        }),
        text("name", "Its text.", |range: &Range| Some(&range.it().name)),
        text("domain", "The name of its domain; the profiler has none.", |_: &Range| None),
        text("style", "`PushPop`: ranges of a thread lie within each other.", |_: &Range| Some("PushPop")),
        maybe_int("category", "The number of its category; the profiler has none.", |_: &Range| None),
        maybe_int("pid", "The process.", |range: &Range| range.thread(range.it().thread)?.process),
        maybe_int("tid", "The thread.", |range: &Range| range.thread(range.it().thread)?.number),
        maybe_int("end_tid", "The thread that ended it, when that is another.", |_: &Range| None),
    ]
}

pub(super) fn api_calls() -> Vec<Column<Row<Call>>> {
    type Of = Row<Call>;
    vec![
        int("start_ns", "When it began, in nanoseconds since the first event.", |call: &Of| {
            call.since_begin(call.it().start)
        }),
        int("end_ns", "When it ended, the sum of `start_ns` and `duration_ns`.", |call: &Of| {
            call.since_begin(call.it().start.saturating_add_unsigned(call.it().duration))
        }),
        int("duration_ns", "From start to end.", |call: &Of| {
            i64::try_from(call.it().duration).unwrap_or(i64::MAX)
        }),
        text("name", "The function.", |call: &Of| Some(&call.it().name)),
        maybe_int("pid", "The process.", |call: &Of| call.thread(call.it().thread)?.process),
        maybe_int("tid", "The calling thread.", |call: &Of| call.thread(call.it().thread)?.number),
        maybe_int(
            "correlation",
            "Ties it to the GPU work that it started, within its process.",
            |call: &Of| call.it().correlation.map(i64::from),
        ),
        int(
            "api",
            "Which API, by the name: 0 the runtime (`cuda...`), 1 the driver (`cu...`).",
            |call: &Of| {
                let name = &call.it().name;
                i64::from(name.starts_with("cu") && !name.starts_with("cuda"))
            },
        ),
        maybe_int("result", "What it returned; not recorded.", |_: &Of| None),
    ]
}

pub(super) fn operators() -> Vec<Column<Row<Operator>>> {
    type Called = Row<Operator>;
    vec![
        int(
            "start_ns",
            "When it began on the host, in nanoseconds since the first event.",
            |called: &Called| called.since_begin(called.it().start),
        ),
        count("duration_ns", "How long the host was in it.", |called: &Called| called.it().duration),
        text("name", "The operator: `aten::mm`.", |called: &Called| Some(&called.it().name)),
        text(
            "part",
            "The part of the training step: `forward`, `backward` or `optimizer`.",
            |called: &Called| Some(called.it().part.name()),
        ),
        maybe_count(
            "flops",
            "The FLOPs that the framework assigns to it; absent where it has no formula or lacks a shape.",
            |called: &Called| Some(called.it().flops?.0),
        ),
        text(
            "flops_source",
            "Where these come from: `recorded` in the trace, or the framework's `formula` over the shapes.",
            |called: &Called| {
                Some(match called.it().flops?.1 {
                    Source::Recorded => "recorded",
                    Source::Formula => "formula",
                })
            },
        ),
        maybe_int("pid", "The process.", |called: &Called| called.thread(called.it().thread)?.process),
        maybe_int("tid", "The thread.", |called: &Called| called.thread(called.it().thread)?.number),
    ]
}
