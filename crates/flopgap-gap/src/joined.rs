//! Recordings that were put together by their clocks, what collectives say of these, and how they
//! were corrected.

use std::collections::{BTreeMap, BTreeSet};

use flopgap_timings::collectives::Arrival;
use flopgap_timings::{Gpus, Place};
use flopgap_trace::{DeviceId, ProcessId, Recording};
use serde::{Deserialize, Serialize};

/// Recordings of different processes that were read as the ranks of one job. Their clocks are put
/// together by when each began in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Joined {
    /// How many recordings.
    pub recordings: u64,
    /// Whether some time is in the GPU work of all of them.
    pub at_same_time: bool,
    /// Whether all of them name a GPU of the first one by its unique id, and so are of one machine.
    pub one_machine: bool,
    /// The collectives in which all of their processes took part at the same time. Without any,
    /// nothing but the time says that they are of one job.
    pub collectives: u64,
    /// By how much their clocks differ at most, in nanoseconds: no rank is done with a collective
    /// before all have begun it. Absent without collectives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clocks_within_ns: Option<i64>,
}

/// A clock that was corrected by when collectives end, so that it and that of the first recording
/// are one ([`flopgap_timings::clocks`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorrectedClock {
    /// Which processes on which GPUs have this clock.
    pub places: Vec<Place>,
    /// What was added to their times, in nanoseconds.
    pub corrected_ns: i64,
    /// By how much it may still differ, in nanoseconds.
    pub within_ns: i64,
    /// How many collectives say so.
    pub collectives: u64,
}

impl CorrectedClock {
    /// The corrected clocks of a trace, given where it did GPU work.
    pub(crate) fn of(
        trace: &dyn Recording,
        gpus: &Gpus,
        ran: &[(Option<ProcessId>, DeviceId)],
    ) -> Vec<CorrectedClock> {
        let one = |own: &flopgap_trace::ClockCorrection| {
            let is_own = |process: Option<ProcessId>| process.is_some_and(|id| trace.part(id) == own.part);
            let places = ran.iter().filter(|(process, _)| is_own(*process));
            CorrectedClock {
                places: places.map(|(process, device)| gpus.place(*process, *device)).collect(),
                corrected_ns: own.ns,
                within_ns: own.within_ns,
                collectives: own.collectives,
            }
        };
        trace.corrections().iter().map(one).collect()
    }
}

impl Joined {
    /// What the collectives of all places say.
    pub(crate) fn new(joined: flopgap_trace::Joined, arrivals: &[Arrival], places: &[Place]) -> Joined {
        let all: BTreeSet<Place> = places.iter().copied().collect();
        let mut collectives = 0;
        // For each place, by how much its clock may be ahead of that of the first, and behind it.
        let mut bounds: BTreeMap<Place, [i64; 2]> = BTreeMap::new();
        // The kernels of a collective follow each other.
        for own in arrivals.chunk_by(|a, b| (a.arrived, a.last) == (b.arrived, b.last)) {
            let kernels: BTreeMap<Place, &Arrival> = own.iter().map(|own| (own.place, own)).collect();
            let Some((_, first)) = kernels.first_key_value() else { continue };
            if !kernels.keys().eq(&all) {
                continue;
            }
            collectives += 1;
            for (place, other) in kernels.iter().skip(1) {
                let bound = bounds.entry(*place).or_insert([i64::MAX; 2]);
                let [ahead, behind] = [other.end - first.start, first.end - other.start];
                *bound = [bound[0].min(ahead), bound[1].min(behind)];
            }
        }
        let flopgap_trace::Joined { recordings, at_same_time, one_machine } = joined;
        let clocks_within_ns = bounds.into_values().flatten().max();
        Joined { recordings, at_same_time, one_machine, collectives, clocks_within_ns }
    }
}

#[cfg(test)]
mod tests {
    use flopgap_trace::GpuId;

    use super::*;

    fn place(process: i64) -> Place {
        Place { rank: None, process: Some(process), gpu: Some(GpuId(0)) }
    }

    /// The kernels of a collective of processes 1, 2, ….
    fn collective(times: &[(i64, i64)]) -> Vec<Arrival> {
        let own: Vec<_> = (1..).map(place).zip(times).collect();
        let (last, (arrived, _)) = own.iter().max_by_key(|(_, times)| times.0).unwrap();
        let arrival = |(place, (start, end)): &(Place, &(i64, i64))| Arrival {
            place: *place,
            start: *start,
            end: *end,
            arrived: *arrived,
            last: *last,
        };
        own.iter().map(arrival).collect()
    }

    fn joined(arrivals: &[Arrival], processes: i64) -> Joined {
        let of = flopgap_trace::Joined { recordings: 2, at_same_time: true, one_machine: true };
        Joined::new(of, arrivals, &(1..=processes).map(place).collect::<Vec<_>>())
    }

    /// Against the definition: a clock that is put right by anything beyond the bound would have a
    /// rank done before another begins.
    #[test]
    fn clocks_differ_by_no_more_than_collectives_allow() {
        let all = [[(0, 100), (60, 101)], [(500, 580), (490, 590)]];
        let found = joined(&all.map(|times| collective(&times)).concat(), 2);
        assert_eq!(found.collectives, 2);
        let bound = found.clocks_within_ns.unwrap();
        let is_possible =
            |ahead: i64| all.iter().all(|[one, other]| one.0 <= other.1 - ahead && other.0 - ahead <= one.1);
        let widest = (-1000..1000).filter(|ahead| is_possible(*ahead)).map(i64::abs).max();
        assert_eq!(Some(bound), widest);
    }

    #[test]
    fn collectives_of_a_part_of_the_processes_say_nothing_of_the_others() {
        let found = joined(&collective(&[(0, 100), (60, 101)]), 3);
        assert_eq!((found.collectives, found.clocks_within_ns), (0, None));
        assert_eq!(joined(&[], 2).clocks_within_ns, None);
    }
}
