//! Which range lies in which.

use crate::GlobalId;

/// A stretch of time on one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) id: i64,
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) thread: GlobalId,
}

/// The indices of spans in the order of a sweep: by thread and time, outer before inner.
///
/// Of two equal spans the one recorded first is the outer one, so that neither becomes the other's parent *and* child.
pub(crate) fn sweep_order(spans: &[Span]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..spans.len()).collect();
    let key = |at: usize| {
        let span = spans[at];
        (span.thread, span.start, std::cmp::Reverse(span.end), span.id)
    };
    order.sort_unstable_by_key(|&at| key(at));
    order
}

fn length(span: Span) -> u64 {
    span.end.abs_diff(span.start)
}

/// The spans that a sweep has entered, by start.
#[derive(Default)]
struct Open {
    spans: Vec<usize>,
    /// How many there were after those that had ended were last taken out.
    kept: usize,
}

impl Open {
    /// Takes out what ended before `span` begins: always from the end, where properly nested spans end, and from everywhere
    /// whenever the list has doubled, so that a span costs the same however many are open.
    fn forget_before(&mut self, spans: &[Span], span: Span) {
        let ended = |&other: &usize| spans[other].thread != span.thread || spans[other].end < span.start;
        if self.spans.first().is_some_and(|&first| spans[first].thread != span.thread) {
            self.spans.clear();
        }
        while self.spans.last().is_some_and(ended) {
            self.spans.pop();
        }
        if self.spans.len() > 2 * self.kept + 8 {
            self.spans.retain(|other| !ended(other));
            self.kept = self.spans.len();
        }
    }

    /// The shortest span that contains this one; among equals the last opened.
    fn tightest(&self, spans: &[Span], span: Span) -> Option<usize> {
        let mut best: Option<(u64, usize)> = None;
        for &at in self.spans.iter().rev() {
            let other = spans[at];
            // What began this early and contains the span is at least as long as the best.
            if best.is_some_and(|(shortest, _)| {
                span.end >= other.start && span.end.abs_diff(other.start) >= shortest
            }) {
                break;
            }
            if other.end >= span.end && best.is_none_or(|(shortest, _)| length(other) < shortest) {
                best = Some((length(other), at));
            }
        }
        best.map(|(_, at)| at)
    }
}

/// The tree of spans: each lies in the tightest span of its thread that contains it.
#[derive(Debug)]
pub(crate) struct Hierarchy {
    parents: Vec<Option<usize>>,
    levels: Vec<usize>,
}

impl Hierarchy {
    /// The tree of `spans`; ends are inclusive.
    pub(crate) fn of(spans: &[Span]) -> Hierarchy {
        let mut parents = vec![None; spans.len()];
        let mut levels = vec![0; spans.len()];
        let mut open = Open::default();
        for at in sweep_order(spans) {
            let span = spans[at];
            open.forget_before(spans, span);
            let parent = open.tightest(spans, span);
            parents[at] = parent;
            levels[at] = parent.map_or(0, |parent| levels[parent] + 1);
            if span.end >= span.start {
                open.spans.push(at);
            }
        }
        Hierarchy { parents, levels }
    }

    /// The span in which this one lies.
    pub(crate) fn parent(&self, at: usize) -> Option<usize> {
        self.parents[at]
    }

    /// In how many spans it lies.
    pub(crate) fn level(&self, at: usize) -> usize {
        self.levels[at]
    }

    /// For each span the sum of `value` over its children.
    pub(crate) fn sum_over_children(&self, value: impl Fn(usize) -> i64) -> Vec<i64> {
        let mut sums = vec![0_i64; self.parents.len()];
        for (at, parent) in self.parents.iter().enumerate() {
            if let Some(parent) = parent {
                sums[*parent] = sums[*parent].saturating_add(value(at));
            }
        }
        sums
    }

    /// The ids from the outermost span to this one, as nsys writes them: `:1:2:3`.
    pub(crate) fn path(&self, spans: &[Span], at: usize) -> String {
        let mut ids = Vec::with_capacity(self.levels[at] + 1);
        let mut next = Some(at);
        while let Some(at) = next {
            ids.push(spans[at].id);
            next = self.parents[at];
        }
        ids.iter().rev().fold(String::new(), |path, id| path + ":" + &id.to_string())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn span(id: i64, start: i64, end: i64) -> Span {
        Span { id, start, end, thread: GlobalId(1) }
    }

    #[test]
    fn equal_spans_nest_in_the_order_of_recording() {
        let spans = [span(1, 0, 10), span(2, 0, 10), span(3, 2, 5)];
        let tree = Hierarchy::of(&spans);
        assert_eq!([0, 1, 2].map(|at| tree.parent(at)), [None, Some(0), Some(1)]);
        assert_eq!(tree.path(&spans, 2), ":1:2:3");
    }

    #[test]
    fn overlap_is_not_containment_and_threads_are_apart() {
        let mut spans = [span(1, 0, 10), span(2, 5, 15), span(3, 6, 9), span(4, 7, 8)];
        spans[3].thread = GlobalId(2);
        let tree = Hierarchy::of(&spans);
        assert_eq!([0, 1, 2, 3].map(|at| tree.parent(at)), [None, None, Some(1), None]);
    }

    /// Each of these is open to the end of the recording. A sweep that looked at every open span would take 5 * 10^9 steps.
    #[test]
    fn a_hundred_thousand_ranges_within_each_other() {
        let spans: Vec<Span> = (0..100_000).map(|at| span(at, at, 200_000)).collect();
        let tree = Hierarchy::of(&spans);
        assert_eq!((tree.level(99_999), tree.parent(99_999)), (99_999, Some(99_998)));
    }

    proptest! {
        /// The sweep agrees with comparing every pair.
        #[test]
        fn parents_are_the_tightest_containers(
            raw in proptest::collection::vec((0_i64..40, 0_i64..20, 0_i64..2), 0..30)
        ) {
            let spans: Vec<Span> = (0..).zip(&raw).map(|(id, (start, length, thread))| Span {
                id, start: *start, end: start + length, thread: GlobalId(*thread),
            }).collect();
            let tree = Hierarchy::of(&spans);
            for (at, inner) in spans.iter().enumerate() {
                let tightest = spans.iter().filter(|outer| {
                    outer.thread == inner.thread && outer.start <= inner.start && outer.end >= inner.end
                        && (outer.end - outer.start, -outer.id) > (inner.end - inner.start, -inner.id)
                }).map(|outer| outer.end - outer.start).min();
                let found = tree.parent(at).map(|parent| spans[parent].end - spans[parent].start);
                prop_assert_eq!(found, tightest, "{:?}", inner);
            }
        }
    }
}
