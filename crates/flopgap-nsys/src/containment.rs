//! Which ranges contain which launches.

use crate::hierarchy::{Span, sweep_order};

/// Calls `visit` with each of `inner` and the indices of all of `outer` that contain it (same thread, ends inclusive),
/// outermost first. Both are swept once: the cost is that of sorting and of the answers.
pub(crate) fn for_each_containing(outer: &[Span], inner: &[Span], mut visit: impl FnMut(usize, &[usize])) {
    let outer_order = sweep_order(outer);
    let mut next = outer_order.iter().copied().peekable();
    let mut open: Vec<usize> = Vec::new();
    let mut containing = Vec::new();
    for at in sweep_order(inner) {
        let span = inner[at];
        while let Some(range) =
            next.next_if(|&range| (outer[range].thread, outer[range].start) <= (span.thread, span.start))
        {
            // What ended before this range begins contains nothing that follows.
            while open.last().is_some_and(|&last| {
                outer[last].thread != outer[range].thread || outer[last].end < outer[range].start
            }) {
                open.pop();
            }
            open.push(range);
        }
        open.retain(|&range| outer[range].thread == span.thread && outer[range].end >= span.start);
        containing.clear();
        containing.extend(open.iter().copied().filter(|&range| outer[range].end >= span.end));
        visit(at, &containing);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::GlobalId;

    fn spans(raw: &[(i64, i64, i64)]) -> Vec<Span> {
        let spans = (0..).zip(raw).map(|(id, (start, length, thread))| Span {
            id,
            start: *start,
            end: start + length,
            thread: GlobalId(*thread),
        });
        spans.collect()
    }

    proptest! {
        /// The sweep finds exactly the pairs that comparing every pair finds, also for ranges that overlap without nesting.
        #[test]
        fn all_pairs_are_found(
            outer in proptest::collection::vec((0_i64..40, 0_i64..20, 0_i64..3), 0..30),
            inner in proptest::collection::vec((0_i64..40, 0_i64..5, 0_i64..3), 0..30),
        ) {
            let (outer, inner) = (spans(&outer), spans(&inner));
            let mut found = Vec::new();
            for_each_containing(&outer, &inner, |at, ranges| {
                found.extend(ranges.iter().map(|&range| (at, range)));
            });
            found.sort_unstable();
            let mut expected = Vec::new();
            for (at, launch) in inner.iter().enumerate() {
                for (range, span) in outer.iter().enumerate() {
                    if span.thread == launch.thread && span.start <= launch.start && span.end >= launch.end {
                        expected.push((at, range));
                    }
                }
            }
            prop_assert_eq!(found, expected);
        }
    }
}
