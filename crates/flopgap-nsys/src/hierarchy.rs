//! The nesting of ranges.

use std::collections::BTreeMap;

use flopgap_trace::{Interval, Owners};

use crate::ThreadId;

/// An interval of time on one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) id: i64,
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) thread: ThreadId,
}

/// The indices of spans in the order of a sweep: by thread and time, outer before inner.
///
/// Of two equal spans the one recorded first is the outer one, so that neither becomes the other's
/// parent *and* child.
#[cfg(test)]
pub(crate) fn sweep_order(spans: &[Span]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..spans.len()).collect();
    let key = |at: usize| {
        let span = spans[at];
        (span.thread, span.start, std::cmp::Reverse(span.end), span.id)
    };
    order.sort_unstable_by_key(|&at| key(at));
    order
}

/// The tree of spans: each lies in the tightest span of its thread that contains it.
#[derive(Debug)]
pub(crate) struct Hierarchy {
    /// The parent of each, or `NONE`.
    parents: Vec<u32>,
    levels: Vec<u32>,
}

const NONE: u32 = u32::MAX;

impl Hierarchy {
    /// The tree of `spans`; ends are inclusive.
    #[cfg(test)]
    pub(crate) fn new(spans: &[Span]) -> Hierarchy {
        let mut tree = Hierarchy::flat(spans.len());
        let interval = |at: usize| Interval { start: spans[at].start, end: spans[at].end };
        let order = sweep_order(spans);
        for thread in order.chunk_by(|one, other| spans[*one].thread == spans[*other].thread) {
            tree.grow(thread.iter().copied(), interval);
        }
        tree
    }

    /// The tree of the ranges that can own work.
    pub(crate) fn of_owners(owners: &Owners) -> Hierarchy {
        let intervals = owners.intervals();
        let mut tree = Hierarchy::flat(intervals.len());
        for thread in owners.threads() {
            tree.grow(thread.iter().map(|range| *range as usize), |range| intervals[range]);
        }
        tree
    }

    fn flat(len: usize) -> Hierarchy {
        Hierarchy { parents: vec![NONE; len], levels: vec![0; len] }
    }

    /// Finds the parents of the spans of one thread, which come in the order of a sweep.
    fn grow(&mut self, thread: impl Iterator<Item = usize>, interval: impl Fn(usize) -> Interval) {
        let mut open = Open::default();
        for at in thread {
            let span = interval(at);
            if let Some(parent) = open.tightest(span) {
                self.parents[at] = u32::try_from(parent).unwrap_or(NONE);
                self.levels[at] = self.levels[parent] + 1;
            }
            open.enter(at, span);
        }
    }

    /// The tightest span that contains this one.
    pub(crate) fn parent(&self, at: usize) -> Option<usize> {
        (self.parents[at] != NONE).then_some(self.parents[at] as usize)
    }

    /// The number of spans that contain this one.
    pub(crate) fn level(&self, at: usize) -> usize {
        self.levels[at] as usize
    }

    /// For each span the sum of `value` over its children.
    pub(crate) fn sum_over_children(&self, value: impl Fn(usize) -> i64) -> Vec<i64> {
        let mut sums = vec![0_i64; self.parents.len()];
        for at in 0..self.parents.len() {
            if let Some(parent) = self.parent(at) {
                sums[parent] = sums[parent].saturating_add(value(at));
            }
        }
        sums
    }

    /// The ids from the outermost span to this one, as nsys writes them: `:1:2:3`.
    #[cfg(test)]
    pub(crate) fn path(&self, spans: &[Span], at: usize) -> String {
        self.path_by(|at| spans[at].id, at)
    }

    /// [`Hierarchy::path`] with the caller's ids.
    pub(crate) fn path_by(&self, id: impl Fn(usize) -> i64, at: usize) -> String {
        let mut ids = Vec::with_capacity(self.level(at) + 1);
        let mut next = Some(at);
        while let Some(at) = next {
            ids.push(id(at));
            next = self.parent(at);
        }
        let mut path = String::new();
        let mut digits = itoa::Buffer::new();
        for id in ids.iter().rev() {
            path.push(':');
            path.push_str(digits.format(*id));
        }
        path
    }
}

/// The spans that a sweep has entered and that can still be the tightest around a later one, by
/// end.
///
/// Of two, the one that ends later is also the longer one: one that ends later and is no longer
/// contains whatever the other contains from here on, and takes its place. So the first that ends
/// late enough is the tightest, however many are open.
#[derive(Debug)]
pub(crate) struct Open<T>(BTreeMap<i64, (u64, T)>);

impl<T> Default for Open<T> {
    fn default() -> Open<T> {
        Open(BTreeMap::new())
    }
}

impl<T: Copy> Open<T> {
    /// The shortest span that contains this one, among equals the last entered.
    pub(crate) fn tightest(&self, span: Interval) -> Option<T> {
        self.0.range(span.end.max(span.start)..).next().map(|(_, (_, at))| *at)
    }

    /// Enters a span, which starts no earlier than those before it, and leaves those that ended
    /// before its start.
    pub(crate) fn enter(&mut self, at: T, span: Interval) {
        while self.0.first_key_value().is_some_and(|(end, _)| *end < span.start) {
            self.0.pop_first();
        }
        if span.end < span.start {
            return;
        }
        let length = span.end.abs_diff(span.start);
        while let Some((&end, _)) =
            self.0.range(..=span.end).next_back().filter(|(_, (other, _))| *other >= length)
        {
            self.0.remove(&end);
        }
        self.0.insert(span.end, (length, at));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn span(id: i64, start: i64, end: i64) -> Span {
        Span { id, start, end, thread: ThreadId(1) }
    }

    #[test]
    fn equal_spans_nest_in_the_order_of_recording() {
        let spans = [span(1, 0, 10), span(2, 0, 10), span(3, 2, 5)];
        let tree = Hierarchy::new(&spans);
        assert_eq!([0, 1, 2].map(|at| tree.parent(at)), [None, Some(0), Some(1)]);
        assert_eq!(tree.path(&spans, 2), ":1:2:3");
    }

    #[test]
    fn overlap_is_not_containment_and_threads_are_apart() {
        let mut spans = [span(1, 0, 10), span(2, 5, 15), span(3, 6, 9), span(4, 7, 8)];
        spans[3].thread = ThreadId(2);
        let tree = Hierarchy::new(&spans);
        assert_eq!([0, 1, 2, 3].map(|at| tree.parent(at)), [None, None, Some(1), None]);
    }

    /// Each of these is open to the end of the recording: a sweep that looked at every open span
    /// would take 5 * 10^9 steps.
    #[test]
    fn a_hundred_thousand_ranges_within_each_other() {
        let spans: Vec<Span> = (0..100_000).map(|at| span(at, at, 200_000)).collect();
        let tree = Hierarchy::new(&spans);
        assert_eq!((tree.level(99_999), tree.parent(99_999)), (99_999, Some(99_998)));
    }

    /// Each outlasts the one before it, so that none nests and none can be dropped.
    #[test]
    fn a_hundred_thousand_ranges_that_cross_each_other() {
        let spans: Vec<Span> = (0..100_000).map(|at| span(at, at, 200_000 + 2 * at)).collect();
        let tree = Hierarchy::new(&spans);
        assert!((0..spans.len()).all(|at| tree.parent(at).is_none()));
    }

    proptest! {
        /// The sweep agrees with comparing every pair.
        #[test]
        fn parents_are_the_tightest_containers(
            raw in proptest::collection::vec((0_i64..40, 0_i64..20, 0_i64..2), 0..30)
        ) {
            let spans: Vec<Span> = (0..).zip(&raw).map(|(id, (start, length, thread))| Span {
                id, start: *start, end: start + length, thread: ThreadId(*thread),
            }).collect();
            let tree = Hierarchy::new(&spans);
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
