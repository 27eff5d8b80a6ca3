//! Two traces of the same program, before and after a change.

mod gate;
mod kernels;
mod measure;
mod ranges;
mod steps;
mod work;

use std::collections::BTreeSet;

use flopgap_files::present;
use flopgap_kernels::{Classifier, KernelClass};
use flopgap_trace::{AttributeBy, DeviceId, Recording, Unlaunched};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::place::{Gpus, MeanOf, Place, Spread};
use crate::scope::{Part, Scope, Scoped};
use crate::select::Named;
use crate::selection::Selection;
use crate::times::change;

pub use gate::{By, Judged, LEVEL, Sample, Verdict, runs};
pub use measure::Measure;
pub use work::{Counted, LikeForLike, WorkDifference};

/// Two traces, before and after.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Diff {
    /// The ranges that were examined, before and after: `all`, or such as `step_*`.
    pub scope: [String; 2],
    /// How many instances of them; absent for whole traces.
    pub instances: [Option<u64>; 2],
    /// Whose ranges own GPU work.
    pub attribution: AttributeBy,
    /// Which instances were left out; absent when the trace before has no ranges.
    pub selection: Option<Selection>,
    /// The work of each trace that could belong to no range; absent for whole traces.
    pub unlaunched: [Option<Unlaunched>; 2],
    /// How many processes and GPUs worked in each trace, where their numbers differ and so no one
    /// is compared with another.
    pub unmatched: Option<[u64; 2]>,
    /// The scope as a whole; where several processes or GPUs worked, as many in both traces, each
    /// on its own, in their order.
    pub places: Vec<PlaceDiff>,
    /// Kernels by folded name, then copies and memsets: the largest change of time first.
    pub kernels: Vec<KernelChange>,
    /// NVTX ranges by folded name, outside of warm-up: the largest change first. Empty when a trace
    /// has none.
    pub ranges: Vec<RangeChange>,
    /// The GPUs that worked, by what they are called, before and after; empty where that is not
    /// recorded.
    pub gpus: [Vec<String>; 2],
    /// The times of steps and passes, those of the scope first; empty for whole traces, of which
    /// there is one each.
    pub judged: Vec<Judged>,
}

/// A number before and after, of one instance of the scope; absent where it was not recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantity {
    /// Before.
    pub before: Option<f64>,
    /// After.
    pub after: Option<f64>,
}

impl Quantity {
    /// By how much it is larger after; `None` when either is absent.
    pub fn difference(&self) -> Option<f64> {
        Some(self.after? - self.before?)
    }

    /// By how much it is larger, as a fraction of what it was before; nothing over zero.
    pub fn fraction(&self) -> Option<f64> {
        change(self.before?, self.after?)
    }
}

/// The scope in one place, or in all together. Every quantity is that of one instance of the scope.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlaceDiff {
    /// Which process on which GPU, before and after; absent for all together.
    pub place: [Option<Place>; 2],
    /// How many instances of the scope were there.
    pub instances: [Option<u64>; 2],
    /// On the host, from the beginning to the end of the range; of a whole trace, for how long it
    /// was recorded.
    pub wall_ns: Quantity,
    /// From its first to its last GPU operation.
    pub projected_ns: Quantity,
    /// The time in which at least one operation ran; over several GPUs, where they are together,
    /// the sum.
    pub busy_ns: Quantity,
    /// The rest of the time from the first to the last operation: between its own operations,
    /// whether other work ran or not.
    pub gaps_ns: Quantity,
    /// By how much the durations of all operations are more than the busy time: what ran at the
    /// same time.
    pub overlap_ns: Quantity,
    /// The durations of all operations.
    pub operations_ns: Quantity,
    /// Kernels launched.
    pub kernels: Quantity,
    /// Memory copies.
    pub copies: Quantity,
    /// The bytes that they copied.
    pub copied_bytes: Quantity,
    /// Memsets.
    pub sets: Quantity,
    /// The bytes that they set.
    pub set_bytes: Quantity,
    /// The work common to both traces, weighted by the launches and bytes of the trace after.
    pub like_for_like: LikeForLike,
    /// Differences in the work of the traces; empty when both do the same work.
    pub work: Vec<WorkDifference>,
}

/// The work of one trace under a name.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// How often it ran (ranges: how many instances), and what the mean is a mean of.
    pub calls: u64,
    /// The same in one instance of the scope.
    pub each_calls: f64,
    /// The sum of its durations.
    pub total_ns: i128,
    /// The mean of its durations: `total_ns / calls`.
    pub mean_ns: f64,
    /// What is compared: the time in one instance of the scope (for ranges: of one instance of the
    /// range).
    pub each_ns: f64,
    /// The bytes that it moved in one instance of the scope, where it moves any.
    pub each_bytes: Option<f64>,
}

/// A time before and after; absent where there was none of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Before.
    pub before: Option<Side>,
    /// After.
    pub after: Option<Side>,
}

impl Change {
    /// By how much it is slower, in nanoseconds of one instance; what is gone or new counts as
    /// nothing on the other side.
    pub fn difference_ns(&self) -> f64 {
        self.after.map_or(0.0, |side| side.each_ns) - self.before.map_or(0.0, |side| side.each_ns)
    }

    /// By how much it is slower, as a fraction of the time before; `None` for what is new or gone.
    pub fn fraction(&self) -> Option<f64> {
        change(self.before?.each_ns, self.after?.each_ns)
    }

    /// By how much one launch is slower, as a fraction; `None` for what is new or gone.
    pub fn per_call(&self) -> Option<f64> {
        change(self.before?.mean_ns, self.after?.mean_ns)
    }

    /// The larger of both totals.
    pub fn most_ns(&self) -> i128 {
        let total = |side: Option<Side>| side.map_or(0, |side| side.total_ns);
        total(self.before).max(total(self.after))
    }
}

/// A kernel (or all copies, or all sets) before and after.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelChange {
    /// Its place in [`Diff::places`].
    pub place: usize,
    /// Its demangled name with numbers that tell instances apart folded; `[CUDA memcpy]` and `[CUDA
    /// memset]` for memory operations.
    pub name: String,
    /// A name that fits in a table.
    pub short: String,
    /// The kind of work.
    pub class: KernelClass,
    /// Whether it is a kernel, or stands for all copies or sets.
    pub operation: Operation,
    /// Its time.
    pub time: Change,
}

/// A kind of GPU operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// A kernel.
    Kernel,
    /// A memory copy.
    Memcpy,
    /// A memory set.
    Memset,
}

/// A range before and after.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RangeChange {
    /// Its name, folded.
    pub name: String,
    /// The process, before and after; absent for all together.
    pub process: [Option<i64>; 2],
    /// The time from its beginning to its end on the host, over its instances.
    pub wall: Change,
    /// Its work on each GPU, over the instances that launched any.
    pub gpus: Vec<RangeGpu>,
}

/// What the instances of a range did on a GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RangeGpu {
    /// The GPU, before and after, as its process numbers it; absent where the range uses but one,
    /// or for all together.
    pub gpu: [Option<DeviceId>; 2],
    /// From the first to the last operation.
    pub projected: Change,
    /// The time in which at least one operation ran.
    pub busy: Change,
    /// The rest of the time from the first to the last operation: between its own operations,
    /// whether other work ran or not.
    pub gaps: Change,
    /// By how much the durations of all operations are more than the busy time.
    pub overlap: Change,
}

/// Options of a comparison, apart from the scopes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Give each layer its own row; by default, `blocks.7` and `blocks.21` are combined into
    /// `blocks.*`.
    pub keep_layers: bool,
}

/// Compares a scope of `before` with a scope of `after`, and all ranges outside of warm-up.
///
/// # Errors
/// When either has no kernels, or no range of the scope.
pub fn diff(
    before: (&dyn Recording, &Scope),
    after: (&dyn Recording, &Scope),
    options: Options,
    classifier: &Classifier,
) -> Result<Diff, Error> {
    // One after the other, so that only one of them is held at a time.
    let One { work: before_work, ranges: before_ranges, selection, steps: steps_before, gpus: gpus_before } =
        one(before.0, before.1, options)?;
    let One { work: after_work, ranges: after_ranges, steps: steps_after, gpus: gpus_after, .. } =
        one(after.0, after.1, options)?;
    let counts = [&before_work, &after_work].map(|scoped| scoped.places.len().max(1) as u64);
    let pairs: Vec<([Option<Place>; 2], [&Part; 2])> = if counts[0] == counts[1] && counts[0] > 1 {
        let pairs = before_work.places.iter().zip(&after_work.places);
        pairs.map(|((one, before), (other, after))| ([Some(*one), Some(*other)], [before, after])).collect()
    } else {
        vec![([None, None], [&before_work.whole, &after_work.whole])]
    };
    let mut kernels: Vec<KernelChange> = Vec::new();
    let mut places = Vec::new();
    for (at, (place, parts)) in pairs.into_iter().enumerate() {
        let own = kernels::matched(at, parts, classifier);
        places.push(place_diff(place, parts, &own));
        kernels.extend(own);
    }
    kernels.sort_by(|one, other| {
        let (size, key) = (
            |change: &KernelChange| change.time.difference_ns().abs(),
            |change: &KernelChange| (change.name.clone(), change.place),
        );
        size(other).total_cmp(&size(one)).then_with(|| key(one).cmp(&key(other)))
    });
    Ok(Diff {
        ranges: ranges::matched([before_ranges, after_ranges]),
        kernels,
        unlaunched: [before_work.unlaunched, after_work.unlaunched],
        unmatched: (counts[0] != counts[1]).then_some(counts),
        selection,
        attribution: before.1.attribution.by,
        instances: [before_work.whole.instances, after_work.whole.instances],
        scope: [before_work.scope.clone(), after_work.scope.clone()],
        places,
        judged: gate::judged([&steps_before, &steps_after]),
        gpus: [gpus_before, gpus_after],
    })
}

/// What is compared of a trace.
struct One {
    /// The work of the scope.
    work: Scoped,
    /// All ranges.
    ranges: ranges::Ranges,
    /// Which instances of these were left out.
    selection: Option<Selection>,
    /// Each step.
    steps: steps::Steps,
    /// What the GPUs are called.
    gpus: Vec<String>,
}

fn one(trace: &dyn Recording, scope: &Scope, options: Options) -> Result<One, Error> {
    let nvtx = present(trace.ranges())?;
    let launched = present(trace.launched(scope.attribution))?;
    let scoped = scope.times(trace)?;
    let ranges = nvtx.as_deref().map(|nvtx| ranges::Ranges::read(nvtx, launched.as_deref(), scope, options));
    let selection = match &scoped.selection {
        Some(selection) => Some(selection.clone()),
        None => nvtx.as_deref().map(|nvtx| {
            let named = Named::new(nvtx);
            named.selection(&scope.warm_up, &named.passes(&scope.warm_up))
        }),
    };
    let steps = match launched.as_deref().filter(|_| !scoped.instances.is_empty()) {
        Some(launched) => {
            let gpus = Gpus::read(trace)?;
            steps::Steps::read(&scoped.instances, &scoped.scope, launched, scope, &gpus)
        }
        None => steps::Steps::default(),
    };
    let gpus = trace.gpu_names()?;
    Ok(One { work: scoped, ranges: ranges.unwrap_or_default(), selection, steps, gpus })
}

impl PlaceDiff {
    /// The place after the change, or where only the trace before says it, that one; nothing for
    /// all places together.
    pub fn shown_place(&self) -> Option<Place> {
        self.place[1].or(self.place[0])
    }
}

fn place_diff(place: [Option<Place>; 2], parts: [&Part; 2], kernels: &[KernelChange]) -> PlaceDiff {
    let each = |of: &dyn Fn(&Part) -> Option<i128>| -> Quantity {
        let [before, after] = parts.map(|part| of(part).map(|sum| part.each(sum)));
        Quantity { before, after }
    };
    let count = |of: &dyn Fn(&Part) -> u64| each(&|part| Some(i128::from(of(part))));
    let bytes = |of: &dyn Fn(&Part) -> Option<u128>| each(&|part| i128::try_from(of(part)?).ok());
    PlaceDiff {
        place,
        instances: parts.map(|part| part.instances),
        wall_ns: each(&|part| part.wall_ns),
        projected_ns: each(&|part| Some(part.projected_ns)),
        busy_ns: each(&|part| Some(part.busy_ns)),
        gaps_ns: each(&|part| Some(part.extent_ns - part.busy_ns)),
        overlap_ns: each(&|part| Some(part.total_ns() - part.busy_ns)),
        operations_ns: each(&|part| Some(part.total_ns())),
        kernels: count(&|part| part.kernels.iter().map(|(_, times)| times.count).sum()),
        copies: count(&|part| part.copies.map_or(0, |times| times.count)),
        copied_bytes: bytes(&|part| part.copied_bytes),
        sets: count(&|part| part.sets.map_or(0, |times| times.count)),
        set_bytes: bytes(&|part| part.set_bytes),
        like_for_like: LikeForLike::new(kernels),
        work: work::differences(parts, kernels),
    }
}

impl Diff {
    /// What times are means of, before and after; nothing for whole traces.
    pub fn mean_of(&self) -> [Option<MeanOf>; 2] {
        [0, 1].map(|side| {
            let places = self.places.iter().filter(|place| place.place[side].is_some());
            MeanOf::instances(self.instances[side], places.map(|place| place.instances[side]))
        })
    }

    /// Whether both traces hold the same work: the same kernels, launches and bytes in one
    /// instance, in as many places.
    pub fn same_work(&self) -> bool {
        self.unmatched.is_none() && self.places.iter().all(|place| place.work.is_empty())
    }

    /// Whether the traces were recorded on different kinds of GPUs, as far as both say it.
    pub fn other_gpus(&self) -> bool {
        let [before, after] = self.gpus.each_ref().map(|names| names.iter().collect::<BTreeSet<_>>());
        !before.is_empty() && !after.is_empty() && before != after
    }

    /// How far the places are apart, before and after: by their time on the host, or where that is
    /// the same for all, by their busy time.
    pub fn spreads(&self) -> [Option<Spread>; 2] {
        [0, 1].map(|side| {
            let times = |of: &dyn Fn(&PlaceDiff) -> Quantity| {
                let time = |quantity: Quantity| if side == 0 { quantity.before } else { quantity.after };
                let own = self.places.iter().filter_map(|place| Some((place.place[side]?, time(of(place))?)));
                Spread::of(own)
            };
            let wall = times(&|place| place.wall_ns).filter(|spread| spread.max_ns > spread.min_ns);
            wall.or_else(|| times(&|place| place.busy_ns))
        })
    }
}
