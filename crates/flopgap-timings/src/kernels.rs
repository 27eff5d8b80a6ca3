//! The kernels of a trace or a range, alone or of two traces side by side.

use std::collections::BTreeMap;
use std::sync::Arc;

use flopgap_kernels::{Classifier, KernelClass};
use flopgap_trace::{AttributeBy, Recording, Summary, Unlaunched};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::place::{Place, Spread};
use crate::scope::Scope;
use crate::selection::Selection;
use crate::times::{Times, share};

/// The kernels of a scope.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kernels {
    /// What was examined: `all`, or ranges such as `forward`.
    pub scope: String,
    /// How many instances of the ranges; absent for a whole trace.
    pub instances: Option<u64>,
    /// Whose ranges own kernels; absent for a whole trace.
    pub attribution: Option<AttributeBy>,
    /// Which instances were left out; absent for a whole trace.
    pub selection: Option<Selection>,
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
pub fn kernels(trace: &dyn Recording, scope: &Scope, classifier: &Classifier) -> Result<Kernels, Error> {
    let scoped = scope.times(trace)?;
    let whole = scoped.whole;
    if whole.kernels.is_empty() {
        let within = whole.instances.map(|_| scoped.scope);
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
        selection: scoped.selection,
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
    /// How far the places are apart in the time of a kernel, or of all that do not communicate;
    /// `None` for fewer than two.
    /// Places where it did not run count with nothing.
    pub fn spread(&self, name: Option<&str>) -> Option<Spread> {
        let communicates = |kernel: &KernelTimes| kernel.class == KernelClass::Communication;
        let is_communication =
            name.is_some_and(|name| self.kernels.iter().any(|own| own.name == name && communicates(own)));
        let spread = Spread::of(self.places.iter().map(|own| {
            let total = match name {
                None => {
                    let computing = own.kernels.iter().filter(|kernel| !communicates(kernel));
                    computing.map(|kernel| kernel.times.total_ns).sum()
                }
                Some(name) => {
                    let found = own.kernels.iter().find(|kernel| kernel.name == name);
                    found.map_or(0, |kernel| kernel.times.total_ns)
                }
            };
            (own.place, total as f64)
        }))?;
        // Who waits for others in a kernel that communicates is not slow.
        Some(Spread { is_distinct: spread.is_distinct && !is_communication, ..spread })
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

/// The kernels with the most time of two traces.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tops<'a> {
    /// Of the first trace.
    pub a: &'a KernelTimes,
    /// Of the second trace.
    pub b: &'a KernelTimes,
    /// Where the first trace's kernel stands in the second, 1 being the first place; absent where
    /// it did not run there.
    pub place_in_b: Option<usize>,
}

impl Tops<'_> {
    /// Whether the same kernel takes the most time in both.
    pub fn are_same(&self) -> bool {
        self.place_in_b == Some(1)
    }
}

/// The kernels with the most time of two traces; nothing where either has no kernels.
pub fn tops<'a>(a: &'a Kernels, b: &'a Kernels) -> Option<Tops<'a>> {
    let (one, other) = (a.kernels.first()?, b.kernels.first()?);
    let place = b.kernels.iter().position(|kernel| kernel.name == one.name);
    Some(Tops { a: one, b: other, place_in_b: place.map(|place| place + 1) })
}
