//! The times of steps and passes: on the host, on the GPU, and as measured externally.

use flopgap_files::{Hint as _, present};
use flopgap_trace::{
    AttributeBy, Attribution, DeviceId, GpuId, GpuWork, ProcessId, Ranges as NvtxRanges, Recording,
    Unlaunched,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

use crate::computing::Computing;
use crate::error::Error;
use crate::kind::PassKind;
use crate::occupancy::Occupancy;
use crate::pattern::RangePattern;
use crate::period::Period;
use crate::place::{Gpus, Place, Spread};
use crate::select::{Group, LeftOut, Named, WarmUp};
use crate::selection::Selection;
use crate::times::{Times, change};
use crate::waits::{Waited, WaitingFor, Waits};

/// What to look at.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Ranges by name instead of those that are recognized as passes.
    pub ranges: Vec<RangePattern>,
    /// What is left out as warm-up.
    pub warm_up: WarmUp,
    /// To which range GPU work belongs.
    pub attribution: Attribution,
    /// Durations measured outside of the profiler, in nanoseconds.
    pub measured: Vec<i64>,
    /// Omit individual instances from the answer: a trace may have millions of ranges.
    pub no_instances: bool,
    /// Combine all processes and GPUs. By default each has its own numbers.
    pub pool: bool,
}

/// The steps and passes of a trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Passes {
    /// Whole steps first, then passes in the order in which they first begin.
    pub passes: Vec<Pass>,
    /// Which instances were left out.
    pub selection: Selection,
    /// Whose ranges own GPU work.
    pub attribution: AttributeBy,
    /// The GPU work of the trace that could belong to no range; absent when there are no GPU times.
    pub unlaunched: Option<Unlaunched>,
    /// Why there are no GPU times, when there are none.
    pub no_gpu: Option<String>,
    /// The times measured outside.
    pub measured: Option<Times>,
    /// The spread over processes and GPUs, for passes that ran in several places.
    pub spreads: Vec<PassSpread>,
    /// Index of the pass whose host or projected mean is nearest to the mean measured outside.
    pub nearest: Option<usize>,
}

/// The spread of a pass over its places.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PassSpread {
    /// The pass.
    pub name: String,
    /// Of which time.
    pub time: SpreadTime,
    /// The means of the places.
    pub spread: Spread,
}

/// The time in which the places of a pass are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SpreadTime {
    /// The means of processes on the host.
    #[serde(rename = "host")]
    Host,
    /// The mean times in which each GPU of each process ran anything but communication: who waits
    /// for others in a collective kernel is not slow.
    #[serde(rename = "GPU without communication")]
    Computation,
}

impl SpreadTime {
    /// As it is printed.
    pub const fn as_str(self) -> &'static str {
        match self {
            SpreadTime::Host => "host",
            SpreadTime::Computation => "GPU without communication",
        }
    }
}

/// All instances of one range, in one process where several have it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pass {
    /// The range: `forward`, or with numbers folded `step_*`.
    pub name: String,
    /// What it is.
    pub kind: PassKind,
    /// The process; absent where one alone has steps and passes, and for all together.
    pub process: Option<i64>,
    /// Its rank in its job, where the recording says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u64>,
    /// The instances that are measured, by time; none with [`Options::no_instances`].
    pub instances: Vec<Instance>,
    /// Those that are not, in all processes.
    pub left_out: LeftOut,
    /// From the beginning to the end of the range, on the host.
    pub host: Times,
    /// The time of all its instances in which no other range lies within them on their thread, in
    /// nanoseconds: over all ranges of a thread, these count nothing twice. Absent for passes that
    /// were derived from operators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_self_ns: Option<i64>,
    /// From the beginning of one to that of the next; absent for the passes within steps, and where
    /// no two follow each other.
    pub period: Option<Period>,
    /// The part of [`host`](Self::host) in which the range's own thread was blocked by a call
    /// ([`Blocking`](crate::Blocking)). Absent without CUDA API data.
    pub waiting: Option<Times>,
    /// The sum of it by what blocked, without what did not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting_for: Vec<WaitingFor>,
    /// What its work did on its GPUs together; absent when it launched none.
    pub gpu: Option<GpuTimes>,
    /// The same on each GPU separately; empty where it used but one, or when all were requested as
    /// one.
    pub gpus: Vec<PassGpu>,
    /// How its times compare with those measured outside.
    pub against: Option<Against>,
}

/// What the work of a pass did on one of its GPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PassGpu {
    /// Which GPU.
    pub gpu: GpuId,
    /// Its times.
    pub times: GpuTimes,
}

/// One instance of a pass. Times are nanoseconds since the recording began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    /// When the range began on the host.
    pub start_ns: i64,
    /// When it ended on the host.
    pub end_ns: i64,
    /// For how long its thread was blocked; absent without CUDA API data.
    pub waiting_ns: Option<i64>,
    /// The work that was launched within it; absent when there was none.
    pub gpu: Option<InstanceWork>,
}

/// What an instance of a range did on the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceWork {
    /// When its first operation began.
    pub start_ns: i64,
    /// When its last operation ended.
    pub end_ns: i64,
    /// The time between in which at least one of its operations ran; on several GPUs the sum over
    /// them.
    pub busy_ns: i64,
    /// The rest of the time from its first to its last operation on each GPU: between its
    /// operations, whether other work ran or not.
    pub gaps_ns: i64,
    /// The time from the beginning to the end of the range on the host in which its GPU ran
    /// nothing at all, of any origin; on several GPUs the sum over those with its work.
    pub idle_ns: i64,
    /// By how much the durations of its operations are more than the busy time: what ran at the
    /// same time.
    pub overlap_ns: i64,
    /// Its kernels.
    pub kernels: u64,
    /// Its kernels, copies and memsets.
    pub operations: u64,
}

/// The GPU times of a pass, over the instances that launched work.
///
/// For every instance `projected = host − lead + tail`, so the means add up the same way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GpuTimes {
    /// From the first operation's beginning to the last one's end.
    pub projected: Times,
    /// From the beginning to the end of the ranges that launched work, on the host.
    pub host: Times,
    /// The part of [`projected`](Self::projected) in which at least one operation ran; on several
    /// GPUs the sum over them.
    pub busy: Times,
    /// The rest of it, each GPU from its own first to its own last operation: other work may run
    /// in these gaps.
    pub gaps: Times,
    /// The part of [`host`](Self::host) in which the GPU ran nothing at all, of any origin;
    /// on several GPUs the sum over them.
    pub idle: Times,
    /// By how much the durations of its operations are more than the busy time: what ran at the
    /// same time.
    pub overlap: Times,
    /// How long after the range began its first operation did.
    pub lead: Times,
    /// How long after the range ended its last operation did: positive when the host launched ahead
    /// of the GPU, negative when it waited until its work was done.
    pub tail: Times,
    /// On how many GPUs.
    pub gpus: u64,
    /// Operations of one instance.
    pub operations_mean: f64,
    /// Kernels of one instance.
    pub kernels_mean: f64,
}

/// A pass against the times measured outside.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Against {
    /// Mean host time minus mean measured time.
    pub host_difference_ns: f64,
    /// The same as a fraction of the measured time.
    pub host_change: Option<f64>,
    /// Mean projected GPU time minus mean measured time.
    pub projected_difference_ns: Option<f64>,
    /// The same as a fraction of the measured time.
    pub projected_change: Option<f64>,
}

/// The work of how many ranges is looked up together, so that many groups of few ranges take few
/// passes over the work, and a group of many little memory.
const AT_ONCE: usize = 1 << 16;

/// The steps and passes of a trace: the ranges whose names say so ([`PassKind::of`]), or those that
/// `options` names.
///
/// # Errors
/// [`Error::NoPasses`] when no range is one, [`Error::OnlyWarmUp`] when nothing is left of any; and
/// when the trace has no NVTX annotations.
pub fn passes(trace: &dyn Recording, options: &Options) -> Result<Passes, Error> {
    let (launched, no_gpu) = match trace.launched(options.attribution) {
        Ok(launched) => (Some(launched), None),
        Err(error) if error.is_absence() => (None, Some(error.to_string())),
        Err(error) => return Err(error.into()),
    };
    let nvtx = trace.ranges()?;
    let waits = if options.no_instances { None } else { present(Waits::read(trace))? };
    let named = Named::new(&nvtx);
    let gpus = Gpus::read(trace)?;
    let self_times = nvtx.self_times();
    let mut groups = groups(trace, &named, options)?;
    let selection = named.selection(&options.warm_up, &groups);
    if !options.pool {
        groups = by_process(groups, &nvtx, &gpus);
    }
    let measured = Times::of(options.measured.iter().copied());
    let occupancy = match &launched {
        Some(launched) => Occupancy::of_launched(trace, launched, options.attribution)?,
        None => Occupancy::default(),
    };
    let computing = match &launched {
        Some(launched) if !options.no_instances => Computing::read(trace, launched)?,
        _ => None,
    };
    let around = Around { nvtx: &nvtx, gpus: &gpus, occupancy: &occupancy, waits: waits.as_ref() };
    let mut passes: Vec<Pass> = Vec::new();
    let mut computed: Vec<(String, Place, Times)> = Vec::new();
    let mut groups = groups.into_iter().peekable();
    while groups.peek().is_some() {
        let mut instances: Vec<usize> = Vec::new();
        let some: Vec<Group> = std::iter::from_fn(|| {
            let group = groups.next_if(|_| instances.len() < AT_ONCE)?;
            instances.extend(&group.instances);
            Some(group)
        })
        .collect();
        let of_gpus = launched.as_ref().map(|launched| launched.work_by_gpu(&instances)).unwrap_or_default();
        let together = match (of_gpus.as_slice(), &launched) {
            ([(_, only)], _) => only.clone(),
            ([], _) | (_, None) => vec![None; instances.len()],
            (_, Some(launched)) => launched.work_of(&instances),
        };
        let quiet = computing.as_ref().zip(launched.as_ref());
        let quiet = quiet.map(|(computing, launched)| computing.work(launched, &instances));
        let quiet = quiet.unwrap_or_default();
        let mut from = 0;
        for group in some {
            let own = from..from + group.instances.len();
            from = own.end;
            let work = Work {
                together: &together[own.clone()],
                gpus: of_gpus.iter().map(|(device, work)| (*device, &work[own.clone()])).collect(),
            };
            let period = has_period(group.kind, options).then(|| Period::of(&nvtx, &group.instances));
            let process = around.process(&group);
            for (device, work) in &quiet {
                let busy = work[own.clone()].iter().flatten().map(|work| work.busy);
                let place = gpus.place(process, *device);
                computed.extend(Times::of(busy).map(|times| (group.name.clone(), place, times)));
            }
            let times_of_own = group.instances.iter().filter_map(|at| self_times[*at]);
            let host_self_ns = times_of_own.reduce(i64::saturating_add);
            let Some(mut pass) = pass(group, &around, &work, measured.as_ref()) else {
                continue;
            };
            pass.host_self_ns = host_self_ns;
            pass.period = period.flatten();
            if options.pool {
                pass.gpus = Vec::new();
            }
            if options.no_instances {
                pass.instances = Vec::new();
            }
            passes.push(pass);
        }
    }
    let nearest = measured.and_then(|measured| nearest(&passes, &measured));
    Ok(Passes {
        unlaunched: launched.map(|launched| launched.unlaunched()),
        spreads: if options.pool { Vec::new() } else { spreads(&passes, &computed) },
        passes,
        selection,
        attribution: options.attribution.by,
        no_gpu,
        measured,
        nearest,
    })
}

/// Whether the time from one instance to the next says something: that of the passes within a step
/// is the step's, and nobody asks for that of every range of a trace.
fn has_period(kind: PassKind, options: &Options) -> bool {
    match kind {
        PassKind::Step | PassKind::Decode | PassKind::Prefill => true,
        PassKind::Named => !options.no_instances,
        _ => false,
    }
}

/// The groups that were requested, of which at least one has an instance left.
fn groups(trace: &dyn Recording, named: &Named<'_>, options: &Options) -> Result<Vec<Group>, Error> {
    let path = || trace.path().to_owned();
    if options.ranges.is_empty() {
        let groups = named.passes(&options.warm_up);
        return match groups.iter().find(|group| group.instances.is_empty()) {
            _ if groups.iter().any(|group| !group.instances.is_empty()) => Ok(groups),
            Some(group) => Err(Error::OnlyWarmUp {
                path: path(),
                range: group.name.clone(),
                instances: group.left_out.total(),
            }),
            None => Err(Error::NoPasses { path: path(), longest: named.longest(&options.warm_up) }),
        };
    }
    called(trace, named, &options.ranges, &options.warm_up)
}

/// The groups of the ranges that patterns mean, in the order of the patterns, each once.
pub(crate) fn called(
    trace: &dyn Recording,
    named: &Named<'_>,
    patterns: &[RangePattern],
    warm_up: &WarmUp,
) -> Result<Vec<Group>, Error> {
    let path = || trace.path().to_owned();
    let mut all: Vec<Group> = Vec::new();
    for pattern in patterns {
        let range = pattern.to_string();
        let mut groups = named.matching(pattern, warm_up);
        if groups.is_empty() {
            return Err(Error::NoRange { path: path(), range });
        }
        let instances = groups.iter().map(|group| group.left_out.total()).sum();
        groups.retain(|group| !group.instances.is_empty());
        if groups.is_empty() {
            return Err(Error::OnlyWarmUp { path: path(), range, instances });
        }
        groups.retain(|group| all.iter().all(|known| known.instances != group.instances));
        all.extend(groups);
    }
    Ok(all)
}

/// The groups of each process, where several have any.
fn by_process(groups: Vec<Group>, nvtx: &NvtxRanges, gpus: &Gpus) -> Vec<Group> {
    let process = |at: usize| nvtx.ranges[at].thread.process();
    let processes: BTreeSet<ProcessId> =
        groups.iter().flat_map(|group| &group.instances).map(|at| process(*at)).collect();
    if processes.len() < 2 {
        return groups;
    }
    let mut apart = Vec::new();
    for group in groups {
        let mut own: BTreeMap<ProcessId, Vec<usize>> = BTreeMap::new();
        for at in &group.instances {
            own.entry(process(*at)).or_default().push(*at);
        }
        apart.extend(own.into_iter().map(|(process, instances)| Group {
            process: Some(process.pid()),
            rank: gpus.rank(process),
            instances,
            ..group.clone()
        }));
    }
    apart
}

/// How far the places of each pass are apart.
fn spreads(passes: &[Pass], computed: &[(String, Place, Times)]) -> Vec<PassSpread> {
    let mut names: Vec<&str> = Vec::new();
    for pass in passes {
        if !names.contains(&pass.name.as_str()) {
            names.push(&pass.name);
        }
    }
    let mut spreads = Vec::new();
    for name in names {
        let own = || passes.iter().filter(|pass| pass.name == name);
        let host = own().filter_map(|pass| {
            Some((Place { rank: pass.rank, process: Some(pass.process?), gpu: None }, &pass.host))
        });
        let computed = computed.iter().filter(|(of, ..)| of == name);
        let computed = computed.map(|(_, place, times)| (*place, times));
        let found = [
            (SpreadTime::Host, Spread::of_means(host)),
            (SpreadTime::Computation, Spread::of_means(computed)),
        ];
        spreads.extend(
            found.into_iter().filter_map(|(time, spread)| {
                Some(PassSpread { name: name.to_owned(), time, spread: spread? })
            }),
        );
    }
    spreads
}

/// The GPU work of each instance of a group.
struct Work<'a> {
    together: &'a [Option<GpuWork>],
    /// By the numbers that processes give GPUs.
    gpus: Vec<(DeviceId, &'a [Option<GpuWork>])>,
}

/// What the passes of a trace are among.
struct Around<'a> {
    nvtx: &'a NvtxRanges,
    gpus: &'a Gpus,
    occupancy: &'a Occupancy,
    waits: Option<&'a Waits>,
}

impl Around<'_> {
    fn process(&self, group: &Group) -> Option<ProcessId> {
        group.instances.first().map(|&at| self.nvtx.ranges[at].thread.process())
    }

    /// The instances of a group with their work on some GPUs.
    fn instances(
        &self,
        group: &Group,
        work: &[Option<GpuWork>],
        gpus: &[(DeviceId, &[Option<GpuWork>])],
    ) -> Vec<Instance> {
        let all = group.instances.iter().zip(work).enumerate();
        let instances = all.filter_map(|(place, (&at, work))| {
            let range = &self.nvtx.ranges[at];
            let end = range.end?;
            let used = gpus.iter().filter(|(_, work)| work[place].is_some());
            let process = Some(range.thread.process());
            let idle =
                used.map(|(device, _)| self.occupancy.idle_ns(process, *device, range.start, end)).sum();
            let waiting_ns = self.waits.map(|waits| waits.within(range.thread, range.start, end).total());
            Some(instance(range.start..end, *work, idle, waiting_ns))
        });
        instances.collect()
    }

    /// For how long the instances of a group were blocked, by what.
    fn waiting_for(&self, group: &Group) -> Vec<WaitingFor> {
        let Some(waits) = self.waits else { return Vec::new() };
        let own = group.instances.iter().map(|&at| {
            let range = &self.nvtx.ranges[at];
            waits.within(range.thread, range.start, range.end.unwrap_or(range.start))
        });
        Waited::sum(own)
    }
}

fn pass(group: Group, around: &Around<'_>, work: &Work<'_>, measured: Option<&Times>) -> Option<Pass> {
    let instances = around.instances(&group, work.together, &work.gpus);
    let used = work.gpus.iter().filter(|(_, work)| work.iter().any(Option::is_some));
    let used: Vec<_> = used.copied().collect();
    let process = around.process(&group);
    let own = used.iter().filter(|_| used.len() > 1).filter_map(|one @ (device, work)| {
        let gpu = around.gpus.place(process, *device).gpu.unwrap_or(GpuId(device.0));
        let instances = around.instances(&group, work, std::slice::from_ref(one));
        Some(PassGpu { gpu, times: gpu_times(&instances, 1)? })
    });
    let own: Vec<PassGpu> = own.collect();
    let host = Times::of(instances.iter().map(Instance::host_ns))?;
    let waiting = Times::of(instances.iter().filter_map(|instance| instance.waiting_ns));
    let gpu = gpu_times(&instances, used.len() as u64);
    let against = measured.map(|measured| {
        let difference = |times: &Times| times.mean_ns - measured.mean_ns;
        Against {
            host_difference_ns: difference(&host),
            host_change: change(measured.mean_ns, host.mean_ns),
            projected_difference_ns: gpu.as_ref().map(|gpu| difference(&gpu.projected)),
            projected_change: gpu.as_ref().and_then(|gpu| change(measured.mean_ns, gpu.projected.mean_ns)),
        }
    });
    Some(Pass {
        waiting_for: around.waiting_for(&group),
        name: group.name,
        kind: group.kind,
        process: group.process,
        rank: group.rank,
        instances,
        left_out: group.left_out,
        host,
        host_self_ns: None,
        period: None,
        waiting,
        gpu,
        gpus: own,
        against,
    })
}

fn instance(
    range: std::ops::Range<i64>,
    work: Option<GpuWork>,
    idle_ns: i64,
    waiting_ns: Option<i64>,
) -> Instance {
    let gpu = work.map(|work| InstanceWork {
        start_ns: work.start,
        end_ns: work.end,
        busy_ns: work.busy,
        gaps_ns: work.extent.saturating_sub(work.busy),
        idle_ns,
        overlap_ns: i64::try_from(work.total - i128::from(work.busy)).unwrap_or(i64::MAX),
        kernels: work.kernels,
        operations: work.operations,
    });
    Instance { start_ns: range.start, end_ns: range.end, waiting_ns, gpu }
}

impl Instance {
    /// From the beginning to the end of the range, on the host.
    pub fn host_ns(&self) -> i64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

impl InstanceWork {
    /// From the first operation's beginning to the last one's end.
    pub fn projected_ns(&self) -> i64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

fn gpu_times(instances: &[Instance], gpus: u64) -> Option<GpuTimes> {
    let worked: Vec<(&Instance, &InstanceWork)> =
        instances.iter().filter_map(|instance| Some((instance, instance.gpu.as_ref()?))).collect();
    let times = |of: &dyn Fn(&Instance, &InstanceWork) -> i64| {
        Times::of(worked.iter().map(|(instance, work)| of(instance, work)))
    };
    let n = worked.len() as f64;
    Some(GpuTimes {
        projected: times(&|_, work| work.projected_ns())?,
        host: times(&|instance, _| instance.host_ns())?,
        busy: times(&|_, work| work.busy_ns)?,
        gaps: times(&|_, work| work.gaps_ns)?,
        idle: times(&|_, work| work.idle_ns)?,
        overlap: times(&|_, work| work.overlap_ns)?,
        lead: times(&|instance, work| work.start_ns.saturating_sub(instance.start_ns))?,
        tail: times(&|instance, work| work.end_ns.saturating_sub(instance.end_ns))?,
        gpus,
        operations_mean: worked.iter().map(|(_, work)| work.operations).sum::<u64>() as f64 / n,
        kernels_mean: worked.iter().map(|(_, work)| work.kernels).sum::<u64>() as f64 / n,
    })
}

/// The pass one of whose means is nearest to the measured one.
fn nearest(passes: &[Pass], measured: &Times) -> Option<usize> {
    let distance = |pass: &Pass| {
        let host = (pass.host.mean_ns - measured.mean_ns).abs();
        pass.gpu.as_ref().map_or(host, |gpu| host.min((gpu.projected.mean_ns - measured.mean_ns).abs()))
    };
    let by_distance = passes.iter().enumerate().min_by(|(_, a), (_, b)| distance(a).total_cmp(&distance(b)));
    by_distance.map(|(at, _)| at)
}

impl Passes {
    /// The process that takes longest on the host for a pass that several have.
    pub fn slowest(&self, name: &str) -> Option<i64> {
        let host = self.spreads.iter().find(|found| found.name == name && found.time == SpreadTime::Host);
        host.and_then(|found| found.spread.slowest.process)
    }
}
