//! Threads that wait for work, and how samples are divided among them.

use std::num::NonZero;

use rayon::{ThreadPool, ThreadPoolBuilder};

/// Less work than this (10 us of a core) is not worth waking a thread for.
const LEAST_FLOPS: usize = 1_000_000;

/// The calling thread and others.
#[derive(Debug)]
pub(super) struct Threads {
    /// All but the calling one.
    others: Option<ThreadPool>,
}

impl Threads {
    /// As many as wanted, or as the system lets start.
    pub(super) fn new(wanted: NonZero<usize>) -> Self {
        let others = (wanted.get() > 1)
            .then(|| {
                let builder = ThreadPoolBuilder::new().num_threads(wanted.get() - 1);
                builder.thread_name(|index| format!("dense-{index}")).build().ok()
            })
            .flatten();
        Threads { others }
    }

    pub(super) fn count(&self) -> usize {
        1 + self.others.as_ref().map_or(0, ThreadPool::current_num_threads)
    }

    /// Samples for each thread, where one takes this many FLOPs.
    pub(super) fn share(&self, batch: usize, flops_of_sample: usize) -> usize {
        let least = LEAST_FLOPS.div_ceil(flops_of_sample.max(1));
        batch.div_ceil(self.count()).max(least).min(batch)
    }

    /// Does every piece of work, the first on this thread.
    pub(super) fn each<T: Send>(&self, work: impl Iterator<Item = T>, each: impl Fn(T) + Sync) {
        let mut work = work;
        let Some(own) = work.next() else { return };
        let mut rest = work.peekable();
        match &self.others {
            Some(pool) if rest.peek().is_some() => pool.in_place_scope(|scope| {
                let each = &each;
                for piece in rest {
                    scope.spawn(move |_| each(piece));
                }
                each(own);
            }),
            _ => {
                each(own);
                rest.for_each(each);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn every_piece_is_done_once() {
        for count in 1..=4 {
            let threads = Threads::new(NonZero::new(count).unwrap());
            assert_eq!(threads.count(), count);
            for pieces in [0, 1, 3, 10] {
                let sum = AtomicUsize::new(0);
                threads.each(1..=pieces, |piece| {
                    sum.fetch_add(piece, Ordering::Relaxed);
                });
                assert_eq!(sum.into_inner(), pieces * (pieces + 1) / 2);
            }
        }
    }

    #[test]
    fn shares_cover_the_batch() {
        let threads = Threads::new(NonZero::new(3).unwrap());
        assert_eq!(threads.share(10, 1_000_000), 4);
        assert_eq!(threads.share(1, 1_000_000_000), 1);
        assert_eq!(threads.share(4_096, 10_000), 1_366);
        assert_eq!(threads.share(200, 10_000), 100);
        assert_eq!(threads.share(50, 10_000), 50);
    }
}
