//! From when to when each step lasts on a GPU.

use super::{Clock, HostStep};
use crate::host::Host;
use crate::intervals::interval_at;
use crate::operation::{Lane, Op};

/// From when to when a step lasts on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) start: i64,
    pub(crate) end: i64,
    /// A place among the steps of the process; none between steps.
    pub(crate) step: Option<usize>,
    /// It is a step that warms up, or lies beside one, or is a pause between steps.
    pub(crate) warm_up: bool,
}

/// The steps of one thread on one GPU, and the time between them, without a gap.
pub(crate) fn windows(steps: &[&HostStep], host: &Host, lane: &Lane) -> (Clock, Vec<Window>) {
    let spans: Vec<(i64, i64)> = steps.iter().map(|step| (step.start, step.end)).collect();
    // When the last work ended that each launched.
    let mut ends: Vec<Option<i64>> = vec![None; steps.len()];
    let (mut launched, mut inside) = (0_i128, 0_i128);
    for op in &lane.operations {
        let Some((_, at)) = op.launch(host) else { continue };
        let Some(step) = interval_at(&spans, at) else { continue };
        ends[step] = ends[step].max(Some(op.end));
        if !steps[step].warm_up {
            launched += i128::from(op.end - op.start);
            let (start, end) = spans[step];
            inside += i128::from((op.end.min(end) - op.start.max(start)).max(0));
        }
    }
    let mut windows: Vec<Window> = Vec::new();
    let mut push = |start: i64, end: i64, step, warm_up| {
        if start < end {
            windows.push(Window { start, end, step, warm_up });
        }
    };
    let known: Vec<i64> = ends.iter().copied().flatten().collect();
    // Each step has work, and they end in their order. By the host's clock, measured time would
    // hold work of the step before it.
    if inside < launched - launched / AHEAD && known.len() == steps.len() && known.is_sorted() {
        let mut start = first_start(steps[0], host, lane);
        for (at, step) in steps.iter().enumerate() {
            push(start, known[at], Some(at), step.warm_up);
            start = known[at];
        }
        return (Clock::Gpu, windows);
    }
    let last = |at: usize| ends[at].unwrap_or(spans[at].1).max(spans[at].1);
    for (at, step) in steps.iter().enumerate() {
        push(step.start, step.end, Some(at), step.warm_up);
        let next = steps.get(at + 1);
        let until = next.map_or_else(|| last(at), |next| next.start);
        push(step.end, until, None, step.warm_up || next.is_some_and(|next| next.warm_up));
    }
    leave_pauses(&mut windows);
    (Clock::Host, windows)
}

/// When a first step begins on a GPU that is behind the host: when the work before it ended. Where
/// none is recorded, with its own first work: what the GPU did until then is not known.
fn first_start(step: &HostStep, host: &Host, lane: &Lane) -> i64 {
    let is_own = |op: &&Op| op.launch(host).is_some_and(|(_, at)| (step.start..step.end).contains(&at));
    let Some(first) = lane.operations.iter().find(is_own) else { return step.start };
    let before = lane.operations.iter().take_while(|op| op.start < first.start).map(|op| op.end).max();
    before.map_or(first.start, |end| end.min(first.start)).max(step.start)
}

/// The host is ahead where more than one part in so many of the work of steps runs after the range
/// that launched it.
const AHEAD: i128 = 10;

/// Time between steps that is longer than this many median steps is not part of the loop: the
/// program did something else, such as a validation or a checkpoint.
const PAUSE: i64 = 5;

/// Leaves out the time between two steps where it is far longer than steps and than the time
/// between others.
fn leave_pauses(windows: &mut [Window]) {
    let median = |is_step: bool, windows: &[Window]| {
        let of_kind = windows.iter().filter(|window| window.step.is_some() == is_step && !window.warm_up);
        let mut lengths: Vec<i64> = of_kind.map(|window| window.end - window.start).collect();
        lengths.sort_unstable();
        lengths.get(lengths.len() / 2).copied()
    };
    let (Some(step), Some(between)) = (median(true, windows), median(false, windows)) else { return };
    let longest = step.max(between).saturating_mul(PAUSE);
    for window in windows.iter_mut().filter(|window| window.step.is_none()) {
        window.warm_up |= window.end - window.start > longest;
    }
}
