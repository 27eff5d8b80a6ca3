//! Two traces of the same program, before and after a change.

use std::collections::BTreeMap;

use flopgap_kernels::{Classifier, KernelClass};
use flopgap_nsys::{Launched, Trace, fold_name};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::scope::{Scope, Scoped};
use crate::select::{Named, WarmUp};
use crate::times::{change, in_words};

/// Two traces, before and after.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Diff {
    /// The ranges that were looked at, before and after: `all`, or such as `step_*`.
    pub scope: [String; 2],
    /// How many instances of them; absent for whole traces.
    pub instances: [Option<u64>; 2],
    /// How GPU work found its range, in a sentence.
    pub attribution: String,
    /// Which instances were left out, in a sentence; absent when the trace before has no ranges.
    pub rule: Option<String>,
    /// All kernels, copies and sets.
    pub total: Change,
    /// Kernels by folded name, then copies and sets: the largest change of time first.
    pub kernels: Vec<KernelChange>,
    /// NVTX ranges by folded name, outside of warming up: the largest change of GPU time first. Empty when a trace has none.
    pub ranges: Vec<RangeChange>,
}

/// The work of one trace under a name.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// How often it ran.
    pub calls: u64,
    /// The sum of its durations.
    pub total_ns: i128,
    /// The mean of its durations.
    pub mean_ns: f64,
    /// What is compared: the time in one instance of the scope (for ranges: of one instance of the range).
    pub each_ns: f64,
}

/// A time before and after; absent where there was none of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Before.
    pub before: Option<Side>,
    /// After.
    pub after: Option<Side>,
}

impl Change {
    /// By how much it is slower, in nanoseconds of one instance; what is gone or new counts as nothing on the other side.
    pub fn difference_ns(&self) -> f64 {
        self.after.map_or(0.0, |side| side.each_ns) - self.before.map_or(0.0, |side| side.each_ns)
    }

    /// By how much it is slower, as a fraction of the time before; nothing for what is new or gone.
    pub fn fraction(&self) -> Option<f64> {
        change(self.before?.each_ns, self.after?.each_ns)
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
    /// Its demangled name with numbers that tell instances apart folded; `[CUDA memcpy]` and `[CUDA memset]` for memory operations.
    pub name: String,
    /// A name that fits in a table.
    pub short: String,
    /// The kind of work.
    pub class: KernelClass,
    /// Its time.
    pub time: Change,
}

/// A range before and after.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RangeChange {
    /// Its name, folded.
    pub name: String,
    /// The time in which its work kept a GPU busy, over its instances.
    pub gpu: Change,
    /// The time from its beginning to its end on the host, over its instances.
    pub host: Change,
}

/// What got slower by more than was allowed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slower {
    /// `total GPU time`, or a kernel or range by name.
    pub what: String,
    /// Before, in nanoseconds of one instance.
    pub before_ns: f64,
    /// After.
    pub after_ns: f64,
    /// By what fraction of the time before.
    pub fraction: f64,
}

/// Compares a scope of `before` with a scope of `after`, and all ranges outside of warming up.
///
/// # Errors
/// When either has no kernels, or no range of the scope.
pub fn diff(
    before: (&Trace, &Scope),
    after: (&Trace, &Scope),
    classifier: &Classifier,
) -> Result<Diff, Error> {
    // One after the other, so that only one of them is held at a time.
    let (before_work, before_ranges, rule) = one(before.0, before.1)?;
    let (after_work, after_ranges, _) = one(after.0, after.1)?;
    let (scoped, ranges) = ([before_work, after_work], [before_ranges, after_ranges]);
    let total = scoped.each_ref().map(|scoped| {
        let kernels = scoped.kernels.iter().map(|(_, times)| times);
        let all = kernels.chain(&scoped.copies).chain(&scoped.sets);
        side(
            all.fold((0, 0), |(calls, total), times| (calls + times.count, total + times.total)),
            scoped.instances,
        )
    });
    Ok(Diff {
        total: Change { before: total[0], after: total[1] },
        kernels: kernels(&scoped, classifier),
        ranges: matched_ranges(ranges),
        rule,
        attribution: crate::passes::in_a_sentence(before.1.attribution),
        instances: scoped.each_ref().map(|scoped| scoped.instances),
        scope: scoped.map(|scoped| scoped.scope),
    })
}

/// The work of the scope of a trace, all of its ranges, and which instances of these were left out.
fn one(trace: &Trace, scope: &Scope) -> Result<(Scoped, RangesByName, Option<String>), Error> {
    let nvtx = match trace.nvtx_ranges() {
        Ok(nvtx) => Some(nvtx),
        Err(error) if error.is_absence() => None,
        Err(error) => return Err(error.into()),
    };
    let launched = match trace.launched(scope.attribution) {
        Ok(launched) => Some(launched),
        Err(error) if error.is_absence() => None,
        Err(error) => return Err(error.into()),
    };
    let scoped = scope.times(trace)?;
    let ranges = launched.map(|launched| ranges(&launched, &scope.warm_up)).unwrap_or_default();
    Ok((scoped, ranges, nvtx.map(|nvtx| Named::new(&nvtx).rule(&scope.warm_up))))
}

/// Nothing for no calls.
fn side((calls, total_ns): (u64, i128), instances: Option<u64>) -> Option<Side> {
    (calls > 0).then(|| Side {
        calls,
        total_ns,
        mean_ns: total_ns as f64 / calls as f64,
        each_ns: total_ns as f64 / instances.unwrap_or(1) as f64,
    })
}

fn kernels(scoped: &[Scoped; 2], classifier: &Classifier) -> Vec<KernelChange> {
    // Calls and total of each name, before and after.
    let mut names: BTreeMap<String, [(u64, i128); 2]> = BTreeMap::new();
    for (at, scoped) in scoped.iter().enumerate() {
        let kernels = scoped.kernels.iter().map(|(name, times)| (fold_name(name).into_owned(), times));
        let copies = scoped.copies.iter().map(|times| ("[CUDA memcpy]".to_owned(), times));
        let sets = scoped.sets.iter().map(|times| ("[CUDA memset]".to_owned(), times));
        for (name, times) in kernels.chain(copies).chain(sets) {
            let (calls, total) = &mut names.entry(name).or_default()[at];
            *calls += times.count;
            *total += times.total;
        }
    }
    let mut kernels: Vec<KernelChange> = names
        .into_iter()
        .map(|(name, [before, after])| {
            let info = classifier.get(&name);
            let time =
                Change { before: side(before, scoped[0].instances), after: side(after, scoped[1].instances) };
            KernelChange { short: info.short.clone(), class: info.class, name, time }
        })
        .collect();
    kernels.sort_by(|one, other| {
        other
            .time
            .difference_ns()
            .abs()
            .total_cmp(&one.time.difference_ns().abs())
            .then(one.name.cmp(&other.name))
    });
    kernels
}

/// The time of a range's instances: on the GPU, and on the host.
struct RangeTimes {
    gpu: (u64, i128),
    host: (u64, i128),
}

/// The ranges of a trace by folded name.
type RangesByName = BTreeMap<String, RangeTimes>;

fn ranges(launched: &Launched, warm_up: &WarmUp) -> RangesByName {
    let nvtx = launched.nvtx();
    let mut groups = Named::new(nvtx).all(warm_up, true);
    groups.retain(|group| !group.instances.is_empty());
    let instances: Vec<&[usize]> = groups.iter().map(|group| group.instances.as_slice()).collect();
    let sums = launched.sums_of(&instances);
    let times = groups.iter().zip(sums).map(|(group, sum)| {
        let host = group.instances.iter().map(|&at| {
            let range = &nvtx.ranges[at];
            range.end.map_or(0, |end| i128::from(end) - i128::from(range.start))
        });
        let host = (group.instances.len() as u64, host.sum());
        (group.name.clone(), RangeTimes { gpu: (sum.instances, sum.busy), host })
    });
    times.collect()
}

fn matched_ranges([before, after]: [RangesByName; 2]) -> Vec<RangeChange> {
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let each = |(calls, total): (u64, i128)| side((calls, total), Some(calls));
    let mut ranges: Vec<RangeChange> = names
        .into_iter()
        .map(|name| {
            let sides = [before.get(name), after.get(name)];
            let gpu = sides.map(|times| times.and_then(|times| each(times.gpu)));
            let host = sides.map(|times| times.and_then(|times| each(times.host)));
            RangeChange {
                name: name.clone(),
                gpu: Change { before: gpu[0], after: gpu[1] },
                host: Change { before: host[0], after: host[1] },
            }
        })
        .collect();
    ranges.sort_by(|one, other| {
        other
            .gpu
            .difference_ns()
            .abs()
            .total_cmp(&one.gpu.difference_ns().abs())
            .then(one.name.cmp(&other.name))
    });
    ranges
}

impl Diff {
    /// What got slower by more than `fraction` of the time before: all GPU work, and each kernel and range whose total is at least
    /// `least_ns` on either side. Ranges are judged by their GPU time, because host times vary from run to run. What is new or gone
    /// shows in the total alone.
    pub fn slower(&self, fraction: f64, least_ns: i128) -> Vec<Slower> {
        let total = [("total GPU time".to_owned(), &self.total)];
        let kernels = self.kernels.iter().map(|kernel| (format!("kernel {}", kernel.short), &kernel.time));
        let ranges = self.ranges.iter().map(|range| (format!("range `{}`", range.name), &range.gpu));
        let parts = kernels.chain(ranges).filter(|(_, change)| change.most_ns() >= least_ns);
        let slower = total.into_iter().chain(parts).filter_map(|(what, change)| {
            let found = change.fraction().filter(|found| *found > fraction)?;
            Some(Slower {
                what,
                before_ns: change.before?.each_ns,
                after_ns: change.after?.each_ns,
                fraction: found,
            })
        });
        slower.collect()
    }

    /// What the numbers say, in sentences: the total, and what contributes most to its change.
    pub fn sentences(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        if let (Some(before), Some(after), Some(fraction)) =
            (self.total.before, self.total.after, self.total.fraction())
        {
            let each = if self.instances == [None, None] { "" } else { " in one step" };
            sentences.push(format!(
                "The GPU's work takes {} before and {} after{each}: {} ({:+.1}%).",
                in_words(before.each_ns),
                in_words(after.each_ns),
                signed(self.total.difference_ns()),
                fraction * 100.0
            ));
        }
        let most: Vec<String> = self
            .kernels
            .iter()
            .filter(|kernel| kernel.time.difference_ns() != 0.0)
            .take(3)
            .map(|kernel| {
                let new = match (kernel.time.before, kernel.time.after) {
                    (None, _) => ", new",
                    (_, None) => ", gone",
                    _ => "",
                };
                format!("{} ({}{new})", kernel.short, signed(kernel.time.difference_ns()))
            })
            .collect();
        if !most.is_empty() {
            sentences.push(format!("Most of the change: {}.", most.join(", ")));
        }
        sentences
    }
}

/// A difference with its sign.
fn signed(ns: f64) -> String {
    if ns > 0.0 { format!("+{}", in_words(ns)) } else { in_words(ns) }
}
