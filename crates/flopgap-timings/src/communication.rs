//! Communication between GPUs against their computation: how much of it other kernels hide.

use std::collections::BTreeMap;

use flopgap_kernels::{Classifier, KernelClass};
use flopgap_trace::{DeviceId, ProcessId, Recording, WorkKind};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::collectives::{Calls, Collectives};
use crate::error::Error;
use crate::intervals::join;
use crate::place::{Gpus, Place, Spread};

/// Communication and computation of everything recorded, each process on each GPU for itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Communication {
    /// By rank, process and GPU.
    pub places: Vec<PlaceCommunication>,
    /// How the time in collectives divides into waiting and transfer.
    pub collectives: Collectives,
}

/// Communication and computation of one process on one GPU.
///
/// Every time is one in which any such kernel ran, so that two at once count once: `communication =
/// overlap + exposed`, and `kernels = computation + exposed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceCommunication {
    /// Which process on which GPU.
    pub place: Place,
    /// How many kernels communicate: those of NCCL and their like.
    pub communication_kernels: u64,
    /// In which any of them ran, waiting for other GPUs included ([`Communication::collectives`]).
    pub communication_ns: i128,
    /// In which any other kernel ran.
    pub computation_ns: i128,
    /// In which both ran.
    pub overlap_ns: i128,
    /// In which kernels communicated and no other kernel ran.
    pub exposed_ns: i128,
    /// In which any kernel, copy or memset ran.
    pub busy_ns: i128,
    /// From the first operation to the last.
    pub extent_ns: i128,
}

impl PlaceCommunication {
    /// The share of communication that other kernels hide; `None` without communication.
    pub fn hidden(&self) -> Option<f64> {
        (self.communication_ns > 0).then(|| self.overlap_ns as f64 / self.communication_ns as f64)
    }
}

impl Communication {
    /// Whether any kernel communicates.
    pub fn is_any(&self) -> bool {
        self.places.iter().any(|place| place.communication_kernels > 0)
    }

    /// How far the places are apart in a time; `None` for fewer than two.
    pub fn spread(&self, time: impl Fn(&PlaceCommunication) -> i128) -> Option<Spread> {
        Spread::of(self.places.iter().map(|own| (own.place, time(own) as f64)))
    }
}

/// The intervals of one process on one GPU.
#[derive(Default)]
struct Intervals {
    communication: Vec<(i64, i64)>,
    computation: Vec<(i64, i64)>,
    others: Vec<(i64, i64)>,
}

/// Communication and computation of everything recorded. Graphs that were traced as a whole are
/// computation: what runs in them is not known.
///
/// # Errors
/// When there is no GPU work.
pub fn communication(trace: &dyn Recording, classifier: &Classifier) -> Result<Communication, Error> {
    let mut places: BTreeMap<(Option<ProcessId>, DeviceId), Intervals> = BTreeMap::new();
    let mut known: FxHashMap<i64, bool> = FxHashMap::default();
    let gpus = Gpus::read(trace)?;
    let mut calls = Calls::default();
    trace.each_operation(true, &mut |operation| {
        let work = operation.work;
        let own = places.entry((work.process, work.device)).or_default();
        let list = match work.kind {
            WorkKind::Copy | WorkKind::Set => &mut own.others,
            WorkKind::Graph => &mut own.computation,
            WorkKind::Kernel => {
                let communicates = *known
                    .entry(operation.name_id)
                    .or_insert_with(|| classifier.get(operation.name).class == KernelClass::Communication);
                if communicates {
                    calls.add(gpus.place(work.process, work.device), operation);
                    &mut own.communication
                } else {
                    &mut own.computation
                }
            }
        };
        list.push((work.start, work.end));
    })?;
    let ran: Vec<Place> = places.keys().map(|(process, device)| gpus.place(*process, *device)).collect();
    let collectives = calls.split(&ran, trace.world_size());
    let mut places: Vec<PlaceCommunication> =
        places.into_iter().map(|((process, device), own)| own.times(gpus.place(process, device))).collect();
    places.sort_by_key(|own| own.place);
    Ok(Communication { places, collectives })
}

impl Intervals {
    fn times(self, place: Place) -> PlaceCommunication {
        let communication_kernels = self.communication.len() as u64;
        let Intervals { mut communication, mut computation, mut others } = self;
        let communication_ns = joined(&mut communication);
        let computation_ns = joined(&mut computation);
        let overlap_ns = overlap(&communication, &computation);
        others.extend(&communication);
        others.extend(&computation);
        let busy_ns = joined(&mut others);
        let extent_ns = others
            .first()
            .zip(others.last())
            .map_or(0, |((start, _), (_, end))| i128::from(*end) - i128::from(*start));
        PlaceCommunication {
            place,
            communication_kernels,
            communication_ns,
            computation_ns,
            overlap_ns,
            exposed_ns: communication_ns - overlap_ns,
            busy_ns,
            extent_ns,
        }
    }
}

/// Joins intervals that touch; the time that they cover.
fn joined(intervals: &mut Vec<(i64, i64)>) -> i128 {
    join(intervals);
    intervals.iter().map(|(start, end)| i128::from(*end) - i128::from(*start)).sum()
}

/// The time that both of two lists of joined intervals cover.
fn overlap(one: &[(i64, i64)], other: &[(i64, i64)]) -> i128 {
    let (mut at, mut beside, mut both) = (0, 0, 0);
    while let (Some(a), Some(b)) = (one.get(at), other.get(beside)) {
        both += (i128::from(a.1.min(b.1)) - i128::from(a.0.max(b.0))).max(0);
        if a.1 < b.1 { at += 1 } else { beside += 1 }
    }
    both
}

#[cfg(test)]
mod tests {
    use flopgap_trace::GpuId;
    use proptest::prelude::*;

    use super::*;

    const PLACE: Place = Place { rank: None, process: None, gpu: Some(GpuId(0)) };

    proptest! {
        /// Against counting instant by instant.
        #[test]
        fn times_are_those_of_the_definition(
            communication in prop::collection::vec((0_i64..60, 0_i64..12), 0..12),
            computation in prop::collection::vec((0_i64..60, 0_i64..12), 0..12),
            others in prop::collection::vec((0_i64..60, 0_i64..12), 0..4),
        ) {
            let list = |raw: &[(i64, i64)]| raw.iter().map(|(start, length)| (*start, start + length)).collect::<Vec<_>>();
            let lists = [list(&communication), list(&computation), list(&others)];
            let [communication, computation, others] = lists.clone();
            let found = Intervals { communication, computation, others }.times(PLACE);
            let covers = |at: i64, lists: &[&Vec<(i64, i64)>]| lists.iter().any(|list| list.iter().any(|(start, end)| *start <= at && at < *end));
            let count = |is: &dyn Fn(i64) -> bool| (0..80).filter(|at| is(*at)).count() as i128;
            let [a, b, c] = &lists;
            prop_assert_eq!(found.communication_ns, count(&|at| covers(at, &[a])));
            prop_assert_eq!(found.computation_ns, count(&|at| covers(at, &[b])));
            prop_assert_eq!(found.overlap_ns, count(&|at| covers(at, &[a]) && covers(at, &[b])));
            prop_assert_eq!(found.exposed_ns, count(&|at| covers(at, &[a]) && !covers(at, &[b])));
            prop_assert_eq!(found.busy_ns, count(&|at| covers(at, &[a, b, c])));
        }
    }
}
