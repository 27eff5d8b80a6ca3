//! The ranges that contain each call.

use rustc_hash::FxHashMap;

use crate::correlation::Correlations;
use crate::owners::{Interval, Owners};
use crate::{AttributeBy, CorrelationId, ProcessId, ThreadId};

/// No range, no node.
const NONE: u32 = u32::MAX;

/// Where each call was made: the ranges around it.
///
/// Calls within the same ranges share a node. A node is the innermost of those ranges and the node
/// of the others, so that what is known of calls is handed from node to node up to every range that
/// contains them. The nodes within a node follow it without a gap.
#[derive(Debug, Default)]
pub struct Nesting {
    calls: Correlations,
    nodes: Vec<Node>,
    threads: Vec<ThreadId>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    /// For calls outside all ranges the place of their thread in `Nesting::threads`.
    parent: u32,
    range: u32,
}

/// A call, until it is placed.
#[derive(Clone, Copy, Debug)]
struct Call {
    interval: Interval,
    correlation: CorrelationId,
}

/// The calls of one thread.
#[derive(Debug, Default)]
struct Calls {
    calls: Vec<Call>,
    /// The same calls once more, with their backtraces.
    backtraces: Vec<Call>,
}

/// The calls of each thread that may have launched work, while they are collected.
#[derive(Debug, Default)]
pub struct LaunchCalls(FxHashMap<ThreadId, Calls>);

impl LaunchCalls {
    /// Adds a call. One that was recorded twice is one call: the second counts where the first was
    /// not recorded.
    #[inline]
    pub fn add(&mut self, thread: ThreadId, interval: Interval, correlation: CorrelationId, is_second: bool) {
        let calls = self.0.entry(thread).or_default();
        let call = Call { interval, correlation };
        if is_second { &mut calls.backtraces } else { &mut calls.calls }.push(call);
    }
}

impl Nesting {
    /// Places every call of a trace.
    pub fn new(calls: LaunchCalls, owners: &Owners, by: AttributeBy) -> Nesting {
        Nesting::place(calls.0.into_iter().collect(), owners, by)
    }

    fn place(mut threads: Vec<(ThreadId, Calls)>, owners: &Owners, by: AttributeBy) -> Nesting {
        threads.sort_unstable_by_key(|(thread, _)| *thread);
        let mut nesting = Nesting::default();
        let mut backtraces = Vec::new();
        for (thread, calls) in threads {
            nesting.place_thread(thread, calls.calls, owners, by);
            backtraces.push((thread, calls.backtraces));
        }
        for (thread, calls) in backtraces {
            nesting.place_thread(thread, calls, owners, by);
        }
        nesting
    }

    fn place_thread(&mut self, thread: ThreadId, mut calls: Vec<Call>, owners: &Owners, by: AttributeBy) {
        if calls.is_empty() {
            return;
        }
        if !calls.is_sorted_by_key(|call| call.interval.start) {
            calls.sort_by_key(|call| call.interval.start);
        }
        let process = thread.process();
        let root = self.root(thread);
        let main = match by {
            AttributeBy::Thread => None,
            AttributeBy::Process => owners.main_thread(process).filter(|main| *main != thread),
        };
        let mut outside = Vec::new();
        let mut sweep = Sweep::new(owners, thread, root);
        for call in calls {
            let node = sweep.node_of(self, call.interval);
            if node == root && main.is_some() {
                outside.push(call);
            } else {
                self.calls.insert(process, call.correlation, node);
            }
        }
        if let Some(main) = main {
            let mut sweep = Sweep::new(owners, main, root);
            for call in outside {
                let node = sweep.node_of(self, call.interval);
                self.calls.insert(process, call.correlation, node);
            }
        }
    }

    /// A node for the calls of a thread that are outside all ranges.
    fn root(&mut self, thread: ThreadId) -> u32 {
        // At most two for each thread that calls.
        let at = u32::try_from(self.threads.len()).unwrap_or(NONE);
        self.threads.push(thread);
        self.push(Node { parent: at, range: NONE })
    }

    /// Adds a node.
    ///
    /// # Panics
    /// With 2³¹ nodes; there is one for each range unless ranges overlap, and no trace of less than
    /// 80 GB holds as many.
    fn push(&mut self, node: Node) -> u32 {
        let at = u32::try_from(self.nodes.len()).ok().filter(|at| *at < 1 << 31);
        self.nodes.push(node);
        at.expect("fewer than 2^31 nodes")
    }

    /// A node for `range` within those of `parent`.
    fn child(&mut self, parent: u32, range: u32) -> u32 {
        self.push(Node { parent, range })
    }

    /// The node of the call that started a piece of GPU work; `None` when the call was not
    /// recorded.
    #[inline]
    pub fn node(&self, process: Option<ProcessId>, correlation: Option<CorrelationId>) -> Option<usize> {
        self.calls.get(process, correlation?).map(|node| node as usize)
    }

    /// [`Nesting::node`], and whether this is the first piece of work of that call that is asked
    /// for.
    #[inline]
    pub fn take(
        &mut self,
        process: Option<ProcessId>,
        correlation: Option<CorrelationId>,
    ) -> Option<(usize, bool)> {
        self.calls.take(process, correlation?).map(|(node, first)| (node as usize, first))
    }

    /// Forgets which call is where: no launch can be found from here on, and the memory is free.
    pub fn forget_calls(&mut self) {
        self.calls = Correlations::default();
    }

    /// How many nodes there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are no nodes: no calls.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The thread that made the calls of a node.
    pub fn thread(&self, node: usize) -> ThreadId {
        let mut at = node;
        while let Some((_, parent)) = self.range_and_parent(at) {
            at = parent;
        }
        self.threads[self.nodes[at].parent as usize]
    }

    /// The innermost range around the calls of a node, and the node of all others; `None` for calls
    /// outside all ranges.
    #[inline]
    pub fn range_and_parent(&self, node: usize) -> Option<(usize, usize)> {
        let Node { parent, range } = self.nodes[node];
        (range != NONE).then_some((range as usize, parent as usize))
    }

    /// The ranges around the calls of a node, innermost first.
    #[cfg(test)]
    fn ranges(&self, node: usize) -> impl Iterator<Item = usize> + '_ {
        let mut at = node;
        std::iter::from_fn(move || {
            let (range, parent) = self.range_and_parent(at)?;
            at = parent;
            Some(range)
        })
    }

    /// For each node whether `is` holds for a range around its calls.
    pub fn within(&self, is: impl Fn(usize) -> bool) -> Vec<bool> {
        let mut within = vec![false; self.len()];
        for node in 0..self.len() {
            within[node] =
                self.range_and_parent(node).is_some_and(|(range, parent)| within[parent] || is(range));
        }
        within
    }
}

/// A sweep over the ranges of one thread, with the calls of one thread in the order of their
/// starts.
struct Sweep<'a> {
    intervals: &'a [Interval],
    ranges: std::iter::Peekable<std::iter::Copied<std::slice::Iter<'a, u32>>>,
    root: u32,
    open: Vec<Open>,
    /// How many of the open ranges end later than the one below them: with none, what contains a
    /// call is the lower part of `open`.
    crossing: usize,
    /// The latest nodes that leave out an open range: parent, range, node.
    tail: Vec<(u32, u32, u32)>,
}

/// A range that is open at this point of the sweep.
struct Open {
    range: u32,
    end: i64,
    /// The node for this range within all those below; made when a call asks for it.
    node: u32,
}

impl<'a> Sweep<'a> {
    fn new(owners: &'a Owners, thread: ThreadId, root: u32) -> Sweep<'a> {
        Sweep {
            intervals: owners.intervals(),
            ranges: owners.on(thread).iter().copied().peekable(),
            root,
            open: Vec::new(),
            crossing: 0,
            tail: Vec::new(),
        }
    }

    /// The node of a call that begins no earlier than the calls before.
    fn node_of(&mut self, nesting: &mut Nesting, call: Interval) -> u32 {
        let intervals = self.intervals;
        while let Some(range) = self.ranges.next_if(|range| intervals[*range as usize].start <= call.start) {
            let Interval { start, end } = intervals[range as usize];
            // What ended before this range begins contains nothing that follows.
            while self.open.last().is_some_and(|last| last.end < start) {
                self.pop();
            }
            self.crossing += usize::from(self.open.last().is_some_and(|below| below.end < end));
            self.open.push(Open { range, end, node: NONE });
        }
        while self.open.last().is_some_and(|last| last.end < call.start) {
            self.pop();
        }
        if self.crossing > 0 {
            self.close_all(call.start);
        }
        if self.crossing > 0 { self.overlapping(nesting, call) } else { self.nested(nesting, call) }
    }

    fn pop(&mut self) {
        if let Some(open) = self.open.pop() {
            self.crossing -= usize::from(self.open.last().is_some_and(|below| below.end < open.end));
        }
    }

    /// Closes what ended before `time`, wherever it is.
    fn close_all(&mut self, time: i64) {
        let Some(first) = self.open.iter().position(|open| open.end < time) else { return };
        self.open.retain(|open| open.end >= time);
        self.crossing = self.open.windows(2).filter(|pair| pair[0].end < pair[1].end).count();
        self.forget(first);
    }

    /// Forgets the nodes of the open ranges from here on: what lies below them is no longer what it
    /// was.
    fn forget(&mut self, from: usize) {
        for open in &mut self.open[from..] {
            open.node = NONE;
        }
    }

    /// While open ranges lie within each other, those that contain a call are the outer ones.
    fn nested(&mut self, nesting: &mut Nesting, call: Interval) -> u32 {
        let inner = self.open.iter().rev().take_while(|open| open.end < call.end).count();
        let outer = self.open.len() - inner;
        let around = &mut self.open[..outer];
        let known = around.iter().rposition(|open| open.node != NONE);
        let mut node = known.map_or(self.root, |known| around[known].node);
        for open in &mut around[known.map_or(0, |known| known + 1)..] {
            self.tail.clear();
            node = nesting.child(node, open.range);
            open.node = node;
        }
        node
    }

    /// While ranges overlap, any of the open ones may end within a call.
    ///
    /// No node is gone back to once another was made outside it, so that the nodes below a node are
    /// those that follow it; a range may then have several.
    fn overlapping(&mut self, nesting: &mut Nesting, call: Interval) -> u32 {
        let mut node = self.root;
        let mut left_out = None;
        let mut reused = 0;
        for at in 0..self.open.len() {
            let Open { range, end, node: known } = self.open[at];
            if end < call.end {
                left_out.get_or_insert(at);
                continue;
            }
            let Some(first) = left_out else {
                if known == NONE {
                    self.tail.clear();
                    self.open[at].node = nesting.child(node, range);
                }
                node = self.open[at].node;
                continue;
            };
            match self.tail.get(reused) {
                Some(&(parent, same, child)) if (parent, same) == (node, range) => node = child,
                _ => {
                    self.tail.truncate(reused);
                    self.forget(first);
                    let child = nesting.child(node, range);
                    self.tail.push((node, range, child));
                    node = child;
                }
            }
            reused += 1;
        }
        node
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::owners::OwnersByThread as Threads;

    /// Threads 1 (with the number of its process), 2 and 3 of process 1, and thread 1 of process 2.
    const THREADS: [i64; 4] = [0x100_0001, 0x100_0002, 0x100_0003, 0x200_0001];

    /// Starts, lengths and threads.
    type Raw = Vec<(i64, i64, usize)>;

    fn interval((start, length, _): (i64, i64, usize)) -> Interval {
        Interval { start, end: start + length }
    }

    fn thread((_, _, thread): (i64, i64, usize)) -> ThreadId {
        ThreadId(THREADS[thread])
    }

    fn contains(outer: Interval, inner: Interval) -> bool {
        outer.start <= inner.start && outer.end >= inner.end
    }

    fn place(ranges: &Raw, calls: &Raw, by: AttributeBy) -> (Nesting, Owners) {
        let mut by_thread = Threads::default();
        for (at, raw) in ranges.iter().enumerate() {
            by_thread.add(thread(*raw), at);
        }
        let owners = Owners::new(ranges.iter().map(|raw| interval(*raw)).collect(), by_thread);
        let mut threads: FxHashMap<ThreadId, Calls> = FxHashMap::default();
        for (correlation, &raw) in (0..).zip(calls) {
            threads
                .entry(thread(raw))
                .or_default()
                .calls
                .push(Call { interval: interval(raw), correlation: CorrelationId(correlation) });
        }
        (Nesting::place(threads.into_iter().collect(), &owners, by), owners)
    }

    /// The ranges found around each call, in order.
    fn found(nesting: &Nesting, calls: &Raw) -> Vec<Vec<usize>> {
        let of = |(correlation, raw): (i64, &(i64, i64, usize))| {
            let node = nesting.node(Some(thread(*raw).process()), Some(CorrelationId(correlation))).unwrap();
            assert_eq!(nesting.thread(node), thread(*raw));
            let mut ranges: Vec<usize> = nesting.ranges(node).collect();
            ranges.sort_unstable();
            ranges
        };
        (0..).zip(calls).map(of).collect()
    }

    /// Brute force: compares every pair.
    fn around(ranges: &Raw, call: (i64, i64, usize), on: ThreadId) -> Vec<usize> {
        let all = (0..ranges.len())
            .filter(|at| thread(ranges[*at]) == on && contains(interval(ranges[*at]), interval(call)));
        all.collect()
    }

    prop_compose! {
        fn raw(most: usize, longest: i64)(
            raw in proptest::collection::vec((0_i64..40, 0..longest, 0_usize..4), 0..most)
        ) -> Raw { raw }
    }

    proptest! {
        /// The sweep finds exactly the pairs that comparing every pair finds, also for ranges that
        /// overlap without nesting.
        #[test]
        fn all_pairs_are_found(ranges in raw(30, 20), calls in raw(30, 6)) {
            let (nesting, _) = place(&ranges, &calls, AttributeBy::Thread);
            let expected: Vec<Vec<usize>> =
                calls.iter().map(|call| around(&ranges, *call, thread(*call))).collect();
            prop_assert_eq!(found(&nesting, &calls), expected);
        }

        /// By process, a call within a range of its own thread stays there, and any other gets the
        /// ranges of the main thread.
        #[test]
        fn calls_outside_go_to_the_main_thread(ranges in raw(30, 20), calls in raw(30, 6)) {
            let (nesting, owners) = place(&ranges, &calls, AttributeBy::Process);
            let expected = calls.iter().map(|call| {
                let own = around(&ranges, *call, thread(*call));
                match owners.main_thread(thread(*call).process()) {
                    Some(main) if own.is_empty() => around(&ranges, *call, main),
                    _ => own,
                }
            });
            prop_assert_eq!(found(&nesting, &calls), expected.collect::<Vec<_>>());
        }
    }

    proptest! {
        /// The nodes within a node follow it without a gap, and a range has a second node within
        /// one thread only where ranges overlap.
        #[test]
        fn nodes_are_in_the_order_of_a_tree(ranges in raw(30, 20), calls in raw(30, 6)) {
            let (nesting, _) = place(&ranges, &calls, AttributeBy::Thread);
            let mut path: Vec<usize> = Vec::new();
            for node in 0..nesting.len() {
                match nesting.range_and_parent(node) {
                    Some((_, parent)) => {
                        while path.last().is_some_and(|last| *last != parent) {
                            path.pop();
                        }
                        prop_assert!(!path.is_empty(), "node {} is not right within {}", node, parent);
                    }
                    None => path.clear(),
                }
                path.push(node);
            }
        }
    }

    #[test]
    fn the_main_thread_is_that_of_the_process_or_has_the_most_ranges() {
        let main = |ranges: &[usize]| {
            let ranges: Raw = ranges.iter().map(|thread| (0, 1, *thread)).collect();
            place(&ranges, &Vec::new(), AttributeBy::Process).1.main_thread(ProcessId(0x100_0000))
        };
        assert_eq!(main(&[1, 1, 1, 0]), Some(ThreadId(THREADS[0])));
        assert_eq!(main(&[1, 2, 2]), Some(ThreadId(THREADS[2])));
        assert_eq!(main(&[2, 1]), Some(ThreadId(THREADS[1])), "of equals the smallest");
        assert_eq!(main(&[3]), None, "another process has none to lend");
    }
}
