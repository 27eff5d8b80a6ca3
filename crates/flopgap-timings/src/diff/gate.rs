//! Regressions beyond an allowed fraction.

use flopgap_trace::DeviceId;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Change, Diff, Quantity};
use crate::place::Place;

/// The times that a gate checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// Time on the host: of the scope and of ranges.
    Wall,
    /// From the first to the last GPU operation: of the scope and of ranges.
    Gpu,
    /// The time in which GPUs were busy: of the scope, of ranges and of kernels.
    Busy,
    /// All of them: what is slower by any is slower. The time for which a whole trace was recorded
    /// is not judged.
    #[default]
    Any,
}

/// The time that got slower.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Measure {
    /// On the host.
    Wall,
    /// From the first to the last GPU operation.
    Projected,
    /// The time in which at least one GPU operation ran; of a kernel, the time of its launches.
    Busy,
    /// The mean of one launch, where the traces differ in their number.
    PerLaunch,
    /// The time of what both traces ran, launch for launch and byte for byte.
    LikeForLike,
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Measure::Wall => "wall time",
            Measure::Projected => "projected GPU time",
            Measure::Busy => "GPU busy time",
            Measure::PerLaunch => "time of one launch",
            Measure::LikeForLike => "GPU time, launch for launch",
        })
    }
}

/// What is compared before and after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compared {
    /// The scope.
    Scope {
        /// Where; absent for all places together.
        place: Option<Place>,
    },
    /// A kernel, or all copies or sets.
    Kernel {
        /// A name that fits in a table.
        name: String,
        /// Where; absent for all places together.
        place: Option<Place>,
    },
    /// A range.
    Range {
        /// Its folded name.
        name: String,
        /// The process; absent for all together.
        process: Option<i64>,
        /// The GPU, as its process numbers it; absent where the range uses but one, and for time on
        /// the host.
        gpu: Option<DeviceId>,
    },
}

/// What got slower by more than was allowed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slower {
    /// What is compared.
    pub what: Compared,
    /// By which time.
    pub by: Measure,
    /// Before, in nanoseconds of one instance.
    pub before_ns: f64,
    /// After.
    pub after_ns: f64,
    /// By what fraction of the time before.
    pub fraction: f64,
}

impl By {
    fn judges(self, measure: Measure) -> bool {
        match self {
            By::Any => true,
            By::Wall => measure == Measure::Wall,
            By::Gpu => measure == Measure::Projected,
            By::Busy => matches!(measure, Measure::Busy | Measure::PerLaunch | Measure::LikeForLike),
        }
    }
}

impl Diff {
    /// What got slower by more than `fraction` of the time before: the scope in each place, and
    /// each kernel and range whose total is at least `least_ns` on either side.
    ///
    /// Where the traces differ in work, kernels are also judged launch for launch, so that less
    /// work does not make up for slower work. What is new or gone shows in the scope alone.
    pub fn slower(&self, fraction: f64, least_ns: i128, by: By) -> Vec<Slower> {
        let mut slower = Vec::new();
        let mut judge = |what: &Compared, measure: Measure, time: Quantity| {
            let Some(found) = time.fraction().filter(|found| *found > fraction && by.judges(measure)) else {
                return;
            };
            if let Quantity { before: Some(before_ns), after: Some(after_ns) } = time {
                slower.push(Slower { what: what.clone(), by: measure, before_ns, after_ns, fraction: found });
            }
        };
        let each = |change: &Change| Quantity {
            before: change.before.map(|side| side.each_ns),
            after: change.after.map(|side| side.each_ns),
        };
        for place in &self.places {
            let what = Compared::Scope { place: place.shown_place() };
            // How long a recording lasted depends on when it was stopped.
            if self.instances != [None, None] || by == By::Wall {
                judge(&what, Measure::Wall, place.wall_ns);
            }
            judge(&what, Measure::Projected, place.projected_ns);
            judge(&what, Measure::Busy, place.busy_ns);
            if !place.work.is_empty() {
                let like = place.like_for_like;
                let time = Quantity { before: Some(like.before_ns), after: Some(like.after_ns) };
                judge(&what, Measure::LikeForLike, time);
            }
        }
        for kernel in self.kernels.iter().filter(|kernel| kernel.time.most_ns() >= least_ns) {
            let place = self.places[kernel.place].shown_place();
            let what = Compared::Kernel { name: kernel.short.clone(), place };
            judge(&what, Measure::Busy, each(&kernel.time));
            let calls = |side: Option<super::Side>| side.map(|side| side.each_calls);
            if calls(kernel.time.before) != calls(kernel.time.after) {
                let mean = |side: Option<super::Side>| side.map(|side| side.mean_ns);
                let time = Quantity { before: mean(kernel.time.before), after: mean(kernel.time.after) };
                judge(&what, Measure::PerLaunch, time);
            }
        }
        for range in &self.ranges {
            // The scope itself is checked above.
            if self.scope.iter().all(|scope| *scope == range.name) {
                continue;
            }
            let what = |gpu: Option<DeviceId>| Compared::Range {
                name: range.name.clone(),
                process: range.process[1].or(range.process[0]),
                gpu,
            };
            let mut judge = |what: &Compared, measure: Measure, change: &Change| {
                if change.most_ns() >= least_ns {
                    judge(what, measure, each(change));
                }
            };
            judge(&what(None), Measure::Wall, &range.wall);
            for gpu in &range.gpus {
                let what = what(gpu.gpu[1].or(gpu.gpu[0]));
                judge(&what, Measure::Projected, &gpu.projected);
                judge(&what, Measure::Busy, &gpu.busy);
            }
        }
        slower
    }
}
