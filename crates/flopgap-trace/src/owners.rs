//! The ranges that can own GPU work, by thread.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;

use crate::{ProcessId, Range, Ranges, ThreadId};

/// An interval of time on a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// When it begins.
    pub start: i64,
    /// When it ends, inclusive.
    pub end: i64,
}

/// The ranges that can own GPU work, by thread.
#[derive(Debug)]
pub struct Owners {
    /// All ranges, also those that own nothing, so that a number means the same range everywhere.
    intervals: Vec<Interval>,
    /// The ranges that began and ended on one thread, in the order of a sweep: by start, outer
    /// before inner.
    threads: FxHashMap<ThreadId, Vec<u32>>,
}

/// The ranges of each thread, while they are collected.
#[derive(Debug, Default)]
pub struct OwnersByThread(FxHashMap<ThreadId, Vec<u32>>);

impl OwnersByThread {
    /// Adds a range by its place.
    ///
    /// # Panics
    /// With 2³² ranges, which no trace of less than 150 GB holds.
    pub fn add(&mut self, thread: ThreadId, range: usize) {
        let range = u32::try_from(range).expect("fewer than 2^32 ranges");
        self.0.entry(thread).or_default().push(range);
    }
}

impl Owners {
    /// The owners among `nvtx.ranges`; a range is named by its place there.
    pub fn of(nvtx: &Ranges) -> Owners {
        let mut threads = OwnersByThread::default();
        for (at, range) in nvtx.ranges.iter().enumerate() {
            if !range.crosses_threads {
                threads.add(range.thread, at);
            }
        }
        let interval =
            |range: &Range| Interval { start: range.start, end: range.end.unwrap_or(nvtx.last_range) };
        Owners::new(nvtx.ranges.iter().map(interval).collect(), threads)
    }

    /// Ranges, and which of them are of which thread.
    pub fn new(intervals: Vec<Interval>, OwnersByThread(mut threads): OwnersByThread) -> Owners {
        for ranges in threads.values_mut() {
            // Of two equal ranges the one recorded first is the outer one.
            let key = |range: &u32| {
                let interval = intervals[*range as usize];
                (interval.start, Reverse(interval.end), *range)
            };
            if !ranges.is_sorted_by_key(key) {
                ranges.sort_unstable_by_key(key);
            }
        }
        Owners { intervals, threads }
    }

    /// All ranges, also those that own nothing.
    pub fn intervals(&self) -> &[Interval] {
        &self.intervals
    }

    /// The ranges of each thread, in the order of a sweep.
    pub fn threads(&self) -> impl Iterator<Item = &[u32]> {
        self.threads.values().map(Vec::as_slice)
    }

    /// The ranges of one thread.
    pub fn on(&self, thread: ThreadId) -> &[u32] {
        self.threads.get(&thread).map_or(&[], Vec::as_slice)
    }

    /// The thread whose ranges stand for those of its process: the one with the number of the
    /// process, or when that has none, the one with the most.
    pub fn main_thread(&self, process: ProcessId) -> Option<ThreadId> {
        let threads = self.threads.iter().filter(|(thread, _)| thread.process() == process);
        let best = threads
            .max_by_key(|(thread, ranges)| (thread.tid() == thread.pid(), ranges.len(), Reverse(**thread)));
        best.map(|(thread, _)| *thread)
    }
}
