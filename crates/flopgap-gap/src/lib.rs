#![doc = include_str!("../README.md")]

mod activity;
mod advice;
mod captures;
mod cause;
mod difference;
mod error;
mod executed;
mod floor;
mod frequency;
mod host;
mod intervals;
mod joined;
mod late;
mod links;
mod measured;
mod operation;
mod partition;
mod parts;
mod patterns;
mod peaks;
mod pieces;
mod steps;
mod sweep;
mod timeline;
mod whole;
mod with_capture;

use flopgap_timings::Gpus;
pub use flopgap_timings::{Place, Ranges};
use flopgap_trace::Recording;
use serde::{Deserialize, Serialize};

pub use activity::{Active, ActiveGpu, Activity};
pub use advice::{Advice, Kind, LOST};
pub use cause::{Cause, Limit, Part};
pub use difference::{CauseDifference, DetailDifference, Difference};
pub use error::Error;
pub use executed::{Executed, ExecutedKernel, Operations, Sums};
pub use floor::{Bar, Floor, FloorPart, TypeFlops};
pub use frequency::Frequency;
pub use joined::{CorrectedClock, Joined};
pub use links::Link;
pub use parts::{Detail, Share, Step};
pub use peaks::{Peak, Peaks, Source};
pub use pieces::{Piece, Pieces};
pub use steps::{Clock, FoundBy};
pub use whole::WholeSteps;
pub use with_capture::WithCapture;

use advice::Facts;
use captures::Graphs;
use frequency::Frequencies;
use host::Host;
use measured::Measured;
use operation::Lane;
use partition::Context;
use steps::ByRanges;
use timeline::Timeline;

/// What to take apart.
#[derive(Clone, Debug)]
pub struct Options {
    /// The ranges that are steps.
    pub steps: Ranges,
    /// What was measured on a GPU ([`Peaks::measured`]), for the floor of traces whose GPUs are all
    /// called as it is.
    pub peaks: Option<Peaks>,
    /// How many pieces of time to keep at most for [`Gap::pieces`], of all GPUs together: the last
    /// ones of each.
    pub pieces: usize,
}

impl Default for Options {
    /// What a trace marks as its steps, or else what can be found.
    fn default() -> Options {
        Options { steps: Ranges::Steps, peaks: None, pieces: 0 }
    }
}

/// A trace taken apart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gap {
    /// What limits the measured steps.
    pub limit: Limit,
    /// How the steps were found.
    pub found_by: FoundBy,
    /// The folded name of the steps.
    pub step: String,
    /// What the GPUs are called.
    pub gpus: Vec<String>,
    /// How recordings that know nothing of each other were read as one job; absent of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined: Option<Joined>,
    /// The clocks of ranks that were corrected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clocks: Vec<CorrectedClock>,
    /// Whether CUDA graphs are captured in the measured time: what is captured runs later.
    pub captures: bool,
    /// The nodes of CUDA graphs that ran; absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graphs: Option<GraphNodes>,
    /// How many steps are measured: those that do not warm up, on each GPU.
    pub measured: u64,
    /// On how many GPUs of processes.
    pub places: u64,
    /// The pauses between measured steps that are left out: far longer than a step.
    pub pauses: Pauses,
    /// The GPU work of processes that mark no such steps, which is in no sum.
    #[serde(default)]
    pub unmarked: Unmarked,
    /// The mean length of a measured step with the time until the next, in nanoseconds.
    pub step_ns: i64,
    /// How the measured time divides by what would have to change.
    pub limits: Vec<Group>,
    /// The measured time by cause, with details.
    pub parts: Vec<Share>,
    /// What the work needs at least; absent where nothing is recorded of what operators were called
    /// with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<Floor>,
    /// What kernels executed, by counters; absent where nothing was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executed: Option<Executed>,
    /// How active units of the GPUs were; absent where that was not sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activity: Option<Activity>,
    /// What whole steps executed, by counters; absent where none that is measured was counted so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole_steps: Option<WholeSteps>,
    /// What as many launches take as the steps have; absent where the time of a launch was not
    /// measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launches: Option<Launches>,
    /// How fast the clocks of the GPUs ran; absent where that was not sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frequency: Option<Frequency>,
    /// What to change, largest bound first.
    pub advice: Vec<Advice>,
    /// Each step on each GPU.
    pub steps: Vec<Step>,
    /// The time between steps, and after the last.
    pub between: Vec<Step>,
    /// Which piece of the measured time counts for which cause, as far as [`Options::pieces`] asks
    /// for them; serde leaves them out.
    #[serde(skip)]
    pub pieces: Vec<Pieces>,
}

impl Gap {
    /// All measured time: the sum of [`parts`](Self::parts), in nanoseconds.
    pub fn total_ns(&self) -> i64 {
        self.parts.iter().map(|part| part.ns).sum()
    }

    /// The fraction of the measured time that some nanoseconds of it are.
    pub fn share(&self, ns: i64) -> f64 {
        ns as f64 / self.total_ns().max(1) as f64
    }

    /// The measured time from what it needs to what is wasted; the bars add up to
    /// [`total_ns`](Self::total_ns).
    pub fn waterfall(&self) -> Vec<(Bar, i64)> {
        floor::waterfall(&self.parts, self.floor.as_ref())
    }

    /// A sum over all measured steps, as that of one.
    pub fn each(&self, sum: i64) -> f64 {
        sum as f64 / self.measured.max(1) as f64
    }
}

/// The launches of kernels of all measured steps beside empty ones.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Launches {
    /// How many calls launched kernels that begin in measured time; those of graphs are left out.
    pub count: u64,
    /// The time of an empty launch on a stream as it was measured, in nanoseconds.
    pub each_ns: f64,
    /// What as many empty launches take, in nanoseconds.
    pub ns: f64,
}

impl Launches {
    fn new((count, each_ns): (u64, f64)) -> Launches {
        Launches { count, each_ns, ns: count as f64 * each_ns }
    }
}

/// Nodes of CUDA graphs that ran, in the whole recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphNodes {
    /// Kernels, copies and memory sets that graphs launched.
    pub operations: u64,
    /// Those whose operators are known from a capture.
    pub named: u64,
}

impl GraphNodes {
    fn of(graphs: &Graphs) -> Option<GraphNodes> {
        let Graphs { nodes: operations, named, .. } = *graphs;
        (operations > 0).then_some(GraphNodes { operations, named })
    }
}

/// Time between steps that is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pauses {
    /// How many.
    pub count: u64,
    /// How long, together.
    pub ns: i64,
}

/// GPU work of processes without steps, while others have some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unmarked {
    /// On how many GPUs of such processes.
    pub places: u64,
    /// How many kernels, copies and memory sets.
    pub operations: u64,
}

/// The nanoseconds of a group of causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// The group.
    pub limit: Limit,
    /// The sum over all measured steps and the time between them.
    pub ns: i64,
}

/// Takes the steps of a trace apart, each on each GPU.
///
/// # Errors
/// An absence when the trace has no GPU work, or the ranges of `options` launch none; what keeps it
/// from being read.
pub fn gap(trace: &dyn Recording, options: &Options) -> Result<Gap, Error> {
    let mut host = Host::read(trace)?;
    let by_ranges = ByRanges::read(trace, &options.steps, &host)?;
    host.forget_ranges();
    let gpus = Gpus::read(trace)?;
    let timeline = Timeline::read(trace, &host, &gpus)?;
    host.forget_launches();
    let found = by_ranges.choose(&host, &timeline.lanes);
    let late = &timeline.arrivals;
    let by_kernel =
        late.iter().map(|own| ((own.place, own.start, own.end), (own.arrived, own.last))).collect();
    let place = |lane: &Lane| gpus.place(lane.process, lane.device);
    let lanes = timeline.lanes.iter().map(|lane| (place(lane), lane)).collect();
    let context = Context { timeline: &timeline, host: &host, arrivals: &by_kernel, lanes: &lanes };
    let gpu_names: Vec<String> = trace.gpu_names()?.into_iter().filter(|name| !name.is_empty()).collect();
    let peaks = match gpu_names.as_slice() {
        [gpu] => options.peaks.clone().filter(|peaks| peaks.gpu == *gpu).or_else(|| Peaks::of(gpu)),
        _ => None,
    };
    let launch_ns = peaks.as_ref().and_then(|peaks| peaks.launch_ns);
    let each = options.pieces / timeline.lanes.len().max(1);
    let mut measured = Measured::new(&context, Frequencies::read(trace)?, each);
    measured.patterns.launches = launch_ns.map(|_| 0);
    for lane in &timeline.lanes {
        measured.add(lane, place(lane), &found);
    }
    if measured.total.wall_ns == 0 {
        return Err(Error::NoWork { path: trace.path().to_owned(), ranges: found.name });
    }
    let executed = Executed::read(trace, &measured.intervals, peaks.as_ref(), measured.total.wall_ns)?;
    let gpu = |((process, device), _): &executed::Measured| gpus.place(*process, *device).gpu;
    let activity = Activity::read(trace, &measured.intervals, gpu)?;
    let wall_ns = measured.total.wall_ns;
    let whole_steps = WholeSteps::read(trace, &found, &measured.counts, peaks.as_ref(), wall_ns)?;
    let captures = captures(&host, &measured.steps, &measured.between);
    let places: Vec<Place> = timeline.lanes.iter().map(place).collect();
    let ran: Vec<_> = timeline.lanes.iter().map(|lane| (lane.process, lane.device)).collect();
    let clocks = CorrectedClock::of(trace, &gpus, &ran);
    let joined = trace.joined().map(|joined| Joined::new(joined, late, &places));
    let launches = measured.patterns.launches.zip(launch_ns).map(Launches::new);
    let facts = Facts { gpus: &gpu_names, captures, measured: &measured };
    let (limits, advice) = (facts.limits(), facts.advice());
    let Measured { total, folded, floors, frequencies, .. } = measured;
    let parts = context.details(&total.sums, &folded);
    Ok(Gap {
        limit: advice::limit(&limits),
        found_by: found.found,
        step: found.name,
        floor: floors.floor(&host.works, peaks, &parts),
        executed,
        activity,
        whole_steps,
        launches,
        frequency: frequencies.mean(),
        gpus: gpu_names,
        joined,
        clocks,
        captures,
        graphs: GraphNodes::of(&timeline.graphs),
        measured: total.steps,
        places: measured.places,
        pauses: measured.pauses,
        unmarked: measured.unmarked,
        step_ns: total.wall_ns / i64::try_from(total.steps.max(1)).unwrap_or(i64::MAX),
        advice,
        parts,
        limits: limits.into_iter().map(|(limit, ns)| Group { limit, ns }).collect(),
        steps: measured.steps,
        between: measured.between,
        pieces: measured.pieces,
    })
}

/// Whether a graph is captured in the measured time.
fn captures(host: &Host, steps: &[Step], between: &[Step]) -> bool {
    let measured = steps.iter().chain(between).filter(|step| !step.warm_up);
    let start = measured.clone().map(|step| step.start_ns).min();
    let end = measured.map(|step| step.start_ns + step.wall_ns).max();
    start.zip(end).is_some_and(|(start, end)| host.calls_within("StreamBeginCapture", start, end))
}
