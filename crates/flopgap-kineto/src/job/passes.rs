//! Forward and backward passes that nobody marked, by what operators ran.

use std::collections::BTreeMap;

use flopgap_trace::Interval;

use crate::{Part, Trace};

/// Operators of one part that followed each other.
#[derive(Clone, Copy, Debug)]
struct Run {
    part: Part,
    /// The step of the profiler, from 0; 0 for all where there is none.
    step: usize,
    interval: Interval,
}

/// The passes of a trace: their names, threads and times on the trace's own clock.
///
/// A forward pass is what ran on a thread before a backward pass of its operators, up to the last
/// step of the optimizer or of the profiler. What runs forward without a backward pass after it
/// (metrics, gradient clipping, inference) is none.
pub(super) fn passes(trace: &Trace) -> Vec<(&'static str, u32, Interval)> {
    // Backward passes count with the thread for which they run.
    let forward_of = |thread: u32| trace.threads[thread as usize].backward_of.unwrap_or(thread);
    let mut threads: BTreeMap<u32, Vec<(i64, i64, Part)>> = BTreeMap::new();
    for operator in &trace.operators {
        let end = operator.start.saturating_add_unsigned(operator.duration);
        threads.entry(forward_of(operator.thread)).or_default().push((operator.start, end, operator.part));
    }
    let mut found = Vec::new();
    for (thread, mut operators) in threads {
        if operators.iter().all(|(_, _, part)| *part != Part::Backward) {
            continue;
        }
        let steps = trace
            .annotations
            .iter()
            .filter(|range| range.thread == thread && range.name.starts_with("ProfilerStep#"));
        let mut steps: Vec<i64> = steps.map(|range| range.start).collect();
        steps.sort_unstable();
        operators.sort_unstable_by_key(|(start, end, _)| (*start, *end));
        let mut runs: Vec<Run> = Vec::new();
        for (start, end, part) in operators {
            let step = steps.partition_point(|begin| *begin <= start);
            match runs.last_mut() {
                Some(run) if (run.part, run.step) == (part, step) => {
                    run.interval.end = run.interval.end.max(end);
                }
                _ => runs.push(Run { part, step, interval: Interval { start, end } }),
            }
        }
        for (at, run) in runs.iter().enumerate() {
            let is_before_backward =
                runs.get(at + 1).is_some_and(|next| (next.part, next.step) == (Part::Backward, run.step));
            let name = match run.part {
                Part::Forward if is_before_backward => "forward",
                Part::Backward => "backward",
                Part::Forward | Part::Optimizer => continue,
            };
            found.push((name, thread, run.interval));
        }
    }
    found
}
