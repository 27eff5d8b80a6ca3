//! The part of a trace to examine: all of it, or the work of some ranges.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use flopgap_files::present;
use flopgap_trace::{
    AttributeBy, Attribution, DeviceId, GpuActivity, GpuWork, OperationTimes, PlaceTimes, ProcessId,
    Range as NvtxRange, Ranges as NvtxRanges, Recording, Summary, Unlaunched, WorkSum,
};

use crate::error::Error;
use crate::intervals::Intervals;
use crate::kind::PassKind;
use crate::occupancy::{GpuOccupancy, Occupancy};
use crate::passes::called;
use crate::pattern::RangePattern;
use crate::place::{Gpus, Place};
use crate::select::{Group, Named, WarmUp};
use crate::selection::{ChosenSteps, OtherSteps, Selection};

/// Which ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ranges {
    /// No ranges: everything that the trace recorded.
    All,
    /// Whole steps ([`PassKind::Step`](crate::PassKind::Step)): those of the name that says it
    /// best, where several are steps. A trace of a language model that marks no steps is measured
    /// by its decoding, or by its prefilling.
    Steps,
    /// Those that any of these patterns means; of ranges within each other, the outermost.
    Named(Vec<RangePattern>),
    /// The pass that is shown under this name, such as `step_*`.
    Shown(String),
}

/// The part of a trace to examine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Which ranges.
    pub ranges: Ranges,
    /// Which of their instances are left out.
    pub warm_up: WarmUp,
    /// How GPU work finds its range.
    pub attribution: Attribution,
    /// Combine all processes and GPUs. By default each has its own numbers.
    pub pool: bool,
}

/// The name of optimizer passes, and their kernels.
type Optimizer = (String, OperationTimes);

/// The GPU work of a scope.
#[derive(Clone, Debug)]
pub(crate) struct Scoped {
    pub(crate) scope: String,
    pub(crate) attribution: Option<AttributeBy>,
    pub(crate) selection: Option<Selection>,
    /// The instances of the ranges, by time; empty for a whole trace.
    pub(crate) instances: Vec<usize>,
    /// Everything, wherever it ran.
    pub(crate) whole: Part,
    /// Each process on each GPU, by process and GPU; empty where there is one alone, or when all
    /// were requested as one.
    pub(crate) places: Vec<(Place, Part)>,
    /// The ranges that mark optimizer passes within the scope.
    pub(crate) optimizer: Option<String>,
    /// Work that belongs to no range; absent for a whole trace.
    pub(crate) unlaunched: Option<Unlaunched>,
}

/// The GPU work of a scope, all of it or that of one place.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// How many instances of the ranges; absent for a whole trace.
    pub(crate) instances: Option<u64>,
    /// By demangled name, largest total first.
    pub(crate) kernels: Vec<(Arc<str>, Summary)>,
    /// Those of them that were launched within optimizer passes.
    pub(crate) optimizer: Vec<(Arc<str>, Summary)>,
    pub(crate) copies: Option<Summary>,
    pub(crate) sets: Option<Summary>,
    pub(crate) copied_bytes: Option<u128>,
    pub(crate) set_bytes: Option<u128>,
    /// On the host, from the beginning to the end of each instance; of a whole trace, for how long
    /// it was recorded.
    pub(crate) wall_ns: Option<i128>,
    /// From the first to the last operation of each instance.
    pub(crate) projected_ns: i128,
    /// The sum over GPUs of the times in which any operation ran.
    pub(crate) busy_ns: i128,
    /// The sum over GPUs of the times from the first to the last operation.
    pub(crate) extent_ns: i128,
    /// For each GPU on which its work ran the time on the clock: from the beginning to the end of
    /// each instance, or of a whole trace from the GPU's first to its last operation.
    pub(crate) clock_ns: i128,
    /// The part of it in which the GPU ran anything, of any origin.
    pub(crate) gpu_busy_ns: i128,
}

impl Part {
    fn new(instances: Option<u64>, times: OperationTimes) -> Part {
        Part {
            instances,
            kernels: times.kernels,
            optimizer: Vec::new(),
            copies: times.copies,
            sets: times.sets,
            copied_bytes: times.copied_bytes,
            set_bytes: times.set_bytes,
            wall_ns: None,
            projected_ns: 0,
            busy_ns: 0,
            extent_ns: 0,
            clock_ns: 0,
            gpu_busy_ns: 0,
        }
    }

    /// The durations of all operations together.
    pub(crate) fn total_ns(&self) -> i128 {
        let kernels = self.kernels.iter().map(|(_, times)| times);
        kernels.chain(&self.copies).chain(&self.sets).map(|times| times.total).sum()
    }

    /// A sum over all instances, divided by their number; for a whole trace, the sum.
    pub(crate) fn each(&self, total: i128) -> f64 {
        total as f64 / self.instances.unwrap_or(1) as f64
    }
}

/// The ranges of a scope.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// Their folded names.
    pub name: String,
    /// Places in [`NvtxRanges::ranges`], by time, none within another.
    pub instances: Vec<usize>,
    /// Which of them were left out.
    pub selection: Selection,
}

/// Leaves those out that lie within others of them on their thread, or are there twice, and orders
/// the rest by time.
fn outermost(nvtx: &NvtxRanges, instances: &mut Vec<usize>) {
    let ranges = &nvtx.ranges;
    instances.sort_unstable_by_key(|&at| (ranges[at].thread, ranges[at].start, Reverse(ranges[at].end), at));
    instances.dedup();
    let mut outer: Option<&NvtxRange> = None;
    instances.retain(|&at| {
        let range = &ranges[at];
        let within = outer.is_some_and(|outer| outer.thread == range.thread && range.end <= outer.end);
        if !within {
            outer = Some(range);
        }
        !within
    });
    instances.sort_unstable_by_key(|&at| (ranges[at].start, at));
}

impl Scope {
    /// Everything.
    pub fn all() -> Scope {
        Scope {
            ranges: Ranges::All,
            warm_up: WarmUp::default(),
            attribution: Attribution::default(),
            pool: false,
        }
    }

    /// The names of the ranges and how many instances of them are examined; `None` for a whole
    /// trace.
    ///
    /// # Errors
    /// [`Error::NoSteps`] when the trace marks none, [`Error::OnlyWarmUp`] when all instances are
    /// left out; and when it has no such range.
    pub fn instances(&self, trace: &dyn Recording) -> Result<Option<(String, u64)>, Error> {
        if self.ranges == Ranges::All {
            return Ok(None);
        }
        let nvtx = trace.ranges()?;
        let Chosen { name, instances, .. } = self.select(trace, &nvtx)?;
        Ok(Some((name, instances.len() as u64)))
    }

    /// The instances of the ranges; none for a whole trace.
    ///
    /// # Errors
    /// As [`Scope::instances`].
    pub fn chosen(&self, trace: &dyn Recording) -> Result<Chosen, Error> {
        self.select(trace, &*trace.ranges()?)
    }

    /// The instances of the ranges.
    fn select(&self, trace: &dyn Recording, nvtx: &NvtxRanges) -> Result<Chosen, Error> {
        let named = Named::new(nvtx);
        let mut steps_chosen = None;
        let groups: Vec<Group> = match &self.ranges {
            Ranges::All => Vec::new(),
            Ranges::Named(patterns) => called(trace, &named, patterns, &self.warm_up)?,
            Ranges::Shown(name) => {
                let mut groups = named.passes(&self.warm_up);
                groups.retain(|group| group.name == *name);
                if groups.is_empty() {
                    let path = trace.path().to_owned();
                    return Err(Error::NoRange { path, range: name.clone() });
                }
                groups
            }
            Ranges::Steps => {
                let path = || trace.path().to_owned();
                let Some((steps, others)) = named.principal(named.passes(&self.warm_up)) else {
                    return Err(Error::NoSteps { path: path() });
                };
                if steps.instances.is_empty() {
                    let instances = steps.left_out.total();
                    return Err(Error::OnlyWarmUp { path: path(), range: steps.name, instances });
                }
                if !others.is_empty() {
                    let others = others.into_iter().map(|group| OtherSteps {
                        instances: group.instances.len() as u64,
                        name: group.name,
                    });
                    steps_chosen = Some(ChosenSteps { name: steps.name.clone(), others: others.collect() });
                }
                vec![steps]
            }
        };
        let shown: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
        let mut instances: Vec<usize> =
            groups.iter().flat_map(|group| group.instances.iter().copied()).collect();
        let mut selection = named.selection(&self.warm_up, &groups);
        selection.steps = steps_chosen;
        let all = instances.len();
        outermost(nvtx, &mut instances);
        selection.nested = (all - instances.len()) as u64;
        Ok(Chosen { name: shown.join(", "), instances, selection })
    }

    /// The GPU work of the scope.
    pub(crate) fn times(&self, trace: &dyn Recording) -> Result<Scoped, Error> {
        self.times_by(trace, false)
    }

    /// The same with the times on the clock, for which all work of a whole trace is read once more.
    pub(crate) fn times_by_clock(&self, trace: &dyn Recording) -> Result<Scoped, Error> {
        self.times_by(trace, true)
    }

    fn times_by(&self, trace: &dyn Recording, by_clock: bool) -> Result<Scoped, Error> {
        if self.ranges == Ranges::All {
            return self.all_times(trace, by_clock);
        }
        let launched = trace.launched(self.attribution)?;
        let nvtx = launched.nvtx();
        let Chosen { name: scope, instances, selection } = self.select(trace, nvtx)?;
        let mut times = trace.operation_times(Some(&instances), self.attribution)?;
        if times.kernels.is_empty() && times.copies.is_none() && times.sets.is_none() {
            let path = trace.path().to_owned();
            return Err(Error::NoWork { path, ranges: scope, unlaunched: launched.unlaunched() });
        }
        let optimizer = self.optimizer(trace, nvtx, Some(&instances))?;
        let occupancy = Occupancy::of_launched(trace, &launched, self.attribution)?;
        let work = launched.work_by_gpu(&instances);
        let clock = |device: Option<DeviceId>, process: Option<ProcessId>| {
            clock(nvtx, &occupancy, &instances, &work, device, process)
        };
        let apart = std::mem::take(&mut times.places);
        let (optimizer, in_optimizer) = optimizer.unzip();
        let in_optimizer = in_optimizer.unwrap_or_default();
        let part = |times: OperationTimes, instances: &[usize], sum: WorkSum, clock: Clock| {
            let length = |at: &usize| {
                let range = &nvtx.ranges[*at];
                range.end.map_or(0, |end| i128::from(end) - i128::from(range.start))
            };
            Part {
                wall_ns: Some(instances.iter().map(length).sum()),
                projected_ns: sum.projected,
                busy_ns: sum.busy,
                extent_ns: sum.extent,
                clock_ns: clock.all,
                gpu_busy_ns: clock.busy,
                ..Part::new(Some(instances.len() as u64), times)
            }
        };
        let mut places = Vec::new();
        if !self.pool && apart.len() > 1 {
            let mut processes: BTreeMap<ProcessId, Vec<usize>> = BTreeMap::new();
            for &at in &instances {
                processes.entry(nvtx.ranges[at].thread.process()).or_default().push(at);
            }
            let groups: Vec<&[usize]> = processes.values().map(Vec::as_slice).collect();
            let sums = launched.sums_by_gpu(&groups);
            let gpus = Gpus::read(trace)?;
            for PlaceTimes { process, device, times } in apart {
                // Work without a process is of the only one, or it would be within no range.
                let at =
                    process.map_or(Some(0), |process| processes.keys().position(|known| *known == process));
                let sum = sums.iter().find(|(known, _)| *known == device);
                if let (Some(at), Some((_, sums))) = (at, sum) {
                    let optimizer = kernels_at(&in_optimizer, process, device);
                    let clock = clock(Some(device), process);
                    let part = Part { optimizer, ..part(times, groups[at], sums[at], clock) };
                    places.push((gpus.place(process, device), part));
                }
            }
        }
        let whole = part(times, &instances, launched.sums_of(&[&instances])[0], clock(None, None));
        let whole = Part { optimizer: in_optimizer.kernels, ..whole };
        let attribution = Some(self.attribution.by);
        let unlaunched = Some(launched.unlaunched());
        let selection = Some(selection);
        Ok(Scoped { scope, attribution, selection, instances, whole, places, optimizer, unlaunched })
    }

    /// The GPU work of a whole trace.
    fn all_times(&self, trace: &dyn Recording, by_clock: bool) -> Result<Scoped, Error> {
        // First what holds the ranges: where there are optimizer passes the rest is answered from
        // it.
        let nvtx = present(trace.ranges())?;
        let marked = nvtx.as_deref().map(|nvtx| Named::new(nvtx).marked_as(PassKind::Optimizer));
        let _kept =
            marked.as_ref().filter(|marked| !marked.is_empty()).map(|_| trace.launched(self.attribution));
        let activity = trace.gpu_activity(self.attribution)?;
        let optimizer = nvtx.map(|nvtx| self.optimizer(trace, &nvtx, None)).transpose()?.flatten();
        let (optimizer, in_optimizer) = optimizer.unzip();
        let in_optimizer = in_optimizer.unwrap_or_default();
        let mut times = trace.operation_times(None, self.attribution)?;
        let apart = std::mem::take(&mut times.places);
        let occupancy = if by_clock { Occupancy::read_all(trace)? } else { Occupancy::default() };
        let of_gpu = |gpu: &GpuOccupancy| i128::from(gpu.end_ns) - i128::from(gpu.start_ns);
        let extent = |gpu: &GpuActivity| i128::from(gpu.end) - i128::from(gpu.start);
        let mut places = Vec::new();
        if !self.pool && apart.len() > 1 {
            let gpus = Gpus::read(trace)?;
            for PlaceTimes { process, device, times } in apart {
                let found = activity.iter().find(|gpu| (gpu.process, gpu.device) == (process, device));
                let Some(gpu) = found else { continue };
                let whole = occupancy.gpu(process, device);
                let part = Part {
                    optimizer: kernels_at(&in_optimizer, process, device),
                    projected_ns: extent(gpu),
                    busy_ns: i128::from(gpu.busy),
                    extent_ns: extent(gpu),
                    clock_ns: whole.as_ref().map_or(0, of_gpu),
                    gpu_busy_ns: whole.map_or(0, |gpu| i128::from(gpu.busy_ns)),
                    ..Part::new(None, times)
                };
                places.push((gpus.place(process, device), part));
            }
        }
        let first = activity.iter().map(|gpu| gpu.start).min();
        let last = activity.iter().map(|gpu| gpu.end).max();
        let recorded = trace.span()?;
        let whole = Part {
            wall_ns: recorded.map(|(start, stop)| i128::from(stop) - i128::from(start)),
            projected_ns: first.zip(last).map_or(0, |(first, last)| i128::from(last) - i128::from(first)),
            busy_ns: activity.iter().map(|gpu| i128::from(gpu.busy)).sum(),
            extent_ns: activity.iter().map(extent).sum(),
            clock_ns: occupancy.gpus().iter().map(of_gpu).sum(),
            gpu_busy_ns: occupancy.gpus().iter().map(|gpu| i128::from(gpu.busy_ns)).sum(),
            optimizer: in_optimizer.kernels,
            ..Part::new(None, times)
        };
        let scope = "all".to_owned();
        Ok(Scoped {
            scope,
            attribution: None,
            selection: None,
            instances: Vec::new(),
            whole,
            places,
            optimizer,
            unlaunched: None,
        })
    }

    /// The optimizer passes of the trace, or those that lie in some instances of ranges, with their
    /// kernels. Only the range says that a kernel is part of an optimizer: an unfused one is a row
    /// of additions and multiplications like any other.
    fn optimizer(
        &self,
        trace: &dyn Recording,
        nvtx: &NvtxRanges,
        within: Option<&[usize]>,
    ) -> Result<Option<Optimizer>, Error> {
        let mut passes = Named::new(nvtx).marked_as(PassKind::Optimizer);
        if let Some(instances) = within {
            let mut around = Intervals::default();
            for &at in instances {
                around.add_range(&nvtx.ranges[at]);
            }
            around.keep_apart();
            passes.retain(|(_, at)| around.contains(&nvtx.ranges[*at]));
        }
        if passes.is_empty() {
            return Ok(None);
        }
        let mut names: Vec<&str> = passes.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let ranges: Vec<usize> = passes.iter().map(|(_, at)| *at).collect();
        let times = present(trace.operation_times(Some(&ranges), self.attribution))?;
        Ok(times.map(|times| (names.join(", "), times)))
    }
}

/// Time on the clock, and the part of it in which GPUs ran anything.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    all: i128,
    busy: i128,
}

/// The work of ranges on each GPU.
type WorkByGpu = [(DeviceId, Vec<Option<GpuWork>>)];

/// The clock of the ranges on each GPU on which their work ran, or on one GPU for one process.
fn clock(
    nvtx: &NvtxRanges,
    occupancy: &Occupancy,
    instances: &[usize],
    work: &WorkByGpu,
    device: Option<DeviceId>,
    process: Option<ProcessId>,
) -> Clock {
    let mut clock = Clock::default();
    for (own, work) in work.iter().filter(|(own, _)| device.is_none_or(|device| device == *own)) {
        for (&at, _) in instances.iter().zip(work).filter(|(_, work)| work.is_some()) {
            let range = &nvtx.ranges[at];
            let of = range.thread.process();
            let Some(end) = range.end.filter(|_| process.is_none_or(|process| process == of)) else {
                continue;
            };
            clock.all += i128::from(end) - i128::from(range.start);
            clock.busy += i128::from(occupancy.busy_ns(Some(of), *own, range.start, end));
        }
    }
    clock
}

/// The kernels of one process on one GPU.
fn kernels_at(
    times: &OperationTimes,
    process: Option<ProcessId>,
    device: DeviceId,
) -> Vec<(Arc<str>, Summary)> {
    let mut places = times.places.iter().filter(|place| (place.process, place.device) == (process, device));
    places.next().map(|place| place.times.kernels.clone()).unwrap_or_default()
}
