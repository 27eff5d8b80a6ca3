//! Sequences of kernels on one stream that one kernel could do.

use rustc_hash::FxHashMap;

use crate::cause::Cause;
use crate::host::{Host, NONE};
use crate::late::DEPENDENT_NS;
use crate::operation::{Lane, Op};
use crate::timeline::Timeline;

/// What was found within measured steps.
#[derive(Debug, Default)]
pub(crate) struct Patterns {
    /// Products around softmax, with all between them.
    pub(crate) attention_ns: i64,
    /// By kernel.
    pub(crate) attention: FxHashMap<u32, i64>,
    /// Of chains of operations by element, all but the shortest kernel of each.
    pub(crate) chains_ns: i64,
    /// By kernel, all of it.
    pub(crate) chains: FxHashMap<u32, i64>,
    /// Work of forward passes that was done again in the backward pass.
    pub(crate) recomputed_ns: i64,
    /// By kernel.
    pub(crate) recomputed: FxHashMap<u32, i64>,
    /// How many kernels and copies were launched, and the kernels among them that communicate, with
    /// the sum of their durations.
    pub(crate) launched: u64,
    /// How many calls launched kernels one by one, where that is asked for.
    pub(crate) launches: Option<u64>,
    pub(crate) collectives: (i64, i64),
    /// The durations of copies to GPUs, and from them.
    pub(crate) copied_ns: [i64; 2],
    /// Of kernels on several streams that never ran at the same time, all but those of the busiest
    /// stream.
    pub(crate) serialized_ns: i64,
}

/// So many kernels may lie between the products of attention and its softmax: scale, mask, cast,
/// dropout.
const BETWEEN: usize = 6;

impl Patterns {
    /// Adds what some measured intervals of a lane hold.
    pub(crate) fn add(&mut self, timeline: &Timeline, host: &Host, lane: &Lane, measured: &[(i64, i64)]) {
        let mut next = 0;
        // Both lie by time.
        let inside = (0_u32..).zip(&lane.operations).filter(|(_, op)| {
            while measured.get(next).is_some_and(|(start, _)| *start <= op.start) {
                next += 1;
            }
            next.checked_sub(1).is_some_and(|at| op.start < measured[at].1)
        });
        let mut inside: Vec<u32> = inside.map(|(at, _)| at).collect();
        let op = |at: &u32| &lane.operations[*at as usize];
        self.launched += inside.len() as u64;
        if let Some(launches) = &mut self.launches {
            *launches += count_launches(timeline, host, inside.iter().map(op));
        }
        for op in inside.iter().map(op) {
            let ns = op.end - op.start;
            match timeline.kind(op).cause {
                Cause::Communication => {
                    self.collectives.0 += 1;
                    self.collectives.1 += ns;
                }
                Cause::HostToDevice => self.copied_ns[0] += ns,
                Cause::DeviceToHost => self.copied_ns[1] += ns,
                _ => {}
            }
        }
        self.serialized(timeline, inside.iter().map(op));
        inside.sort_by_key(|at| op(at).stream());
        for own in inside.chunk_by(|a, b| op(a).stream() == op(b).stream()) {
            let own: Vec<&Op> = own.iter().map(op).collect();
            let in_attention = self.attention(timeline, &own);
            self.chains(timeline, host, &own, &in_attention);
            if host.recomputes() {
                for op in own.iter().filter(|op| host.meaning(op.range(host, None)).is_recomputed) {
                    add(&mut self.recomputed_ns, &mut self.recomputed, op);
                }
            }
        }
    }

    /// Streams that compute in turns: none of their kernels run at the same time, and they take
    /// turns at least every few kernels.
    fn serialized<'a>(&mut self, timeline: &Timeline, inside: impl Iterator<Item = &'a Op>) {
        let mut busy: FxHashMap<u32, i64> = FxHashMap::default();
        let (mut overlap, mut turns, mut all) = (0, 0, 0_i64);
        let mut last: Option<&Op> = None;
        for op in inside.filter(|op| timeline.kind(op).rank() == 0) {
            *busy.entry(op.stream()).or_default() += op.end - op.start;
            all += 1;
            if let Some(last) = last {
                overlap += (last.end - op.start).clamp(0, op.end - op.start);
                turns += i64::from(last.stream() != op.stream());
            }
            if last.is_none_or(|last| last.end < op.end) {
                last = Some(op);
            }
        }
        let others = busy.values().sum::<i64>() - busy.values().copied().max().unwrap_or_default();
        if overlap < others / 10 && 10 * turns > all {
            self.serialized_ns += others;
        }
    }

    /// Product, softmax, product: which operations of a stream these are.
    fn attention(&mut self, timeline: &Timeline, own: &[&Op]) -> Vec<bool> {
        let cause = |at: usize| timeline.kind(own[at]).cause;
        let is_product =
            |at: usize| matches!(cause(at), Cause::TensorCores | Cause::CudaCores | Cause::Matmul);
        let is_between = |at: usize| {
            matches!(
                cause(at),
                Cause::Elementwise
                    | Cause::Layout
                    | Cause::Random
                    | Cause::Softmax
                    | Cause::DeviceToDevice
                    | Cause::Set
            )
        };
        let mut within = vec![false; own.len()];
        for at in (0..own.len()).filter(|at| cause(*at) == Cause::Softmax) {
            let before = (at.saturating_sub(BETWEEN)..at).rev().find(|at| !is_between(*at));
            let after = (at + 1..own.len().min(at + 1 + BETWEEN)).find(|at| !is_between(*at));
            if let (Some(before), Some(after)) = (before, after)
                && is_product(before)
                && is_product(after)
            {
                within[before..=after].fill(true);
            }
        }
        for (op, _) in own.iter().zip(&within).filter(|(_, within)| **within) {
            add(&mut self.attention_ns, &mut self.attention, op);
        }
        within
    }

    /// Operations by element that follow each other.
    fn chains(&mut self, timeline: &Timeline, host: &Host, own: &[&Op], in_attention: &[bool]) {
        let is_optimizer = |op: &Op| host.meaning(op.range(host, None)).is_optimizer;
        let is_link = |at: usize| {
            matches!(timeline.kind(own[at]).cause, Cause::Elementwise | Cause::Layout)
                && timeline.kind(own[at]).info.is_some()
                && !in_attention[at]
                && !is_optimizer(own[at])
        };
        let mut at = 0;
        while at < own.len() {
            let mut end = at;
            while end < own.len() && is_link(end) {
                end += 1;
            }
            if end - at >= 2 {
                let lengths = own[at..end].iter().map(|op| op.end - op.start);
                let (all, least) = lengths.fold((0, i64::MAX), |(all, least), ns| (all + ns, least.min(ns)));
                // What lies between them goes, too.
                let gaps = own[at..end].windows(2).map(|pair| pair[1].start - pair[0].end);
                let gaps: i64 = gaps.filter(|gap| (0..DEPENDENT_NS).contains(gap)).sum();
                self.chains_ns += all - least + gaps;
                for op in &own[at..end] {
                    *self.chains.entry(op.kind).or_default() += op.end - op.start;
                }
            }
            at = end.max(at + 1);
        }
    }
}

/// How many calls launched kernels, without those that launch graphs.
fn count_launches<'a>(timeline: &Timeline, host: &Host, inside: impl Iterator<Item = &'a Op>) -> u64 {
    let is_graph = host.calls_named(|name| name.contains("Graph"));
    let is_single = |call: u32| call != NONE && !is_graph[host.calls[call as usize].name.index()];
    let kernels = inside.filter(|op| timeline.kind(op).info.is_some());
    let mut calls: Vec<u32> = kernels.map(|op| op.call).filter(|call| is_single(*call)).collect();
    // The work of one call, such as a cooperative launch on several GPUs, is one launch.
    calls.sort_unstable();
    calls.dedup();
    calls.len() as u64
}

/// Adds an operation to a sum and to that of its kind.
fn add(sum: &mut i64, kinds: &mut FxHashMap<u32, i64>, op: &Op) {
    let ns = op.end - op.start;
    *sum += ns;
    *kinds.entry(op.kind).or_default() += ns;
}
