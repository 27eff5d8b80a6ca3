//! The time of ranges in which no other lies, so that sums over ranges count nothing twice.

use rustc_hash::FxHashMap;

use crate::{Range, RangeStyle, Ranges, ThreadId};

impl Ranges {
    /// For each range the time in which it is the innermost on its thread, in nanoseconds: that
    /// which began last of those that have not ended. The sum over the ranges of a thread is the
    /// time in which any of them was open.
    ///
    /// Nothing for ranges that cross threads, that are derived from others, or that are open at the
    /// end or end before they begin; they take nothing from others.
    pub fn self_times(&self) -> Vec<Option<i64>> {
        let mut threads: FxHashMap<ThreadId, Vec<usize>> = FxHashMap::default();
        for (at, range) in self.ranges.iter().enumerate() {
            if length(range).is_some() {
                threads.entry(range.thread).or_default().push(at);
            }
        }
        let mut times = vec![None; self.ranges.len()];
        for mut own in threads.into_values() {
            // Of two equal ranges the one recorded first is the outer one.
            own.sort_by_key(|&at| (self.ranges[at].start, std::cmp::Reverse(self.ranges[at].end)));
            let mut sweep = Sweep { open: Vec::new(), time: i64::MIN };
            for at in own {
                sweep.advance(self.ranges[at].start, &mut times);
                times[at] = Some(0);
                sweep.open.push((at, self.ranges[at].end.unwrap_or_default()));
            }
            sweep.advance(i64::MAX, &mut times);
        }
        times
    }
}

fn length(range: &Range) -> Option<i64> {
    let is_plain = !range.crosses_threads && range.style != RangeStyle::Derived;
    range.end.filter(|end| is_plain && *end >= range.start).map(|end| end.saturating_sub(range.start))
}

/// The ranges of a thread that are open, with their ends, up to a time.
struct Sweep {
    open: Vec<(usize, i64)>,
    time: i64,
}

impl Sweep {
    /// Gives the time up to `until` to the ranges that are innermost in it.
    fn advance(&mut self, until: i64, times: &mut [Option<i64>]) {
        while let Some(&(at, end)) = self.open.last() {
            let stop = end.min(until);
            if let (Some(own), Some(more @ 1..)) = (&mut times[at], stop.checked_sub(self.time)) {
                *own = own.saturating_add(more);
                self.time = stop;
            }
            if end > until {
                break;
            }
            self.open.pop();
        }
        self.time = self.time.max(until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Name, RangeId};

    fn ranges(intervals: &[(i64, i64, i64)]) -> Ranges {
        let range = |(at, (thread, start, end)): (usize, &(i64, i64, i64))| Range {
            id: RangeId(i64::try_from(at).unwrap()),
            start: *start,
            end: Some(*end),
            thread: ThreadId(*thread),
            name: Name::at(0),
            style: RangeStyle::PushPop,
            crosses_threads: false,
        };
        Ranges { ranges: intervals.iter().enumerate().map(range).collect(), ..Ranges::default() }
    }

    #[test]
    fn nested_ranges_have_what_those_within_leave() {
        // A step of 100 with an operator of 60, in which another takes 40, and one of 10.
        let found = ranges(&[(1, 0, 100), (1, 10, 70), (1, 20, 60), (1, 80, 90), (2, 0, 50)]).self_times();
        assert_eq!(found, [Some(30), Some(20), Some(40), Some(10), Some(50)]);
    }

    proptest::proptest! {
        /// By the definition, instant by instant, also where ranges cross.
        #[test]
        fn every_instant_belongs_to_the_range_that_began_last(
            intervals in proptest::collection::vec((0_i64..2, 0_i64..20, 0_i64..12), 0..12)
        ) {
            let intervals: Vec<_> = intervals.into_iter().map(|(thread, start, length)| (thread, start, start + length)).collect();
            let ranges = ranges(&intervals);
            let mut expected = vec![0; intervals.len()];
            for thread in 0..2 {
                for time in 0..40 {
                    let open = intervals.iter().enumerate().filter(|(_, (of, start, end))| {
                        *of == thread && *start <= time && time < *end
                    });
                    let last = open.max_by_key(|(at, (_, start, end))| (*start, std::cmp::Reverse(*end), *at));
                    if let Some((at, _)) = last {
                        expected[at] += 1;
                    }
                }
            }
            let expected: Vec<_> = expected.into_iter().map(Some).collect();
            proptest::prop_assert_eq!(ranges.self_times(), expected);
        }
    }
}
