//! Which queues a use of memory has to wait for.

/// What work does with memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Access {
    Read,
    Write,
}

/// The queue that wrote last, and those that have read since. A queue is in order by itself: it
/// waits only for others.
#[derive(Debug)]
pub(crate) struct Order<Q> {
    writer: Option<Q>,
    readers: Vec<Q>,
}

impl<Q: Clone + PartialEq> Order<Q> {
    /// Memory that `writer` has just allocated; of `None`, nothing has happened to it.
    pub(crate) fn new(writer: Option<Q>) -> Self {
        Order { writer, readers: Vec::new() }
    }

    /// The queues that `queue` has to wait for, in their present state, before it uses the memory.
    pub(crate) fn waits_for(&self, queue: &Q, access: Access) -> Vec<Q> {
        match access {
            Access::Read if self.readers.contains(queue) => Vec::new(),
            Access::Read => self.writer.iter().filter(|writer| *writer != queue).cloned().collect(),
            Access::Write => self.others(queue),
        }
    }

    /// `queue` uses the memory, now that it has waited.
    pub(crate) fn enter(&mut self, queue: &Q, access: Access) {
        match access {
            Access::Read => {
                if self.writer.as_ref() != Some(queue) && !self.readers.contains(queue) {
                    self.readers.push(queue.clone());
                }
            }
            Access::Write => {
                self.writer = Some(queue.clone());
                self.readers.clear();
            }
        }
    }

    /// The queue that alone has used the memory since it was written last.
    pub(crate) fn sole(&self) -> Option<&Q> {
        self.writer.as_ref().filter(|_| self.readers.is_empty())
    }

    /// All other queues that may still use the memory.
    pub(crate) fn others(&self, queue: &Q) -> Vec<Q> {
        self.writer.iter().chain(&self.readers).filter(|other| *other != queue).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_queue_never_waits() {
        let mut order = Order::new(Some('a'));
        for access in [Access::Read, Access::Write, Access::Read] {
            assert!(order.waits_for(&'a', access).is_empty());
            order.enter(&'a', access);
            assert_eq!(order.sole(), Some(&'a'));
        }
    }

    #[test]
    fn a_reader_waits_once_for_the_writer_and_a_writer_for_all_readers() {
        let mut order = Order::new(Some('a'));
        assert_eq!(order.waits_for(&'b', Access::Read), ['a']);
        order.enter(&'b', Access::Read);
        assert_eq!(order.sole(), None);
        assert!(order.waits_for(&'b', Access::Read).is_empty(), "it has waited already");
        assert!(order.waits_for(&'a', Access::Read).is_empty(), "readers do not wait for readers");
        assert_eq!(order.waits_for(&'a', Access::Write), ['b']);
        assert_eq!(order.waits_for(&'c', Access::Write), ['a', 'b']);
        order.enter(&'c', Access::Write);
        assert_eq!(order.others(&'a'), ['c'], "waiting for the writer waits for all before it");
    }

    /// Queues run one piece of work after the other and see what they waited for: every use must
    /// see the last write, and a write all reads since, whatever the order of uses.
    #[test]
    fn every_conflicting_use_is_seen() {
        const QUEUES: usize = 4;
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = |most: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(random >> 33).unwrap() % most
        };
        for _ in 0..200 {
            let mut order = Order::new(Some(0));
            // For each queue, how far it has seen each queue.
            let mut clocks = [[0_usize; QUEUES]; QUEUES];
            clocks[0][0] = 1;
            let (mut last_write, mut reads) = ((0, 1), Vec::new());
            for _ in 0..60 {
                let queue = next(QUEUES);
                let access = if next(3) == 0 { Access::Write } else { Access::Read };
                for other in order.waits_for(&queue, access) {
                    let seen = clocks[other];
                    clocks[queue].iter_mut().zip(seen).for_each(|(now, seen)| *now = (*now).max(seen));
                }
                order.enter(&queue, access);
                clocks[queue][queue] += 1;
                let sees = |(by, at): (usize, usize)| clocks[queue][by] >= at;
                assert!(sees(last_write));
                if access == Access::Write {
                    assert!(reads.iter().all(|&read| sees(read)));
                    reads.clear();
                    last_write = (queue, clocks[queue][queue]);
                } else {
                    reads.push((queue, clocks[queue][queue]));
                }
            }
            // Freeing the memory waits for all others.
            for other in order.others(&0) {
                let seen = clocks[other];
                clocks[0].iter_mut().zip(seen).for_each(|(now, seen)| *now = (*now).max(seen));
            }
            assert!(reads.iter().chain([&last_write]).all(|&(by, at)| clocks[0][by] >= at));
        }
    }
}
