//! The GPU work of a trace with the ranges around its launches: read once for many queries.

use std::sync::Arc;

use crate::covered::{Added, Covered};
use crate::kinds::Kinds;
use crate::nesting::Nesting;
use crate::{DeviceId, GpuWork, ProcessId, Ranges, Work, WorkKind};

/// No node, no slot, no range.
const NONE: u32 = u32::MAX;
/// Set in the launch of the first piece of work of a call.
const FIRST: u32 = 1 << 31;

/// The NVTX ranges of a trace and all of its GPU work, each piece with the ranges around the call
/// that launched it.
///
/// It takes 24 bytes for each piece of work and about 60 for each range. As long as one is alive,
/// every question about ranges that its trace is asked is answered from it; without, each reads the
/// file again.
///
#[derive(Debug)]
pub struct Launched {
    nvtx: Arc<Ranges>,
    nesting: Nesting,
    lanes: Vec<Lane>,
    kinds: Kinds,
    unlaunched: Unlaunched,
}

/// The work of one process on one GPU.
#[derive(Debug)]
struct Lane {
    process: Option<ProcessId>,
    device: DeviceId,
    /// By start.
    pieces: Vec<Piece>,
}

/// A piece of GPU work.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// When it began, in nanoseconds since the recording began.
    pub start: i64,
    /// When it ended.
    pub end: i64,
    /// Its place among the kinds.
    pub kind: u32,
    /// The node of its launch, or `NONE` when the call was not recorded.
    launch: u32,
}

impl Piece {
    fn node(self) -> Option<usize> {
        (self.launch != NONE).then_some((self.launch & !FIRST) as usize)
    }

    fn is_first(self) -> bool {
        self.launch != NONE && self.launch & FIRST != 0
    }

    /// From start to end, in nanoseconds.
    #[inline]
    pub fn duration(self) -> i64 {
        self.end.saturating_sub(self.start)
    }
}

/// The GPU work of all ranges of a group. Every number is the sum over its ranges of what
/// [`GpuWork`] says of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkSum {
    /// How many of the ranges launched work.
    pub instances: u64,
    /// From the first of the work of each range to the last: [`GpuWork::end`] less
    /// [`GpuWork::start`].
    pub projected: i128,
    /// As [`GpuWork::busy`].
    pub busy: i128,
    /// As [`GpuWork::extent`].
    pub extent: i128,
    /// As [`GpuWork::total`].
    pub total: i128,
    /// As [`GpuWork::kernels`].
    pub kernels: u64,
    /// As [`GpuWork::operations`].
    pub operations: u64,
}

/// GPU work whose launch was not recorded, as when the recording began between the call and the
/// kernel. No range can own it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Unlaunched {
    /// How many kernels; graphs that were traced as a whole do not count.
    pub kernels: u64,
    /// The sum of their durations.
    pub kernel_ns: i128,
    /// How many kernels, copies, memsets and whole graphs.
    pub operations: u64,
    /// The sum of their durations.
    pub total_ns: i128,
}

/// The work of a trace while it is collected.
#[derive(Debug)]
pub struct Collecting {
    nvtx: Arc<Ranges>,
    nesting: Nesting,
    lanes: Vec<Lane>,
    last: usize,
    unlaunched: Unlaunched,
}

impl Collecting {
    /// Adds a piece of work, by the place of its kind among the kinds.
    #[inline]
    pub fn add(&mut self, work: &Work, kind: u32) {
        let launch = if let Some((node, first)) = self.nesting.take(work.process, work.correlation) {
            // There are fewer than 2^31 nodes.
            u32::try_from(node).unwrap_or(NONE) | if first { FIRST } else { 0 }
        } else {
            let time = i128::from(work.duration());
            let is_kernel = work.kind == WorkKind::Kernel;
            self.unlaunched.kernels += u64::from(is_kernel);
            self.unlaunched.kernel_ns += if is_kernel { time } else { 0 };
            self.unlaunched.operations += 1;
            self.unlaunched.total_ns += time;
            NONE
        };
        let is_of = |lane: &Lane| (lane.process, lane.device) == (work.process, work.device);
        if !self.lanes.get(self.last).is_some_and(is_of) {
            self.last = self.lanes.iter().position(is_of).unwrap_or_else(|| {
                self.lanes.push(Lane { process: work.process, device: work.device, pieces: Vec::new() });
                self.lanes.len() - 1
            });
        }
        self.lanes[self.last].pieces.push(Piece { start: work.start, end: work.end, kind, launch });
    }

    /// All of it, in the order of time; `kinds` are what the places of kinds mean.
    pub fn finish(mut self, kinds: Kinds) -> Launched {
        self.nesting.forget_calls();
        self.lanes.sort_by_key(|lane| (lane.device, lane.process));
        for lane in &mut self.lanes {
            lane.pieces.shrink_to_fit();
            lane.pieces.sort_unstable_by_key(|piece| piece.start);
        }
        let Collecting { nvtx, nesting, lanes, unlaunched, .. } = self;
        Launched { nvtx, nesting, lanes, kinds, unlaunched }
    }
}

impl Launched {
    /// Begins to collect the work of a trace, whose calls are placed among its ranges.
    pub fn collect(nvtx: Arc<Ranges>, nesting: Nesting) -> Collecting {
        Collecting { nvtx, nesting, lanes: Vec::new(), last: 0, unlaunched: Unlaunched::default() }
    }

    /// What the places of kinds mean.
    pub fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// The ranges; elsewhere they are named by their places here.
    pub fn nvtx(&self) -> &Arc<Ranges> {
        &self.nvtx
    }

    /// The work that belongs to no range because its launch was not recorded.
    pub fn unlaunched(&self) -> Unlaunched {
        self.unlaunched
    }

    /// The work launched within each of some ranges; `None` where nothing was launched.
    ///
    /// # Panics
    /// When a range is not one of [`Launched::nvtx`].
    pub fn work_of(&self, ranges: &[usize]) -> Vec<Option<GpuWork>> {
        let slots = Slots::new(self.nvtx.ranges.len(), ranges.iter().copied());
        let mut work: Vec<Option<GpuWork>> = vec![None; slots.count];
        self.each_within(&slots, |_| true, |slot, share| share.add_to(&mut work[slot]));
        ranges.iter().map(|range| work[slots.of_range[*range] as usize]).collect()
    }

    /// The same for each GPU on its own, by the number that processes give it; GPUs that did
    /// nothing for these ranges are left out.
    ///
    /// # Panics
    /// When a range is not one of [`Launched::nvtx`].
    pub fn work_by_gpu(&self, ranges: &[usize]) -> Vec<(DeviceId, Vec<Option<GpuWork>>)> {
        self.work_by_gpu_of(ranges, |_| true)
    }

    /// The same for the work of some kinds alone, by their places among the kinds.
    ///
    /// # Panics
    /// When a range is not one of [`Launched::nvtx`].
    pub fn work_by_gpu_of(
        &self,
        ranges: &[usize],
        kind: impl Fn(u32) -> bool,
    ) -> Vec<(DeviceId, Vec<Option<GpuWork>>)> {
        let slots = Slots::new(self.nvtx.ranges.len(), ranges.iter().copied());
        let mut gpus: Vec<(DeviceId, Vec<Option<GpuWork>>)> = Vec::new();
        self.each_within(&slots, kind, |slot, share| {
            if gpus.last().is_none_or(|(device, _)| *device != share.device) {
                gpus.push((share.device, vec![None; slots.count]));
            }
            if let Some((_, work)) = gpus.last_mut() {
                share.add_to(&mut work[slot]);
            }
        });
        let of_ranges = |work: Vec<Option<GpuWork>>| {
            ranges.iter().map(|range| work[slots.of_range[*range] as usize]).collect()
        };
        gpus.into_iter().map(|(device, work)| (device, of_ranges(work))).collect()
    }

    /// The work launched within the ranges of each group, added up; a range is of one group at
    /// most.
    ///
    /// # Panics
    /// When a range is not one of [`Launched::nvtx`].
    pub fn sums_of(&self, groups: &[&[usize]]) -> Vec<WorkSum> {
        let slots = Grouped::new(self.nvtx.ranges.len(), groups);
        let mut sums = Sums::new(&slots);
        self.each_within(&slots.slots, |_| true, |slot, share| sums.add(slot, &share));
        sums.end()
    }

    /// The same for each GPU on its own, by the number that processes give it; GPUs that did
    /// nothing for these ranges are left out.
    ///
    /// # Panics
    /// When a range is not one of [`Launched::nvtx`].
    pub fn sums_by_gpu(&self, groups: &[&[usize]]) -> Vec<(DeviceId, Vec<WorkSum>)> {
        let slots = Grouped::new(self.nvtx.ranges.len(), groups);
        let mut gpus: Vec<(DeviceId, Vec<WorkSum>)> = Vec::new();
        let mut current: Option<(DeviceId, Sums<'_>)> = None;
        self.each_within(
            &slots.slots,
            |_| true,
            |slot, share| {
                if current.as_ref().is_none_or(|(device, _)| *device != share.device) {
                    let before = current.replace((share.device, Sums::new(&slots)));
                    gpus.extend(before.map(|(device, sums)| (device, sums.end())));
                }
                if let Some((_, sums)) = &mut current {
                    sums.add(slot, &share);
                }
            },
        );
        gpus.extend(current.map(|(device, sums)| (device, sums.end())));
        gpus
    }

    /// Calls `visit` with every piece of work that was launched within one of some ranges, which
    /// are named by their places among the trace's ranges, and its process and GPU.
    ///
    /// # Panics
    /// If a place is not that of a range.
    #[inline]
    pub fn within(&self, ranges: &[usize], mut visit: impl FnMut(Option<ProcessId>, DeviceId, Piece)) {
        let mut wanted = vec![false; self.nvtx.ranges.len()];
        for range in ranges {
            wanted[*range] = true;
        }
        let nodes = self.nesting.within(|range| wanted[range]);
        self.each(|process, device, piece| {
            if piece.node().is_some_and(|node| nodes[node]) {
                visit(process, device, piece);
            }
        });
    }

    /// Calls `visit` with every piece of work and its process and GPU, the pieces of each GPU by
    /// start.
    #[inline]
    pub fn each(&self, mut visit: impl FnMut(Option<ProcessId>, DeviceId, Piece)) {
        for lane in &self.lanes {
            lane.pieces.iter().for_each(|piece| visit(lane.process, lane.device, *piece));
        }
    }

    /// What a piece of work is.
    #[inline]
    pub fn kind(&self, piece: Piece) -> WorkKind {
        self.kinds.all()[piece.kind as usize].0
    }

    /// Calls `add` with every range that has a slot and every piece of work of a kind that was
    /// launched within it.
    fn each_within(&self, slots: &Slots, kind: impl Fn(u32) -> bool, mut add: impl FnMut(usize, Share)) {
        let nesting = &self.nesting;
        // For each node the nearest one, itself or around it, of a range that has a slot.
        let mut nearest = vec![NONE; nesting.len()];
        for node in 0..nesting.len() {
            if let Some((range, parent)) = nesting.range_and_parent(node) {
                let own = slots.of_range[range] != NONE;
                nearest[node] = if own { u32::try_from(node).unwrap_or(NONE) } else { nearest[parent] };
            }
        }
        let kernels: Vec<bool> = self.kinds.all().iter().map(|(kind, _)| *kind == WorkKind::Kernel).collect();
        let mut covered = vec![Covered::NOTHING; slots.count];
        for lanes in self.lanes.chunk_by(|one, other| one.device == other.device) {
            covered.fill(Covered::NOTHING);
            let device = lanes[0].device;
            for piece in in_time(lanes) {
                let Some(node) = piece.node().filter(|_| kind(piece.kind)) else { continue };
                let is_kernel = kernels[piece.kind as usize];
                let mut next = nearest[node];
                while next != NONE {
                    let Some((range, parent)) = nesting.range_and_parent(next as usize) else { break };
                    let slot = slots.of_range[range] as usize;
                    let added = covered[slot].add(piece.start, piece.end);
                    add(slot, Share { piece, device, is_kernel, added });
                    next = nearest[parent];
                }
            }
        }
    }
}

/// A piece of work of a range.
struct Share {
    piece: Piece,
    device: DeviceId,
    is_kernel: bool,
    /// What it adds to the time of the range's work on its device.
    added: Added,
}

impl Share {
    /// Adds it to the work of its range.
    fn add_to(&self, work: &mut Option<GpuWork>) {
        let Piece { start, end, .. } = self.piece;
        let none = GpuWork { start, end, busy: 0, extent: 0, total: 0, kernels: 0, operations: 0 };
        let known = work.get_or_insert(none);
        known.start = known.start.min(start);
        known.end = known.end.max(end);
        known.busy = known.busy.saturating_add(self.added.busy);
        known.extent = known.extent.saturating_add(self.added.extent);
        known.total += i128::from(end) - i128::from(start);
        known.kernels += u64::from(self.is_kernel);
        known.operations += u64::from(self.piece.is_first());
    }
}

/// Ranges in groups.
struct Grouped {
    slots: Slots,
    /// The group of each slot.
    group_of: Vec<usize>,
    groups: usize,
}

impl Grouped {
    fn new(ranges: usize, groups: &[&[usize]]) -> Grouped {
        let slots = Slots::new(ranges, groups.iter().flat_map(|group| group.iter().copied()));
        let mut group_of = vec![0; slots.count];
        for (at, group) in groups.iter().enumerate() {
            for range in *group {
                group_of[slots.of_range[*range] as usize] = at;
            }
        }
        Grouped { slots, group_of, groups: groups.len() }
    }
}

/// The work of groups of ranges while it is added up.
struct Sums<'a> {
    grouped: &'a Grouped,
    of_groups: Vec<WorkSum>,
    /// From when to when each range's work lasts; `None` where there is none.
    lasts: Vec<Option<(i64, i64)>>,
}

impl<'a> Sums<'a> {
    fn new(grouped: &'a Grouped) -> Sums<'a> {
        let of_groups = vec![WorkSum::default(); grouped.groups];
        Sums { grouped, of_groups, lasts: vec![None; grouped.slots.count] }
    }

    fn add(&mut self, slot: usize, Share { piece, is_kernel, added, .. }: &Share) {
        let sum = &mut self.of_groups[self.grouped.group_of[slot]];
        let (start, end) = self.lasts[slot].unwrap_or((piece.start, piece.end));
        self.lasts[slot] = Some((start.min(piece.start), end.max(piece.end)));
        sum.busy += i128::from(added.busy);
        sum.extent += i128::from(added.extent);
        sum.total += i128::from(piece.end) - i128::from(piece.start);
        sum.kernels += u64::from(*is_kernel);
        sum.operations += u64::from(piece.is_first());
    }

    fn end(mut self) -> Vec<WorkSum> {
        for (slot, lasts) in self.lasts.iter().enumerate() {
            if let Some((start, end)) = lasts {
                let sum = &mut self.of_groups[self.grouped.group_of[slot]];
                sum.instances += 1;
                sum.projected += i128::from(*end) - i128::from(*start);
            }
        }
        self.of_groups
    }
}

/// Numbers for some ranges, counted from 0.
struct Slots {
    /// The number of each range, or `NONE`.
    of_range: Vec<u32>,
    count: usize,
}

impl Slots {
    fn new(ranges: usize, wanted: impl Iterator<Item = usize>) -> Slots {
        let mut slots = Slots { of_range: vec![NONE; ranges], count: 0 };
        for range in wanted {
            let slot = &mut slots.of_range[range];
            if *slot == NONE {
                // A trace has fewer than 2^32 ranges (`OwnersByThread::add`).
                *slot = u32::try_from(slots.count).unwrap_or(NONE);
                slots.count += 1;
            }
        }
        slots
    }
}

/// The work of some lanes by start.
fn in_time(lanes: &[Lane]) -> impl Iterator<Item = Piece> + '_ {
    // Exports that say of some work whose it is and of some not have several lanes for one process.
    let mixed = lanes.len() > 1 && lanes.iter().any(|lane| lane.process.is_none());
    let mut merged: Vec<Piece> = Vec::new();
    if mixed {
        merged.extend(lanes.iter().flat_map(|lane| &lane.pieces));
        merged.sort_by_key(|piece| piece.start);
    }
    let apart = if mixed { &[][..] } else { lanes };
    merged.into_iter().chain(apart.iter().flat_map(|lane| lane.pieces.iter().copied()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AttributeBy, CorrelationId, Interval, LaunchCalls, Name, Owners};
    use crate::{Range, RangeId, RangeStyle, ThreadId};

    /// Exports may say of some work whose it is and of some not.
    #[test]
    fn work_without_a_process_overlaps_that_of_the_only_one() {
        let thread = ThreadId(0x100_0001);
        let range = Range {
            id: RangeId(1),
            start: 0,
            end: Some(100),
            thread,
            name: Name::at(0),
            style: RangeStyle::PushPop,
            crosses_threads: false,
        };
        let nvtx = Arc::new(Ranges { ranges: vec![range], ..Ranges::default() });
        let (mut calls, mut kinds) = (LaunchCalls::default(), Kinds::default());
        for correlation in 1..=2 {
            let at = 10 * correlation;
            calls.add(thread, Interval { start: at, end: at + 1 }, CorrelationId(correlation), false);
        }
        let nesting = Nesting::new(calls, &Owners::of(&nvtx), AttributeBy::Thread);
        let mut collecting = Launched::collect(nvtx, nesting);
        let known = Some(thread.process());
        for (process, correlation, start, end) in
            [(known, 9, 0, 7), (known, 1, 100, 110), (None, 2, 105, 125), (known, 1, 120, 140)]
        {
            let (device, correlation) = (DeviceId(0), Some(CorrelationId(correlation)));
            let work = Work { kind: WorkKind::Kernel, start, end, device, process, correlation };
            collecting.add(&work, kinds.place(WorkKind::Kernel, None));
        }
        let (busy, total) = (40, 10 + 20 + 20);
        let all = GpuWork { start: 100, end: 140, busy, extent: 40, total, kernels: 3, operations: 2 };
        let launched = collecting.finish(kinds);
        assert_eq!(launched.work_of(&[0]), [Some(all)]);
        // The call of the first was not recorded.
        let unlaunched = Unlaunched { kernels: 1, kernel_ns: 7, operations: 1, total_ns: 7 };
        assert_eq!(launched.unlaunched(), unlaunched);
    }
}
