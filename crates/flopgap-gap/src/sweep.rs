//! Takes the time of a GPU apart: at each instant one operation that counts, or a gap.

use crate::operation::Op;
use crate::timeline::Timeline;

/// An interval in which nothing ran, and what ran before and after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Idle<'a> {
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) before: Option<&'a Op>,
    pub(crate) after: Option<&'a Op>,
}

/// What is found, in the order of time.
pub(crate) enum Found<'a> {
    /// One operation counts from start to end.
    Ran(i64, i64, &'a Op),
    /// Nothing ran.
    Idle(Idle<'a>),
    /// An operation began without a gap before it.
    Followed,
}

/// Visits the time from `start` to `end` without a gap and without an overlap. Where several
/// operations run, computation counts before communication, then copies, then memory sets; of equal
/// ones that which began first.
pub(crate) fn sweep<'a>(
    timeline: &Timeline,
    operations: &'a [Op],
    (start, end): (i64, i64),
    mut visit: impl FnMut(Found<'a>),
) {
    let mut active: Vec<(u8, i64, &'a Op)> = Vec::new();
    let mut last: Option<&'a Op> = None;
    let mut at = start;
    for op in operations {
        if op.start >= end {
            break;
        }
        if op.end <= op.start {
            continue;
        }
        run(&mut active, &mut at, op.start, &mut last, &mut visit);
        if active.is_empty() && at < op.start {
            visit(Found::Idle(Idle { start: at, end: op.start, before: last, after: Some(op) }));
            at = op.start;
        } else if op.start >= start {
            visit(Found::Followed);
        }
        if op.end > at {
            active.push((timeline.kind(op).rank(), op.start, op));
        } else if last.is_none_or(|last| last.end < op.end) {
            last = Some(op);
        }
    }
    run(&mut active, &mut at, end, &mut last, &mut visit);
    if at < end {
        let after = operations.iter().find(|op| op.start >= end);
        visit(Found::Idle(Idle { start: at, end, before: last, after }));
    }
}

/// Lets what is active run until a time.
fn run<'a>(
    active: &mut Vec<(u8, i64, &'a Op)>,
    at: &mut i64,
    until: i64,
    last: &mut Option<&'a Op>,
    visit: &mut impl FnMut(Found<'a>),
) {
    while *at < until {
        let Some((_, _, op)) = active.iter().min_by_key(|(rank, start, _)| (*rank, *start)) else { return };
        let op = *op;
        let stop = op.end.min(until);
        if stop > *at {
            visit(Found::Ran(*at, stop, op));
            *at = stop;
        }
        let ended = active.iter().map(|(_, _, op)| *op).filter(|op| op.end <= *at);
        if let Some(latest) = ended.max_by_key(|op| op.end)
            && last.is_none_or(|last| last.end <= latest.end)
        {
            *last = Some(latest);
        }
        active.retain(|(_, _, op)| op.end > *at);
    }
}
