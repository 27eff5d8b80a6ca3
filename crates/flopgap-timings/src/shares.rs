//! The GPU time of a trace, or of some of its ranges, by kind of work.

use std::collections::BTreeMap;
use std::fmt;

use flopgap_kernels::{Classifier, KernelClass};
use flopgap_trace::{AttributeBy, Recording, Unlaunched};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::place::{MeanOf, Place, Spread};
use crate::scope::{Part, Scope, Scoped};
use crate::selection::Selection;
use crate::times::share;

/// A kind of work on a GPU: kernels of one class, copies or memsets.
///
/// The class `copy` holds kernels that only move data; `memcpy` and `memset` are the operations of
/// the CUDA driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Work {
    /// Kernels of a class.
    Kernels(KernelClass),
    /// Memory copies.
    Memcpy,
    /// Memsets.
    Memset,
}

impl Work {
    /// As it is printed.
    pub fn as_str(self) -> &'static str {
        match self {
            Work::Kernels(class) => class.as_str(),
            Work::Memcpy => "memcpy",
            Work::Memset => "memset",
        }
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl From<Work> for String {
    fn from(work: Work) -> String {
        work.as_str().to_owned()
    }
}

impl TryFrom<String> for Work {
    type Error = flopgap_kernels::UnknownName;

    fn try_from(text: String) -> Result<Work, flopgap_kernels::UnknownName> {
        match text.as_str() {
            "memcpy" => Ok(Work::Memcpy),
            "memset" => Ok(Work::Memset),
            class => class.parse().map(Work::Kernels),
        }
    }
}

/// One kind of work and its time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// The kind.
    pub work: Work,
    /// How many different kernels; 1 for copies and memsets.
    pub names: u64,
    /// How often.
    pub calls: u64,
    /// The sum of their durations.
    pub total_ns: i128,
    /// The share of [`Shares::total_ns`].
    pub share: f64,
}

/// The GPU time of a scope by kind of work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shares {
    /// What was examined: `all`, or ranges such as `step_*`.
    pub scope: String,
    /// Which process on which GPU; absent for all together.
    pub place: Option<Place>,
    /// How many instances of the ranges; absent for a whole trace.
    pub instances: Option<u64>,
    /// Whose ranges own GPU work; absent for a whole trace.
    pub attribution: Option<AttributeBy>,
    /// Which instances were left out; absent for a whole trace.
    pub selection: Option<Selection>,
    /// The work of the trace that could belong to no range; absent for a whole trace.
    pub unlaunched: Option<Unlaunched>,
    /// The ranges whose kernels count as `optimizer`, whatever class their names tell; absent when
    /// the scope marks no optimizer pass.
    pub optimizer: Option<String>,
    /// Largest first.
    pub shares: Vec<Share>,
    /// The sum of the durations of kernels alone, as in `cuda_gpu_kern_sum`.
    pub kernel_ns: i128,
    /// The sum of the durations of kernels, copies and memsets.
    pub total_ns: i128,
    /// The time in which at least one operation ran, each GPU and each range separately.
    pub busy_ns: i128,
    /// From the first operation's beginning to the last one's end, each GPU and each range
    /// separately.
    pub extent_ns: i128,
    /// For each GPU on which its work ran the time on the clock: from the beginning to the end of
    /// each range on the host, or of a whole trace from the GPU's first to its last operation.
    pub clock_ns: i128,
    /// The part of it in which the GPU ran anything, of any origin.
    pub gpu_busy_ns: i128,
    /// Each process on each GPU separately; empty where there is one alone, or when all were
    /// requested as one.
    pub places: Vec<Shares>,
}

impl Shares {
    /// The part of the clock's time in which the GPU ran nothing at all.
    pub fn idle_ns(&self) -> i128 {
        self.clock_ns - self.gpu_busy_ns
    }

    /// The share of the clock's time in which the GPU ran anything; `None` over no time.
    pub fn gpu_busy_share(&self) -> Option<f64> {
        share(self.gpu_busy_ns, self.clock_ns)
    }

    /// The share of one kind of work; 0 when there was none of it.
    pub fn share(&self, work: Work) -> f64 {
        self.shares.iter().find(|share| share.work == work).map_or(0.0, |share| share.share)
    }

    /// How far the places are apart in the durations of their operations but for communication, for
    /// one instance; `None` for fewer than two.
    pub fn spread(&self) -> Option<Spread> {
        let communication = |own: &Shares| {
            let found =
                own.shares.iter().find(|share| share.work == Work::Kernels(KernelClass::Communication));
            found.map_or(0, |share| share.total_ns)
        };
        let time = |own: &Shares| own.each(own.total_ns - communication(own));
        Spread::of(self.places.iter().filter_map(|own| Some((own.place?, time(own)))))
    }

    /// What times of one instance are means of; nothing for a whole trace.
    pub fn mean_of(&self) -> Option<MeanOf> {
        MeanOf::instances(self.instances, self.places.iter().map(|own| own.instances))
    }

    /// A sum over all instances, divided by their number; for a whole trace, the sum.
    pub fn each(&self, total: i128) -> f64 {
        total as f64 / self.instances.unwrap_or(1) as f64
    }
}

/// The GPU time of `scope` by kind of work.
///
/// # Errors
/// [`Error::NoWork`] when the ranges launched none; when there are no kernels, or no range of a
/// name.
pub fn shares(trace: &dyn Recording, scope: &Scope, classifier: &Classifier) -> Result<Shares, Error> {
    Ok(classified(&scope.times_by_clock(trace)?, classifier))
}

fn classified(scoped: &Scoped, classifier: &Classifier) -> Shares {
    let places = scoped.places.iter().map(|(place, part)| of_part(scoped, Some(*place), part, classifier));
    Shares { places: places.collect(), ..of_part(scoped, None, &scoped.whole, classifier) }
}

fn of_part(scoped: &Scoped, place: Option<Place>, part: &Part, classifier: &Classifier) -> Shares {
    let mut kinds: BTreeMap<Work, (u64, u64, i128)> = BTreeMap::new();
    let kernels = part.kernels.iter().map(|(name, times)| (Work::Kernels(classifier.get(name).class), times));
    let copies = part.copies.iter().map(|times| (Work::Memcpy, times));
    let sets = part.sets.iter().map(|times| (Work::Memset, times));
    for (work, times) in kernels.chain(copies).chain(sets) {
        let kind = kinds.entry(work).or_default();
        kind.0 += 1;
        kind.1 += times.count;
        kind.2 += times.total;
    }
    let calls: FxHashMap<&str, u64> =
        part.kernels.iter().map(|(name, times)| (name.as_ref(), times.count)).collect();
    for (name, times) in &part.optimizer {
        let class = classifier.get(name).class;
        if class == KernelClass::Optimizer {
            continue;
        }
        let only = calls.get(name.as_ref()) == Some(&times.count);
        let from = kinds.entry(Work::Kernels(class)).or_default();
        from.0 -= u64::from(only);
        from.1 -= times.count;
        from.2 -= times.total;
        let to = kinds.entry(Work::Kernels(KernelClass::Optimizer)).or_default();
        to.0 += 1;
        to.1 += times.count;
        to.2 += times.total;
    }
    kinds.retain(|_, kind| kind.1 > 0);
    let total_ns: i128 = kinds.values().map(|kind| kind.2).sum();
    let mut shares: Vec<Share> = kinds
        .into_iter()
        .map(|(work, (names, calls, total))| Share {
            work,
            names,
            calls,
            total_ns: total,
            share: share(total, total_ns).unwrap_or_default(),
        })
        .collect();
    shares.sort_by_key(|share| std::cmp::Reverse(share.total_ns));
    Shares {
        scope: scoped.scope.clone(),
        place,
        instances: part.instances,
        attribution: scoped.attribution,
        selection: scoped.selection.clone(),
        unlaunched: scoped.unlaunched,
        optimizer: scoped.optimizer.clone(),
        shares,
        kernel_ns: part.kernels.iter().map(|(_, times)| times.total).sum(),
        total_ns,
        busy_ns: part.busy_ns,
        extent_ns: part.extent_ns,
        clock_ns: part.clock_ns,
        gpu_busy_ns: part.gpu_busy_ns,
        places: Vec::new(),
    }
}
