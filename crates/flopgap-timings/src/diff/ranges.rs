//! The ranges of two traces, matched by name and process.

use std::collections::{BTreeMap, BTreeSet};

use flopgap_trace::{DeviceId, Launched, ProcessId, Ranges as NvtxRanges, WorkSum};

use super::{Change, Options, RangeChange, RangeGpu, Side};
use crate::scope::Scope;
use crate::select::Named;

/// The instances of a range in one process.
#[derive(Clone, Debug, Default)]
struct Sum {
    instances: u64,
    wall_ns: i128,
    /// By GPU, as its process numbers them.
    gpus: BTreeMap<DeviceId, WorkSum>,
}

/// The ranges of a trace.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges {
    /// The processes that have ranges; one of them alone, and none when all are taken together, is
    /// not separated.
    processes: Vec<ProcessId>,
    /// By folded name and the place of the process.
    sums: BTreeMap<(String, usize), Sum>,
}

impl Ranges {
    pub(super) fn read(
        nvtx: &NvtxRanges,
        launched: Option<&Launched>,
        scope: &Scope,
        options: Options,
    ) -> Ranges {
        let groups = Named::new(nvtx).all(&scope.warm_up, !options.keep_layers);
        let process = |at: usize| nvtx.ranges[at].thread.process();
        let processes: BTreeSet<ProcessId> = if scope.pool {
            BTreeSet::new()
        } else {
            groups.iter().flat_map(|group| &group.instances).map(|&at| process(at)).collect()
        };
        let processes: Vec<ProcessId> = processes.into_iter().collect();
        let mut apart: BTreeMap<(String, usize), Vec<usize>> = BTreeMap::new();
        for group in groups {
            for at in group.instances {
                let place = processes.binary_search(&process(at)).unwrap_or_default();
                let key = (group.name.clone(), place);
                apart.entry(key).or_default().push(at);
            }
        }
        let instances: Vec<&[usize]> = apart.values().map(Vec::as_slice).collect();
        let works = launched.map(|launched| {
            if scope.pool {
                vec![(DeviceId(0), launched.sums_of(&instances))]
            } else {
                launched.sums_by_gpu(&instances)
            }
        });
        let works = works.unwrap_or_default();
        let mut sums = BTreeMap::new();
        for (number, (key, instances)) in apart.iter().enumerate() {
            let length = |at: &usize| {
                let range = &nvtx.ranges[*at];
                range.end.map_or(0, |end| i128::from(end) - i128::from(range.start))
            };
            let gpus = works.iter().map(|(device, sums)| (*device, sums[number]));
            let sum = Sum {
                instances: instances.len() as u64,
                wall_ns: instances.iter().map(length).sum(),
                gpus: gpus.filter(|(_, sum)| sum.instances > 0).collect(),
            };
            sums.insert(key.clone(), sum);
        }
        Ranges { processes, sums }
    }

    /// All processes together, where there are not as many in both traces.
    fn pooled(self) -> Ranges {
        let mut sums: BTreeMap<(String, usize), Sum> = BTreeMap::new();
        for ((name, _), sum) in self.sums {
            let known = sums.entry((name, 0)).or_default();
            known.instances += sum.instances;
            known.wall_ns += sum.wall_ns;
            for (device, work) in sum.gpus {
                let all = known.gpus.entry(device).or_default();
                all.instances += work.instances;
                all.projected += work.projected;
                all.busy += work.busy;
                all.extent += work.extent;
                all.total += work.total;
            }
        }
        Ranges { processes: Vec::new(), sums }
    }
}

pub(super) fn matched([before, after]: [Ranges; 2]) -> Vec<RangeChange> {
    let sides = if before.processes.len() == after.processes.len() {
        [before, after]
    } else {
        [before.pooled(), after.pooled()]
    };
    let keys: BTreeSet<&(String, usize)> = sides.iter().flat_map(|side| side.sums.keys()).collect();
    let several = sides[0].processes.len() > 1;
    let process = |side: &Ranges, place: usize| {
        side.processes.get(place).filter(|_| several).map(|process| process.pid())
    };
    let mut changes: Vec<RangeChange> = keys
        .into_iter()
        .map(|key| {
            let sums = sides.each_ref().map(|side| side.sums.get(key));
            RangeChange {
                name: key.0.clone(),
                process: sides.each_ref().map(|side| process(side, key.1)),
                wall: changed(sums.map(|sum| sum.and_then(|sum| mean(sum.instances, sum.wall_ns)))),
                gpus: gpus(sums),
            }
        })
        .collect();
    // The largest change of any of its times.
    let size = |range: &RangeChange| {
        let times = range.gpus.iter().flat_map(|gpu| [&gpu.projected, &gpu.busy]);
        times.chain([&range.wall]).map(|time| time.difference_ns().abs()).fold(0.0, f64::max)
    };
    changes.sort_by(|one, other| {
        size(other)
            .total_cmp(&size(one))
            .then_with(|| (&one.name, one.process).cmp(&(&other.name, other.process)))
    });
    changes
}

/// The work of a range on each GPU: the first that it uses before with the first after, and so on.
fn gpus(sums: [Option<&Sum>; 2]) -> Vec<RangeGpu> {
    let works = sums.map(|sum| -> Vec<(DeviceId, WorkSum)> {
        sum.iter().flat_map(|sum| &sum.gpus).map(|(device, work)| (*device, *work)).collect()
    });
    let most = works[0].len().max(works[1].len());
    let changes = (0..most).map(|at| {
        let own = works.each_ref().map(|works| works.get(at).copied());
        let time = |of: &dyn Fn(&WorkSum) -> i128| {
            changed(own.map(|own| own.and_then(|(_, work)| mean(work.instances, of(&work)))))
        };
        RangeGpu {
            gpu: own.map(|own| own.filter(|_| most > 1).map(|(device, _)| device)),
            projected: time(&|work| work.projected),
            busy: time(&|work| work.busy),
            gaps: time(&|work| work.extent - work.busy),
            overlap: time(&|work| work.total - work.busy),
        }
    });
    changes.collect()
}

fn changed([before, after]: [Option<Side>; 2]) -> Change {
    Change { before, after }
}

/// A mean over instances; `None` for none.
fn mean(instances: u64, total_ns: i128) -> Option<Side> {
    (instances > 0).then(|| {
        let mean_ns = total_ns as f64 / instances as f64;
        Side {
            calls: instances,
            each_calls: instances as f64,
            total_ns,
            mean_ns,
            each_ns: mean_ns,
            each_bytes: None,
        }
    })
}
