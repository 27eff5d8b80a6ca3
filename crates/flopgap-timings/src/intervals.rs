//! Sets of intervals of time, thread by thread.

use flopgap_trace::{Range as NvtxRange, ThreadId};
use rustc_hash::FxHashMap;

/// Intervals of time of each thread: added in any order, then put in order by [`Intervals::join`],
/// or by [`Intervals::keep_apart`] where intervals that touch are not one.
#[derive(Debug, Default)]
pub(crate) struct Intervals(FxHashMap<ThreadId, Vec<(i64, i64)>>);

/// Orders intervals and joins those that touch, so that no instant counts twice.
///
/// ```
/// let mut intervals = vec![(5, 9), (0, 2), (2, 3), (6, 7)];
/// flopgap_timings::join_intervals(&mut intervals);
/// assert_eq!(intervals, [(0, 3), (5, 9)]);
/// ```
pub fn join(intervals: &mut Vec<(i64, i64)>) {
    intervals.sort_unstable();
    intervals.dedup_by(|next, kept| {
        let touches = next.0 <= kept.1;
        if touches {
            kept.1 = kept.1.max(next.1);
        }
        touches
    });
}

impl Intervals {
    pub(crate) fn add(&mut self, thread: ThreadId, start: i64, end: i64) {
        self.0.entry(thread).or_default().push((start, end));
    }

    /// Adds a range, unless it was open at the end of the recording.
    pub(crate) fn add_range(&mut self, range: &NvtxRange) {
        if let Some(end) = range.end {
            self.add(range.thread, range.start, end);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a thread has any.
    pub(crate) fn is_of(&self, thread: ThreadId) -> bool {
        self.0.contains_key(&thread)
    }

    /// Joins intervals that touch, so that no instant counts twice.
    pub(crate) fn join(&mut self) {
        for intervals in self.0.values_mut() {
            join(intervals);
        }
    }

    /// Keeps intervals that touch apart: what lies in two of them, but in neither alone, is not
    /// contained. Each start then knows the latest end of those up to it.
    pub(crate) fn keep_apart(&mut self) {
        for intervals in self.0.values_mut() {
            intervals.sort_unstable();
            let mut latest = i64::MIN;
            for (_, end) in intervals {
                latest = latest.max(*end);
                *end = latest;
            }
        }
    }

    /// Whether a range lies in one of them, or is one.
    pub(crate) fn contains(&self, range: &NvtxRange) -> bool {
        let Some(intervals) = self.0.get(&range.thread) else { return false };
        let after = intervals.partition_point(|&(start, _)| start <= range.start);
        let around = after.checked_sub(1).map(|at| intervals[at].1);
        around.is_some_and(|latest| range.end.is_some_and(|end| end <= latest))
    }
}

#[cfg(test)]
mod tests {
    use flopgap_trace::{RangeId, RangeStyle};
    use proptest::prelude::*;

    use super::*;

    const THREAD: ThreadId = ThreadId(1);

    fn range(start: i64, end: i64) -> NvtxRange {
        let mut names = flopgap_trace::RangeNames::default();
        let name = names.intern(flopgap_trace::RangeName { domain: None, text: "r".into() });
        let (style, crosses_threads) = (RangeStyle::StartEnd, false);
        NvtxRange { id: RangeId(1), start, end: Some(end), thread: THREAD, name, style, crosses_threads }
    }

    proptest! {
        /// A range lies in a set when comparing it with each interval says so.
        #[test]
        fn sets_are_what_their_intervals_are(
            raw in prop::collection::vec((0_i64..50, 1_i64..10), 0..20),
            window in (0_i64..60, 0_i64..30),
        ) {
            let (start, end) = (window.0, window.0 + window.1);
            let (mut joined, mut apart) = (Intervals::default(), Intervals::default());
            for (began, length) in &raw {
                joined.add(THREAD, *began, began + length);
                apart.add_range(&range(*began, began + length));
            }
            joined.join();
            apart.keep_apart();
            let within = raw.iter().any(|(began, length)| *began <= start && end <= began + length);
            prop_assert_eq!(apart.contains(&range(start, end)), within);
            prop_assert!(!within || joined.contains(&range(start, end)));
        }
    }
}
