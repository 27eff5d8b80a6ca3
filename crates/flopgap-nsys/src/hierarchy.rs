//! Which range lies in which.

use crate::GlobalId;
use crate::nesting::{Owners, Stretch};

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
    pub(crate) fn of(spans: &[Span]) -> Hierarchy {
        let mut tree = Hierarchy::flat(spans.len());
        let stretch = |at: usize| Stretch { start: spans[at].start, end: spans[at].end };
        let order = sweep_order(spans);
        for thread in order.chunk_by(|one, other| spans[*one].thread == spans[*other].thread) {
            tree.grow(thread.iter().copied(), stretch);
        }
        tree
    }

    /// The tree of the ranges that can own work.
    pub(crate) fn of_owners(owners: &Owners) -> Hierarchy {
        let stretches = owners.stretches();
        let mut tree = Hierarchy::flat(stretches.len());
        for thread in owners.threads() {
            tree.grow(thread.iter().map(|range| *range as usize), |range| stretches[range]);
        }
        tree
    }

    fn flat(len: usize) -> Hierarchy {
        Hierarchy { parents: vec![NONE; len], levels: vec![0; len] }
    }

    /// Finds the parents of the spans of one thread, which come in the order of a sweep.
    fn grow(&mut self, thread: impl Iterator<Item = usize>, stretch: impl Fn(usize) -> Stretch) {
        let mut open: Vec<usize> = Vec::new();
        for at in thread {
            let span = stretch(at);
            open.retain(|&other| stretch(other).end >= span.start);
            let containing = open.iter().copied().filter(|&other| stretch(other).end >= span.end);
            // `min_by_key` takes the first of equals; among equal spans the last opened is the tightest.
            let parent = containing.rev().min_by_key(|&other| {
                let other = stretch(other);
                i128::from(other.end) - i128::from(other.start)
            });
            if let Some(parent) = parent {
                self.parents[at] = u32::try_from(parent).unwrap_or(NONE);
                self.levels[at] = self.levels[parent] + 1;
            }
            if span.end >= span.start {
                open.push(at);
            }
        }
    }

    /// The span in which this one lies.
    pub(crate) fn parent(&self, at: usize) -> Option<usize> {
        (self.parents[at] != NONE).then_some(self.parents[at] as usize)
    }

    /// In how many spans it lies.
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

    /// [`Hierarchy::path`] with ids of the caller's.
    pub(crate) fn path_by(&self, id: impl Fn(usize) -> i64, at: usize) -> String {
        let mut ids = Vec::with_capacity(self.level(at) + 1);
        let mut next = Some(at);
        while let Some(at) = next {
            ids.push(id(at));
            next = self.parent(at);
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
