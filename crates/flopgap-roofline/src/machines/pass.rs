//! A pass through a language model: the sum of its kernels, with an interval.

use std::collections::{BTreeMap, BTreeSet};

use flopgap_graph::language::{Launch, Part};

use super::{Basis, Bound, Class, Machine};

/// The time of kernels that run one after the other.
#[derive(Debug, Clone, PartialEq)]
pub struct PassEstimate {
    /// Nanoseconds.
    pub nanoseconds: f64,
    /// Lower bound of the interval of 90 %.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
    /// Floating-point operations.
    pub flops: u64,
    /// Kernels.
    pub launches: u64,
    /// What they belong to, the longest first.
    pub parts: Vec<PartEstimate>,
}

/// The kernels of a part of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct PartEstimate {
    /// The part.
    pub part: Part,
    /// Nanoseconds.
    pub nanoseconds: f64,
    /// Lower bound of the interval of 90 %.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
    /// What bounds most of its time.
    pub bound: Bound,
    /// What its times come from.
    pub basis: BTreeSet<Basis>,
}

/// The sum of times with intervals. Errors of one group are shared by all its times, as equal
/// kernels have equal errors; those of different groups are independent.
///
/// ```
/// use flopgap_roofline::machines::sum;
///
/// let [time, low, high] = sum([("a", [10.0, 7.0, 14.0]), ("a", [10.0, 7.0, 14.0]), ("b", [5.0, 5.0, 11.0])]);
/// assert_eq!([time, low, high], [25.0, 19.0, 35.0]);
/// ```
pub fn sum<Group: Ord>(times: impl IntoIterator<Item = (Group, [f64; 3])>) -> [f64; 3] {
    let mut groups: BTreeMap<Group, [f64; 2]> = BTreeMap::new();
    let mut total = 0.0;
    for (group, [time, low, high]) in times {
        total += time;
        let widths = groups.entry(group).or_default();
        widths[0] += time - low;
        widths[1] += high - time;
    }
    let width = |side: usize| groups.values().map(|widths| widths[side].powi(2)).sum::<f64>().sqrt();
    [total, total - width(0), total + width(1)]
}

impl Machine {
    /// The time of a pass: its kernels one after the other, as in a CUDA graph.
    ///
    /// # Errors
    /// The classes that this machine cannot run.
    pub fn pass(&self, launches: &[Launch]) -> Result<PassEstimate, Vec<Class>> {
        let mut missing = BTreeSet::new();
        let mut found = Vec::new();
        for launch in launches {
            let class = Class::of(&launch.kernel);
            match (self.estimate(&launch.kernel), class) {
                (Some(estimate), _) => {
                    let count = launch.count as f64;
                    let times = [estimate.nanoseconds, estimate.low, estimate.high].map(|time| count * time);
                    found.push((launch.part, class, estimate, times));
                }
                (None, Some(class)) => {
                    missing.insert(class);
                }
                (None, None) => {}
            }
        }
        if !missing.is_empty() {
            return Err(missing.into_iter().collect());
        }
        let group = |part: Part, class: Option<Class>| (class, class.is_none().then_some(part));
        let [nanoseconds, low, high] =
            sum(found.iter().map(|(part, class, _, times)| (group(*part, *class), *times)));
        let names: BTreeSet<Part> = found.iter().map(|(part, ..)| *part).collect();
        let mut parts: Vec<PartEstimate> = names
            .into_iter()
            .map(|name| {
                let of: Vec<_> = found.iter().filter(|(part, ..)| *part == name).collect();
                let [nanoseconds, low, high] = sum(of.iter().map(|(_, class, _, times)| (*class, *times)));
                let time = |bound: Bound| -> f64 {
                    of.iter()
                        .filter(|(.., estimate, _)| estimate.bound == bound)
                        .map(|(.., times)| times[0])
                        .sum()
                };
                let bounds = [Bound::Compute, Bound::Memory, Bound::Launch];
                let bound = bounds.into_iter().max_by(|a, b| time(*a).total_cmp(&time(*b)));
                let bound = bound.unwrap_or(Bound::Launch);
                let basis = of.iter().map(|(.., estimate, _)| estimate.basis).collect();
                PartEstimate { part: name, nanoseconds, low, high, bound, basis }
            })
            .collect();
        parts.sort_by(|a, b| b.nanoseconds.total_cmp(&a.nanoseconds));
        let flops = launches.iter().map(|launch| launch.count.saturating_mul(launch.kernel.flops()));
        Ok(PassEstimate {
            nanoseconds,
            low,
            high,
            flops: flops.fold(0, u64::saturating_add),
            launches: launches.iter().map(|launch| launch.count).sum(),
            parts,
        })
    }
}
