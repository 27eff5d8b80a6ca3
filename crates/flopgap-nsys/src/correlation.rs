//! From a process and a correlation id to a number.

use rustc_hash::FxHashMap;

use crate::GlobalId;

/// No number.
const NONE: u32 = u32::MAX;
/// Set in a number that was taken.
const TAKEN: u32 = 1 << 31;

/// Numbers below 2³¹ by process and correlation id.
///
/// CUPTI counts correlation ids up by one in each process, so a number costs four bytes in a plain vector; ids that are scattered
/// (a trace that was trimmed or mended) are hashed.
#[derive(Debug, Default)]
pub(crate) struct Correlations {
    processes: Vec<(GlobalId, Slots)>,
}

#[derive(Debug)]
enum Slots {
    Dense { base: i64, numbers: Vec<u32> },
    Scattered(FxHashMap<i64, u32>),
}

/// Which ids a process uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    least: i64,
    most: i64,
    ids: u64,
}

impl Extent {
    pub(crate) const EMPTY: Extent = Extent { least: i64::MAX, most: i64::MIN, ids: 0 };

    pub(crate) fn add(&mut self, id: i64) {
        self.least = self.least.min(id);
        self.most = self.most.max(id);
        self.ids += 1;
    }

    fn slots(self) -> Slots {
        let width = i128::from(self.most) - i128::from(self.least) + 1;
        match usize::try_from(width) {
            Ok(width) if width as u64 <= self.ids.saturating_mul(4).saturating_add(1024) => {
                Slots::Dense { base: self.least, numbers: vec![NONE; width] }
            }
            _ => Slots::Scattered(FxHashMap::default()),
        }
    }
}

impl Correlations {
    /// Room for the ids of some processes.
    pub(crate) fn new(processes: impl IntoIterator<Item = (GlobalId, Extent)>) -> Correlations {
        let slots = processes.into_iter().map(|(process, extent)| (process, extent.slots()));
        Correlations { processes: slots.collect() }
    }

    /// Gives an id of a known process a number, unless it has one.
    pub(crate) fn insert(&mut self, process: GlobalId, id: i64, number: u32) {
        let Some((_, slots)) = self.processes.iter_mut().find(|(known, _)| *known == process) else {
            return;
        };
        match slots {
            Slots::Dense { base, numbers } => {
                let at = id.checked_sub(*base).and_then(|at| usize::try_from(at).ok());
                if let Some(slot) = at.and_then(|at| numbers.get_mut(at))
                    && *slot == NONE
                {
                    *slot = number;
                }
            }
            Slots::Scattered(numbers) => {
                numbers.entry(id).or_insert(number);
            }
        }
    }

    /// The number of an id. Exports that lack the process of GPU work mean the only one, when there is only one.
    pub(crate) fn get(&self, process: Option<GlobalId>, id: i64) -> Option<u32> {
        let at = self.place_of(process)?;
        let number = match &self.processes[at].1 {
            Slots::Dense { base, numbers } => *numbers.get(usize::try_from(id.checked_sub(*base)?).ok()?)?,
            Slots::Scattered(numbers) => *numbers.get(&id)?,
        };
        (number != NONE).then_some(number & !TAKEN)
    }

    /// [`Correlations::get`], and whether this is the first time that the number of this id is taken.
    pub(crate) fn take(&mut self, process: Option<GlobalId>, id: i64) -> Option<(u32, bool)> {
        let at = self.place_of(process)?;
        let number = match &mut self.processes[at].1 {
            Slots::Dense { base, numbers } => {
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

    fn place_of(&self, process: Option<GlobalId>) -> Option<usize> {
        match process {
            Some(process) => self.processes.iter().position(|(known, _)| *known == process),
            None => (self.processes.len() == 1).then_some(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever the ids, the first number given to one is found again, and nothing else is found.
        #[test]
        fn is_a_map_that_keeps_the_first(
            ids in proptest::collection::vec((0_i64..3, prop_oneof![0_i64..50, any::<i64>()], 0_u32..1000), 0..40),
            absent in proptest::collection::vec((0_i64..4, prop_oneof![0_i64..60, any::<i64>()]), 0..20),
        ) {
            let mut extents: FxHashMap<GlobalId, Extent> = FxHashMap::default();
            let mut expected: FxHashMap<(GlobalId, i64), u32> = FxHashMap::default();
            for &(process, id, number) in &ids {
                extents.entry(GlobalId(process)).or_insert(Extent::EMPTY).add(id);
                expected.entry((GlobalId(process), id)).or_insert(number);
            }
            let mut found = Correlations::new(extents);
            for &(process, id, number) in &ids {
                found.insert(GlobalId(process), id, number);
            }
            let mut taken = rustc_hash::FxHashSet::default();
            for (process, id) in ids.iter().map(|(process, id, _)| (*process, *id)).chain(absent) {
                let process = GlobalId(process);
                let number = expected.get(&(process, id)).copied();
                prop_assert_eq!(found.get(Some(process), id), number);
                let first = number.map(|number| (number, taken.insert((process, id))));
                prop_assert_eq!(found.take(Some(process), id), first);
            }
        }
    }
}
