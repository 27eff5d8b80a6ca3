//! The steps of a trace, and the threads whose work belongs to them although the trace does not
//! say so.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use flopgap_trace::Interval;

use crate::{Annotation, AnnotationKind, Trace};

/// How the profiler names its steps.
const STEP: &str = "ProfilerStep#";

/// Whether a range is a step of the profiler.
pub(super) fn is_step(range: &Annotation) -> bool {
    range.name.starts_with(STEP)
}

/// The steps of a trace on its own clock.
#[derive(Debug, Default)]
pub(super) struct Steps {
    /// The thread of the steps: its place in [`Trace::threads`].
    pub(super) thread: Option<u32>,
    /// By start.
    intervals: Vec<Interval>,
}

impl Steps {
    /// The steps of the thread that has most of them.
    pub(super) fn new(trace: &Trace) -> Steps {
        let mut threads: BTreeMap<u32, Vec<Interval>> = BTreeMap::new();
        for range in trace.annotations.iter().filter(|range| is_step(range)) {
            let end = range.start.saturating_add_unsigned(range.duration);
            threads.entry(range.thread).or_default().push(Interval { start: range.start, end });
        }
        let most =
            threads.into_iter().max_by_key(|(thread, steps)| (steps.len(), std::cmp::Reverse(*thread)));
        let Some((thread, mut intervals)) = most else { return Steps::default() };
        intervals.sort_unstable_by_key(|step| step.start);
        Steps { thread: Some(thread), intervals }
    }

    /// The step during which something began; of several the last.
    pub(super) fn at(&self, time: i64) -> Option<Interval> {
        let begun = self.intervals.partition_point(|step| step.start <= time);
        self.intervals[..begun].iter().rev().find(|step| time <= step.end).copied()
    }
}

/// The thread whose annotations frame what others of its process launch: that of the steps, or else
/// the main thread, or else the one with the most annotations.
fn home(trace: &Trace, steps: &Steps) -> Option<u32> {
    let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
    for range in trace.annotations.iter().filter(|range| range.kind == AnnotationKind::User) {
        *counts.entry(range.thread).or_default() += 1;
    }
    let is_main = |thread: u32| {
        let thread = &trace.threads[thread as usize];
        thread.process.is_some() && thread.process == thread.number
    };
    let best = counts.into_iter().max_by_key(|(thread, count)| (is_main(*thread), *count));
    steps.thread.or(best.map(|(thread, _)| thread))
}

/// The threads of which nothing says for whom they work, with the annotations of others that
/// contain what they launch, by their places in [`Trace::annotations`]. A thread that marks the
/// like itself works for itself.
pub(super) fn framed(trace: &Trace, steps: &Steps) -> Vec<(u32, Vec<usize>)> {
    let Some(home) = home(trace, steps) else { return Vec::new() };
    let process = trace.threads[home as usize].process;
    let mut families: BTreeMap<u32, BTreeSet<Cow<'_, str>>> = BTreeMap::new();
    for range in &trace.annotations {
        families.entry(range.thread).or_default().insert(family(&range.name));
    }
    let callers: BTreeSet<u32> = trace.calls.iter().map(|call| call.thread).collect();
    let others = callers.into_iter().filter(|caller| {
        let thread = &trace.threads[*caller as usize];
        *caller != home && thread.process == process && thread.backward_of != Some(home)
    });
    let framed = others.map(|caller| {
        let forward = trace.threads[caller as usize].backward_of;
        let own = [Some(caller), forward].into_iter().flatten().filter_map(|thread| families.get(&thread));
        let own: Vec<_> = own.collect();
        let frames = trace.annotations.iter().enumerate().filter(|(_, range)| {
            let name = family(&range.name);
            range.thread == home
                && range.kind == AnnotationKind::User
                && own.iter().all(|own| !own.contains(&name))
        });
        (caller, frames.map(|(at, _)| at).collect())
    });
    framed.collect()
}

/// A name without its numbers: `ProfilerStep#`.
fn family(name: &str) -> Cow<'_, str> {
    if name.contains(|c: char| c.is_ascii_digit()) {
        return name.chars().filter(|c| !c.is_ascii_digit()).collect::<String>().into();
    }
    name.into()
}
