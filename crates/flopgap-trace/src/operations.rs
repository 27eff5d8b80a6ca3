//! The durations of GPU operations: kernels by name, copies, sets.

use std::cmp::Reverse;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::kinds::Kinds;
use crate::stats::Values;
use crate::{DeviceId, ProcessId, Summary, WorkKind};

/// The GPU operations of a trace or of some of its ranges.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OperationTimes {
    /// The durations of each kernel by demangled name, largest total first; with
    /// [`Attribution::whole_graphs`](crate::Attribution::whole_graphs) also of graphs that were
    /// traced as a whole.
    pub kernels: Vec<(Arc<str>, Summary)>,
    /// The durations of memory copies; absent when there were none.
    pub copies: Option<Summary>,
    /// The durations of memsets; absent when there were none.
    pub sets: Option<Summary>,
    /// How many bytes were copied; absent where an export does not say it of all copies.
    pub copied_bytes: Option<u128>,
    /// How many bytes were set; absent where an export does not say it of all sets.
    pub set_bytes: Option<u128>,
    /// The operations of each process on each GPU, by process and GPU; empty in those of a place.
    pub places: Vec<PlaceTimes>,
}

/// The operations of one process on one GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct PlaceTimes {
    /// The process; absent where an export does not say it.
    pub process: Option<ProcessId>,
    /// The GPU, as the process numbers it.
    pub device: DeviceId,
    /// What it did.
    pub times: OperationTimes,
}

/// The durations of one process on one GPU, by the places of their kinds.
type Durations = ((Option<ProcessId>, DeviceId), Vec<Values>);

/// Durations of operations while they are added up.
#[derive(Debug, Default)]
pub struct OperationSums {
    places: Vec<Durations>,
    last: usize,
}

impl OperationSums {
    /// Adds an operation, by the place of its kind among [`Kinds`].
    #[inline]
    pub fn add(&mut self, process: Option<ProcessId>, device: DeviceId, kind: u32, duration: i64) {
        let is_there = |(place, _): &Durations| *place == (process, device);
        if !self.places.get(self.last).is_some_and(is_there) {
            self.last = self.places.iter().position(is_there).unwrap_or_else(|| {
                self.places.push(((process, device), Vec::new()));
                self.places.len() - 1
            });
        }
        let (times, kind) = (&mut self.places[self.last].1, kind as usize);
        if kind >= times.len() {
            times.resize_with(kind + 1, Values::default);
        }
        times[kind].add(duration);
    }

    /// The statistics. `name` gives what a kernel or whole graph is called, by the id of its kind;
    /// those without a name are left out.
    ///
    /// # Errors
    /// Those of `name`.
    pub fn finish<E>(
        self,
        kinds: &Kinds,
        mut name: impl FnMut(WorkKind, Option<i64>) -> Result<Option<Arc<str>>, E>,
    ) -> Result<OperationTimes, E> {
        let mut places = self.places;
        if places.len() < 2 {
            let Some(((process, device), times)) = places.pop() else { return Ok(OperationTimes::default()) };
            let times = named(times, kinds, &mut name)?;
            let only = PlaceTimes { process, device, times: times.clone() };
            return Ok(OperationTimes { places: vec![only], ..times });
        }
        places.sort_by_key(|(place, _)| *place);
        let mut all: Vec<Values> = Vec::new();
        let mut apart = Vec::new();
        for ((process, device), times) in places {
            all.resize_with(all.len().max(times.len()), Values::default);
            for (all, times) in all.iter_mut().zip(&times) {
                all.extend_from(times);
            }
            apart.push(PlaceTimes { process, device, times: named(times, kinds, &mut name)? });
        }
        Ok(OperationTimes { places: apart, ..named(all, kinds, &mut name)? })
    }
}

/// Durations by the places of their kinds, by name.
fn named<E>(
    times: Vec<Values>,
    kinds: &Kinds,
    name: &mut impl FnMut(WorkKind, Option<i64>) -> Result<Option<Arc<str>>, E>,
) -> Result<OperationTimes, E> {
    let (mut copies, mut sets) = (Values::default(), Values::default());
    let (mut copied_bytes, mut set_bytes) = (Some(0), Some(0));
    let add_bytes = |sum: &mut Option<u128>, bytes: Option<i64>, durations: &Values| {
        let bytes = bytes.and_then(|bytes| u128::try_from(bytes).ok());
        *sum = sum.zip(bytes).map(|(sum, bytes)| sum + bytes * u128::from(durations.len()));
    };
    let mut kernels: FxHashMap<Arc<str>, Values> = FxHashMap::default();
    for (durations, (kind, id)) in times.into_iter().zip(kinds.all()) {
        if durations.is_empty() {
            continue;
        }
        match kind {
            WorkKind::Copy => {
                add_bytes(&mut copied_bytes, *id, &durations);
                copies.extend(durations);
            }
            WorkKind::Set => {
                add_bytes(&mut set_bytes, *id, &durations);
                sets.extend(durations);
            }
            WorkKind::Kernel | WorkKind::Graph => {
                if let Some(name) = name(*kind, *id)? {
                    kernels.entry(name).or_default().extend(durations);
                }
            }
        }
    }
    let kernels = kernels.into_iter().filter_map(|(name, values)| Some((name, values.summary()?)));
    let mut kernels: Vec<(Arc<str>, Summary)> = kernels.collect();
    kernels.sort_unstable_by(|(name, one), (other_name, other)| {
        (Reverse(one.total), name).cmp(&(Reverse(other.total), other_name))
    });
    let (copies, sets) = (copies.summary(), sets.summary());
    Ok(OperationTimes { kernels, copies, sets, copied_bytes, set_bytes, places: Vec::new() })
}
