//! Intervals of time.

/// Which of some intervals a time is within; they lie by time and do not overlap.
pub(crate) fn interval_at(intervals: &[(i64, i64)], at: i64) -> Option<usize> {
    let next = intervals.partition_point(|(start, _)| *start <= at);
    next.checked_sub(1).filter(|last| at < intervals[*last].1)
}
