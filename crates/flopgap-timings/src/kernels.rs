//! The kernels of a trace or a range, alone or of two traces side by side.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use flopgap_kernels::{Classifier, KernelClass};
use flopgap_nsys::{Summary, Trace};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::place::{Place, Spread};
use crate::scope::Scope;
use crate::times::{Times, in_words, percent, share};
use crate::unlaunched::Unlaunched;

/// The kernels of a scope.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kernels {
    /// What was examined: `all`, or ranges such as `forward`.
    pub scope: String,
    /// How many instances of the ranges; absent for a whole trace.
    pub instances: Option<u64>,
    /// How kernels found their range, in a sentence; absent for a whole trace.
    pub attribution: Option<String>,
    /// Which instances were left out, in a sentence; absent for a whole trace.
    pub rule: Option<String>,
    /// The work of the trace that could belong to no range; absent for a whole trace.
    pub unlaunched: Option<Unlaunched>,
    /// Largest total first.
    pub kernels: Vec<KernelTimes>,
    /// The time of all of them.
    pub total_ns: i128,
    /// Each process on each GPU separately; empty where there is one alone, or when all were
    /// requested as one.
    pub places: Vec<PlaceKernels>,
}

/// The kernels of one process on one GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlaceKernels {
    /// Where they ran.
    pub place: Place,
    /// How many instances of the ranges are of this process; absent for a whole trace.
    pub instances: Option<u64>,
    /// Largest total first.
    pub kernels: Vec<KernelTimes>,
    /// The time of all of them.
    pub total_ns: i128,
}

/// A kernel and its time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelTimes {
    /// Its demangled name.
    pub name: String,
    /// A name that fits in a table.
    pub short: String,
    /// The kind of work.
    pub class: KernelClass,
    /// Its durations.
    pub times: Times,
    /// The share of the time of all kernels.
    pub share: f64,
}

/// The kernels of `scope`, largest total first.
///
/// # Errors
/// [`Error::NoKernels`] when none were recorded or its ranges launched none, [`Error::NoWork`] when
/// these launched nothing at all; when the trace has no table of kernels, or no range of its name.
pub fn kernels(trace: &Trace, scope: &Scope, classifier: &Classifier) -> Result<Kernels, Error> {
    let scoped = scope.times(trace)?;
    let whole = scoped.whole;
    if whole.kernels.is_empty() {
        let within = whole.instances.map(|_| format!("`{}`", scoped.scope));
        return Err(Error::NoKernels { path: trace.path().to_owned(), within });
    }
    let places = scoped.places.into_iter().map(|(place, part)| {
        let instances = part.instances;
        let (kernels, total_ns) = classified(part.kernels, classifier);
        PlaceKernels { place, instances, kernels, total_ns }
    });
    let places = places.collect();
    let (kernels, total_ns) = classified(whole.kernels, classifier);
    Ok(Kernels {
        scope: scoped.scope,
        instances: whole.instances,
        attribution: scoped.attribution,
        rule: scoped.rule,
        unlaunched: scoped.unlaunched,
        kernels,
        total_ns,
        places,
    })
}

/// Kernels with their classes and shares, and the time of all of them.
fn classified(kernels: Vec<(Arc<str>, Summary)>, classifier: &Classifier) -> (Vec<KernelTimes>, i128) {
    let total_ns: i128 = kernels.iter().map(|(_, times)| times.total).sum();
    let kernels = kernels.into_iter().map(|(name, times)| {
        let info = classifier.get(&name);
        KernelTimes {
            name: name.to_string(),
            short: info.short.clone(),
            class: info.class,
            times: times.into(),
            share: share(times.total, total_ns).unwrap_or_default(),
        }
    });
    (kernels.collect(), total_ns)
}

impl Kernels {
    /// How far the places are apart in the time of a kernel, or of all; `None` for fewer than two.
    /// Places where it did not run count with nothing.
    pub fn spread(&self, name: Option<&str>) -> Option<Spread> {
        Spread::of(self.places.iter().map(|own| {
            let total = match name {
                None => own.total_ns,
                Some(name) => {
                    let found = own.kernels.iter().find(|kernel| kernel.name == name);
                    found.map_or(0, |kernel| kernel.times.total_ns)
                }
            };
            (own.place, total as f64)
        }))
    }

    /// How far the places are apart in the time of all kernels, in a sentence.
    pub fn spread_sentence(&self) -> Option<String> {
        Some(format!("Of the time of all kernels, {}.", self.spread(None)?.in_words()))
    }

    /// The kernel with the most time, in a sentence.
    pub fn sentence(&self) -> Option<String> {
        let top = self.kernels.first()?;
        let mut text = format!(
            "The kernel with the most cumulative GPU time is {}: {} of {} ({}), invoked {} times",
            top.short,
            in_words(top.times.total_ns as f64),
            in_words(self.total_ns as f64),
            percent(top.share),
            top.times.count
        );
        if !self.places.is_empty() {
            let _ = write!(text, " in all {} places", self.places.len());
        }
        if let Some(instances) = self.instances.filter(|instances| *instances > 1) {
            let _ = write!(
                text,
                " ({} in each of {instances} `{}`)",
                each(top.times.count, instances),
                self.scope
            );
        }
        text.push('.');
        Some(text)
    }

    /// How much of the time of all kernels these are, in a sentence, for kernels from which some
    /// were taken away.
    pub fn sum_sentence(&self) -> String {
        let total: i128 = self.kernels.iter().map(|kernel| kernel.times.total_ns).sum();
        format!(
            "These kernels take {} of the {} of all ({}).",
            in_words(total as f64),
            in_words(self.total_ns as f64),
            percent(share(total, self.total_ns).unwrap_or_default())
        )
    }
}

/// A count for each instance: whole when it divides.
fn each(count: u64, instances: u64) -> String {
    if count.is_multiple_of(instances) {
        (count / instances).to_string()
    } else {
        format!("{:.1}", count as f64 / instances as f64)
    }
}

/// A kernel in two traces; absent where it did not run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// Its demangled name.
    pub name: String,
    /// A name that fits in a table.
    pub short: String,
    /// The kind of work.
    pub class: KernelClass,
    /// In the first trace.
    pub a: Option<KernelTimes>,
    /// In the second trace.
    pub b: Option<KernelTimes>,
}

/// The kernels of two traces side by side, matched by name: those of the first by time, then those
/// that only the second has.
pub fn side_by_side(a: &Kernels, b: &Kernels) -> Vec<Pair> {
    let mut others: BTreeMap<&str, &KernelTimes> =
        b.kernels.iter().map(|kernel| (kernel.name.as_str(), kernel)).collect();
    let pair = |kernel: &KernelTimes, a: Option<&KernelTimes>, b: Option<&KernelTimes>| Pair {
        name: kernel.name.clone(),
        short: kernel.short.clone(),
        class: kernel.class,
        a: a.cloned(),
        b: b.cloned(),
    };
    let mut pairs: Vec<Pair> = a
        .kernels
        .iter()
        .map(|kernel| pair(kernel, Some(kernel), others.remove(kernel.name.as_str())))
        .collect();
    let only = b.kernels.iter().filter(|kernel| others.contains_key(kernel.name.as_str()));
    pairs.extend(only.map(|kernel| pair(kernel, None, Some(kernel))));
    pairs
}

/// Whether the kernel with the most time is the same in both, in a sentence.
pub fn same_top(a: &Kernels, b: &Kernels) -> Option<String> {
    let (one, other) = (a.kernels.first()?, b.kernels.first()?);
    if one.name == other.name {
        return Some(format!("It is the same kernel in both: {}.", one.short));
    }
    let place = b.kernels.iter().position(|kernel| kernel.name == one.name);
    let place =
        place.map_or_else(|| "did not run".to_owned(), |place| format!("comes in place {}", place + 1));
    Some(format!("It is not the same kernel: {} in A, {} in B, where A's {place}.", one.short, other.short))
}
