//! Kernels that are one because they read the same, though neither reads what the other writes.

use std::collections::BTreeSet;

use super::{Unit, Units};

/// How far apart in order kernels are at most that are fused because they read the same (Inductor's
/// `are_long_distant_nodes`).
const FARTHEST: usize = 64;
/// The fewest bytes for which they are (`score_fusion_memory_threshold`).
const LEAST_SHARED: u64 = 10;

impl Units<'_> {
    /// A unit that reads whole tensors that another reads, does as much, and is not far away.
    pub(super) fn beside(&self, own: usize) -> Option<usize> {
        let unit = &self.all[own];
        let first = unit.last.saturating_sub(FARTHEST);
        let largest = |unit: &Unit| unit.reads.values().max().copied();
        (first..self.all.len()).rev().find(|&other| {
            let it = &self.all[other];
            other != own
                && !it.is_gone
                && it.last.saturating_sub(own) <= FARTHEST
                && it.elements == unit.elements
                && largest(it) == largest(unit)
                && !it.above.has(own)
                && !unit.above.has(other)
                && self.is_worth(it, unit)
                && self.fits(other, own)
                && self.fits(own, other)
        })
    }

    /// Whether two units read enough of the same to be one, though memory that one of them leaves
    /// free could be what the other writes (Inductor's `can_fusion_increase_peak_memory`).
    fn is_worth(&self, one: &Unit, other: &Unit) -> bool {
        let shared = one.whole.intersection(&other.whole);
        let shared = shared.map(|&tensor| self.bytes(tensor)).fold(0, u64::saturating_add);
        let freed = |unit: &Unit| -> BTreeSet<(u64, u64)> {
            let tensors = unit
                .reads
                .keys()
                .filter(|tensor| self.writer[**tensor].is_some() && self.users[**tensor].len() == 1);
            tensors.map(|&tensor| (self.bytes(tensor), self.width(tensor))).collect()
        };
        let (freed, others) = (freed(one), freed(other));
        let elements = freed.intersection(&others).map(|(bytes, width)| bytes / width.max(&1));
        shared >= LEAST_SHARED && elements.fold(0, u64::saturating_add) <= shared.saturating_mul(32)
    }
}
