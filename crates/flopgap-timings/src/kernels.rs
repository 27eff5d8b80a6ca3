//! The kernels of a trace or a range, alone or of two traces side by side.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use flopgap_kernels::{Classifier, KernelClass};
use flopgap_nsys::Trace;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::scope::Scope;
use crate::times::{Times, in_words, percent, share};

/// The kernels of a scope.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kernels {
    /// What was looked at: `all`, or ranges such as `forward`.
    pub scope: String,
    /// How many instances of the ranges; absent for a whole trace.
    pub instances: Option<u64>,
    /// How kernels found their range, in a sentence; absent for a whole trace.
    pub attribution: Option<String>,
    /// Which instances were left out, in a sentence; absent for a whole trace.
    pub rule: Option<String>,
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
/// [`Error::NoKernels`] when none were recorded or its ranges launched none, [`Error::NoWork`] when these launched nothing at all; when the
/// trace has no table of kernels, or no range of its name.
pub fn kernels(trace: &Trace, scope: &Scope, classifier: &Classifier) -> Result<Kernels, Error> {
    let scoped = scope.times(trace)?;
    if scoped.kernels.is_empty() {
        let within = scoped.instances.map(|_| format!("`{}`", scoped.scope));
        return Err(Error::NoKernels { path: trace.path().to_owned(), within });
    }
    let total_ns: i128 = scoped.kernels.iter().map(|(_, times)| times.total).sum();
    let kernels = scoped.kernels.into_iter().map(|(name, times)| {
        let info = classifier.get(&name);
        KernelTimes {
            name: name.to_string(),
            short: info.short.clone(),
            class: info.class,
            times: times.into(),
            share: share(times.total, total_ns).unwrap_or_default(),
        }
    });
    Ok(Kernels {
        scope: scoped.scope,
        instances: scoped.instances,
        attribution: scoped.attribution,
        rule: scoped.rule,
        kernels: kernels.collect(),
        total_ns,
    })
}

impl Kernels {
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

    /// How much of the time of all kernels these are, in a sentence, for kernels from which some were taken away.
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

/// The kernels of two traces side by side, matched by name: those of the first by time, then those that only the second has.
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
