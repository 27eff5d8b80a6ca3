//! The times of each step and pass, in every place, in the order of time.

use std::collections::BTreeMap;

use flopgap_trace::{Launched, ProcessId, Ranges as NvtxRanges};

use super::measure::Measure;
use crate::kind::PassKind;
use crate::period::periods;
use crate::place::{Gpus, Place};
use crate::scope::Scope;
use crate::select::Named;
use crate::statistics::median;

/// The durations of the instances of a pass in one place, by time.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) place: Option<Place>,
    pub(super) durations: Vec<i64>,
}

/// The times of a pass: of each kind, in each place that it ran in.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    series: BTreeMap<Measure, Vec<Series>>,
}

impl Measured {
    /// The durations in the place where they are longest: the others wait for it.
    pub(super) fn slowest(&self, measure: Measure) -> Option<&Series> {
        let middle = |series: &Series| {
            let durations: Vec<f64> = series.durations.iter().map(|&ns| ns as f64).collect();
            median(&durations)
        };
        let series = self.series.get(&measure)?.iter().filter(|series| !series.durations.is_empty());
        // Of equals the first.
        series.rev().max_by(|one, other| middle(one).total_cmp(&middle(other)))
    }

    /// In how many places it ran.
    pub(super) fn places(&self, measure: Measure) -> usize {
        self.series.get(&measure).map_or(0, Vec::len)
    }

    fn new(instances: &[usize], nvtx: &NvtxRanges, launched: &Launched, gpus: &Gpus, pool: bool) -> Measured {
        let process = |at: usize| nvtx.ranges[at].thread.process();
        let mut apart: BTreeMap<Option<ProcessId>, Vec<usize>> = BTreeMap::new();
        for &at in instances {
            apart.entry((!pool).then(|| process(at))).or_default().push(at);
        }
        let mut found = Measured::default();
        for (process, own) in apart {
            let on_host = process.map(|process| Place {
                rank: gpus.rank(process),
                process: Some(process.pid()),
                gpu: None,
            });
            let length = |at: &usize| {
                let range = &nvtx.ranges[*at];
                range.end.map(|end| end.saturating_sub(range.start))
            };
            found.add(Measure::Wall, on_host, own.iter().filter_map(length).collect());
            let from_start_to_start = periods(nvtx, &own).into_iter().map(|one| one.period_ns);
            found.add(Measure::Period, on_host, from_start_to_start.collect());
            let by_gpu = if pool {
                vec![(None, launched.work_of(&own))]
            } else {
                let by_gpu = launched.work_by_gpu(&own).into_iter();
                by_gpu.map(|(device, work)| (Some(gpus.place(process, device)), work)).collect()
            };
            for (place, work) in by_gpu {
                let worked = || work.iter().flatten();
                let projected = worked().map(|work| work.end.saturating_sub(work.start)).collect();
                found.add(Measure::Projected, place, projected);
                found.add(Measure::Busy, place, worked().map(|work| work.busy).collect());
            }
        }
        found
    }

    fn add(&mut self, measure: Measure, place: Option<Place>, durations: Vec<i64>) {
        if !durations.is_empty() {
            self.series.entry(measure).or_default().push(Series { place, durations });
        }
    }
}

/// The times of a scope, and of the passes within its steps by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Steps {
    pub(super) scope: Measured,
    pub(super) passes: BTreeMap<String, Measured>,
}

impl Steps {
    /// Those of some instances of ranges. The passes of a trace are judged where its steps are.
    pub(super) fn read(
        instances: &[usize],
        name: &str,
        launched: &Launched,
        scope: &Scope,
        gpus: &Gpus,
    ) -> Steps {
        let nvtx = launched.nvtx();
        let of = |instances: &[usize]| Measured::new(instances, nvtx, launched, gpus, scope.pool);
        let mut passes = BTreeMap::new();
        if scope.ranges == crate::scope::Ranges::Steps {
            let groups = Named::new(nvtx).passes(&scope.warm_up).into_iter();
            // A step of another name is part of a step, or none that the trace is measured by.
            let groups = groups.filter(|group| group.name != name && group.kind != PassKind::Step);
            passes = groups.map(|group| (group.name, of(&group.instances))).collect();
        }
        Steps { scope: of(instances), passes }
    }
}
