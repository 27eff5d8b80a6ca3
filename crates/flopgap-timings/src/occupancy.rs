//! When each GPU was busy, with work of any origin.

use std::collections::BTreeMap;

use flopgap_files::present;
use flopgap_trace::{Attribution, DeviceId, Launched, ProcessId, Recording};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::intervals::join;
use crate::place::{Gpus, Place};

/// When each GPU ran anything: kernels, copies, memsets and graphs of all ranges, streams and
/// processes. Where it ran none of them, it was idle.
#[derive(Clone, Debug, Default)]
pub struct Occupancy {
    gpus: Gpus,
    busy: BTreeMap<Place, Busy>,
}

/// A GPU over the whole recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuOccupancy {
    /// The GPU; with its process or rank where several have one and the recording does not say
    /// whether it is the same.
    pub place: Place,
    /// When its first operation began, in nanoseconds since the recording began.
    pub start_ns: i64,
    /// When its last operation ended.
    pub end_ns: i64,
    /// The time between in which it ran anything.
    pub busy_ns: i64,
}

/// When a GPU was busy.
#[derive(Clone, Debug, Default)]
struct Busy {
    /// Disjoint, by time.
    intervals: Vec<(i64, i64)>,
    /// Of each interval, how much the ones before it last.
    before: Vec<i64>,
}

impl Busy {
    fn new(mut intervals: Vec<(i64, i64)>) -> Busy {
        join(&mut intervals);
        intervals.shrink_to_fit();
        let mut sum = 0_i64;
        let before = intervals.iter().map(|(start, end)| {
            let before = sum;
            sum = sum.saturating_add(end.saturating_sub(*start));
            before
        });
        let before = before.collect();
        Busy { intervals, before }
    }

    /// How much of the time up to an instant it was busy.
    fn until(&self, instant: i64) -> i64 {
        let after = self.intervals.partition_point(|(start, _)| *start < instant);
        after.checked_sub(1).map_or(0, |at| {
            let (start, end) = self.intervals[at];
            self.before[at].saturating_add(end.min(instant).saturating_sub(start))
        })
    }
}

impl Occupancy {
    /// From all work of all GPUs.
    ///
    /// # Errors
    /// When there is none, or it cannot be read.
    pub fn read(trace: &dyn Recording, attribution: Attribution) -> Result<Occupancy, Error> {
        match present(trace.launched(attribution))? {
            Some(launched) => Occupancy::of_launched(trace, &launched, attribution),
            None => Occupancy::read_all(trace),
        }
    }

    /// From the file.
    pub(crate) fn read_all(trace: &dyn Recording) -> Result<Occupancy, Error> {
        let mut all = BTreeMap::new();
        trace.each_operation(true, &mut |operation| {
            let work = operation.work;
            add(&mut all, work.process, work.device, work.start, work.end);
        })?;
        Ok(Occupancy::new(Gpus::read(trace)?, all))
    }

    /// From work that was read; a trace is read once more where that leaves graphs out.
    pub(crate) fn of_launched(
        trace: &dyn Recording,
        launched: &Launched,
        attribution: Attribution,
    ) -> Result<Occupancy, Error> {
        if !attribution.whole_graphs {
            return Occupancy::read_all(trace);
        }
        let mut all = BTreeMap::new();
        launched.each(|process, device, piece| add(&mut all, process, device, piece.start, piece.end));
        Ok(Occupancy::new(Gpus::read(trace)?, all))
    }

    fn new(gpus: Gpus, all: OfProcesses) -> Occupancy {
        let gpus = gpus.with_processes(all.keys().map(|(process, _)| *process));
        let mut by_gpu: BTreeMap<Place, Vec<(i64, i64)>> = BTreeMap::new();
        for ((process, device), intervals) in all {
            by_gpu.entry(gpus.gpu(process, device)).or_default().extend(intervals);
        }
        let busy = by_gpu.into_iter().map(|(gpu, intervals)| (gpu, Busy::new(intervals))).collect();
        Occupancy { gpus, busy }
    }

    /// Every GPU that ran anything.
    pub fn gpus(&self) -> Vec<GpuOccupancy> {
        let gpus = self.busy.iter().filter_map(|(place, busy)| {
            let ((start_ns, _), (_, end_ns)) = (*busy.intervals.first()?, *busy.intervals.last()?);
            Some(GpuOccupancy { place: *place, start_ns, end_ns, busy_ns: busy.until(i64::MAX) })
        });
        gpus.collect()
    }

    /// The GPU that a process calls `device`.
    pub fn place(&self, process: Option<ProcessId>, device: DeviceId) -> Place {
        self.gpus.gpu(process, device)
    }

    /// For how long the GPU that a process calls `device` ran anything between two instants.
    pub fn busy_ns(&self, process: Option<ProcessId>, device: DeviceId, start: i64, end: i64) -> i64 {
        let busy = self.busy.get(&self.gpus.gpu(process, device));
        busy.map_or(0, |busy| busy.until(end).saturating_sub(busy.until(start)).max(0))
    }

    /// For how long it ran nothing between two instants.
    pub fn idle_ns(&self, process: Option<ProcessId>, device: DeviceId, start: i64, end: i64) -> i64 {
        end.saturating_sub(start).saturating_sub(self.busy_ns(process, device, start, end)).max(0)
    }

    /// The GPU that a process calls `device`, over the whole recording.
    pub(crate) fn gpu(&self, process: Option<ProcessId>, device: DeviceId) -> Option<GpuOccupancy> {
        let place = self.gpus.gpu(process, device);
        self.gpus().into_iter().find(|gpu| gpu.place == place)
    }
}

type OfProcesses = BTreeMap<(Option<ProcessId>, DeviceId), Vec<(i64, i64)>>;

/// Adds a piece of work, which joins the last one where they touch.
fn add(all: &mut OfProcesses, process: Option<ProcessId>, device: DeviceId, start: i64, end: i64) {
    let own = all.entry((process, device)).or_default();
    match own.last_mut() {
        Some(last) if last.0 <= start && start <= last.1 => last.1 = last.1.max(end),
        _ => own.push((start, end)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against counting instant by instant.
        #[test]
        fn busy_and_idle_are_those_of_all_work(
            work in prop::collection::vec((0_i64..60, 0_i64..9, 0_i64..2), 0..20),
            window in (0_i64..60, 0_i64..30),
        ) {
            let mut all = BTreeMap::new();
            let process = |of: i64| Some(ProcessId((1 + of) << 24));
            for (start, length, of) in &work {
                add(&mut all, process(*of), DeviceId(0), *start, start + length);
            }
            let (start, end) = (window.0, window.0 + window.1);
            let count = |of: Option<i64>| {
                let is = |at: &i64| work.iter().any(|(start, length, by)| {
                    start <= at && *at < start + length && of.is_none_or(|of| of == *by)
                });
                i64::try_from((start..end).filter(is).count()).unwrap()
            };
            // Two processes, and it is not recorded whether they use one GPU.
            let apart = Occupancy::new(Gpus::default(), all.clone());
            for of in [0, 1] {
                let both = work.iter().any(|(.., by)| *by != of) && work.iter().any(|(.., by)| *by == of);
                if both {
                    prop_assert_eq!(apart.busy_ns(process(of), DeviceId(0), start, end), count(Some(of)));
                }
            }
            // The same where both numbers are known to be those of one.
            let number = |of: i64| flopgap_trace::GpuNumber {
                pid: 1 + of,
                device: DeviceId(0),
                gpu: flopgap_trace::GpuId(3),
            };
            let known = Gpus { numbers: vec![number(0), number(1)], ..Gpus::default() };
            let together = Occupancy::new(known, all);
            prop_assert_eq!(together.busy_ns(process(0), DeviceId(0), start, end), count(None));
            prop_assert_eq!(
                together.idle_ns(process(1), DeviceId(0), start, end),
                end - start - count(None)
            );
        }
    }
}
