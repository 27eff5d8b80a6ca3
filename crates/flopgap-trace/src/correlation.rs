//! Correlation ids: from a process and an id to a number, and sets of them.

use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;

use crate::{CorrelationId, ProcessId};

/// No number.
const NONE: u32 = u32::MAX;
/// Set in a number that was taken.
const TAKEN: u32 = 1 << 31;

/// Numbers below 2³¹ by process and correlation id.
///
/// CUPTI counts correlation ids up by one in each process, so a number costs four bytes in a plain
/// vector; ids that are scattered (a trace that was trimmed or fixed) are hashed.
#[derive(Debug, Default)]
pub struct Correlations {
    processes: Vec<(ProcessId, Slots)>,
}

#[derive(Debug)]
enum Slots {
    /// The numbers of the ids from `base` on, of which `ids` were given.
    Dense {
        base: i64,
        numbers: Vec<u32>,
        ids: usize,
    },
    Scattered(FxHashMap<i64, u32>),
}

/// The place of an id in a vector of numbers, which is made longer for it; `None` when it would
/// then be mostly empty.
fn reach(base: &mut i64, numbers: &mut Vec<u32>, ids: usize, id: i64) -> Option<usize> {
    let most = ids.saturating_mul(16).saturating_add(1 << 16);
    if id < *base {
        let more = usize::try_from(base.checked_sub(id)?).ok().filter(|more| more + numbers.len() <= most)?;
        // CorrelationIds that arrive in descending order must not move all numbers each time.
        let below = usize::try_from(id.saturating_sub(i64::MIN)).unwrap_or(0);
        let spare = (numbers.len() / 2).min(most - more - numbers.len()).min(below);
        numbers.splice(0..0, std::iter::repeat_n(NONE, more + spare));
        *base = id - i64::try_from(spare).ok()?;
        return Some(spare);
    }
    let at = usize::try_from(id.checked_sub(*base)?).ok().filter(|at| *at < most)?;
    if at >= numbers.len() {
        numbers.resize(at + 1, NONE);
    }
    Some(at)
}

impl Correlations {
    /// Adds a process, of which there may be no ids; its place.
    pub fn add_process(&mut self, process: ProcessId) -> usize {
        self.place_of(Some(process)).unwrap_or_else(|| {
            self.processes.push((process, Slots::Dense { base: 0, numbers: Vec::new(), ids: 0 }));
            self.processes.len() - 1
        })
    }

    /// Gives an id a number, unless it has one, which is then returned.
    #[inline]
    pub fn insert(&mut self, process: ProcessId, id: CorrelationId, number: u32) -> Option<u32> {
        let CorrelationId(id) = id;
        let at = self.add_process(process);
        let slots = &mut self.processes[at].1;
        if let Slots::Dense { base, numbers, ids } = slots {
            if numbers.is_empty() {
                *base = id;
            }
            *ids += 1;
            if let Some(at) = reach(base, numbers, *ids, id) {
                let slot = &mut numbers[at];
                let known = (*slot != NONE).then_some(*slot & !TAKEN);
                if known.is_none() {
                    *slot = number;
                }
                return known;
            }
            let known = (0..).zip(numbers.iter()).filter(|(_, number)| **number != NONE);
            let scattered = known.map(|(at, number)| (*base + at, *number)).collect();
            *slots = Slots::Scattered(scattered);
        }
        match slots {
            Slots::Scattered(numbers) => match numbers.entry(id) {
                Entry::Occupied(known) => Some(*known.get() & !TAKEN),
                Entry::Vacant(slot) => {
                    slot.insert(number);
                    None
                }
            },
            Slots::Dense { .. } => None,
        }
    }

    /// The number of an id. Exports that lack the process of GPU work mean the only one, when there
    /// is only one.
    #[inline]
    pub fn get(&self, process: Option<ProcessId>, id: CorrelationId) -> Option<u32> {
        let CorrelationId(id) = id;
        let at = self.place_of(process)?;
        let number = match &self.processes[at].1 {
            Slots::Dense { base, numbers, .. } => {
                *numbers.get(usize::try_from(id.checked_sub(*base)?).ok()?)?
            }
            Slots::Scattered(numbers) => *numbers.get(&id)?,
        };
        (number != NONE).then_some(number & !TAKEN)
    }

    /// [`Correlations::get`], and whether this is the first time that the number of this id is
    /// taken.
    #[inline]
    pub fn take(&mut self, process: Option<ProcessId>, id: CorrelationId) -> Option<(u32, bool)> {
        let CorrelationId(id) = id;
        let at = self.place_of(process)?;
        let number = match &mut self.processes[at].1 {
            Slots::Dense { base, numbers, .. } => {
                numbers.get_mut(usize::try_from(id.checked_sub(*base)?).ok()?)?
            }
            Slots::Scattered(numbers) => numbers.get_mut(&id)?,
        };
        if *number == NONE {
            return None;
        }
        let first = *number & TAKEN == 0;
        *number |= TAKEN;
        Some((*number & !TAKEN, first))
    }

    #[inline]
    fn place_of(&self, process: Option<ProcessId>) -> Option<usize> {
        match process {
            Some(process) => self.processes.iter().position(|(known, _)| *known == process),
            None => (self.processes.len() == 1).then_some(0),
        }
    }
}

/// A set of correlation ids, in about one bit for each: a process counts them up.
#[derive(Debug, Default)]
pub struct CorrelationIds {
    /// Pages of 4096 bits.
    pages: FxHashMap<(ProcessId, i64), Box<[u64; 64]>>,
}

impl CorrelationIds {
    fn place((process, CorrelationId(id)): (ProcessId, CorrelationId)) -> ((ProcessId, i64), usize, u64) {
        let low = usize::try_from(id & 0xfff).unwrap_or_default();
        ((process, id >> 12), low / 64, 1 << (low % 64))
    }

    /// Adds an id; false when it was there.
    pub fn insert(&mut self, id: (ProcessId, CorrelationId)) -> bool {
        let (page, word, bit) = CorrelationIds::place(id);
        let word = &mut self.pages.entry(page).or_insert_with(|| Box::new([0; 64]))[word];
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    /// Whether an id was added.
    pub fn contains(&self, id: (ProcessId, CorrelationId)) -> bool {
        let (page, word, bit) = CorrelationIds::place(id);
        self.pages.get(&page).is_some_and(|page| page[word] & bit != 0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ids_are_kept_apart() {
        let mut ids = CorrelationIds::default();
        let (a, b) = (ProcessId(1 << 24), ProcessId(2 << 24));
        for id in [0, 1, 63, 64, 4095, 4096, -1, i64::MIN, i64::MAX].map(CorrelationId) {
            assert!(ids.insert((a, id)));
            assert!(!ids.insert((a, id)));
            assert!(ids.contains((a, id)) && !ids.contains((b, id)));
        }
        for absent in [2, 4097, -2].map(CorrelationId) {
            assert!(!ids.contains((a, absent)));
        }
    }

    proptest! {
        /// For any ids, lookup finds the first number assigned to an id and nothing else.
        #[test]
        fn is_a_map_that_keeps_the_first(
            ids in proptest::collection::vec((0_i64..3, prop_oneof![0_i64..50, -9000_i64..9000, any::<i64>()], 0_u32..1000), 0..40),
            absent in proptest::collection::vec((0_i64..4, prop_oneof![0_i64..60, any::<i64>()]), 0..20),
        ) {
            let mut expected: FxHashMap<(ProcessId, CorrelationId), u32> = FxHashMap::default();
            let mut found = Correlations::default();
            for &(process, id, number) in &ids {
                let (process, id) = (ProcessId(process), CorrelationId(id));
                let known = expected.get(&(process, id)).copied();
                prop_assert_eq!(found.insert(process, id, number), known);
                expected.entry((process, id)).or_insert(number);
            }
            let mut taken = rustc_hash::FxHashSet::default();
            for (process, id) in ids.iter().map(|(process, id, _)| (*process, *id)).chain(absent) {
                let (process, id) = (ProcessId(process), CorrelationId(id));
                let number = expected.get(&(process, id)).copied();
                prop_assert_eq!(found.get(Some(process), id), number);
                let first = number.map(|number| (number, taken.insert((process, id))));
                prop_assert_eq!(found.take(Some(process), id), first);
            }
        }
    }
}
