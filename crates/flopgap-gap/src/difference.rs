//! Two traces taken apart, against each other.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Cause, FoundBy, Gap, Limit, Part};

/// How a mean step of one trace differs from that of another, by cause: in nanoseconds that add up
/// to the difference exactly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// The folded names of the steps, before and after.
    pub steps: [String; 2],
    /// Whether these are whole recordings, in which no steps were found.
    pub whole: bool,
    /// A mean step before, with the time until the next: the sum over the causes.
    pub before_ns: i64,
    /// One after.
    pub after_ns: i64,
    /// By how much it became longer: the sum over the causes.
    pub difference_ns: i64,
    /// What it consists of, largest difference first.
    pub causes: Vec<CauseDifference>,
}

/// The difference in one cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CauseDifference {
    /// Busy, exposed or idle.
    pub part: Part,
    /// On what.
    pub cause: Cause,
    /// The group of the cause.
    pub limit: Limit,
    /// Of a mean step before: the sum over the details.
    pub before_ns: i64,
    /// Of one after.
    pub after_ns: i64,
    /// After minus before.
    pub difference_ns: i64,
    /// What it consists of, largest difference first.
    pub details: Vec<DetailDifference>,
}

/// The difference in one detail of a cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DetailDifference {
    /// The kernel, copy or call; absent where none was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub what: Option<String>,
    /// The operator, module or range around its launch, with numbers folded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Of a mean step before.
    pub before_ns: i64,
    /// Of one after.
    pub after_ns: i64,
    /// After minus before.
    pub difference_ns: i64,
}

/// A detail: its cause, what it is, and what is around it.
type Key = (Cause, Option<String>, Option<String>);

impl Difference {
    /// The difference of two traces; nothing where steps were found in only one of them, as a step
    /// and a whole recording do not compare.
    pub fn of(before: &Gap, after: &Gap) -> Option<Difference> {
        let whole = before.found_by == FoundBy::None;
        if whole != (after.found_by == FoundBy::None) {
            return None;
        }
        let [means_before, means_after] = [means(before), means(after)];
        let mut both: BTreeMap<Key, [i64; 2]> = BTreeMap::new();
        for (at, means) in [means_before, means_after].into_iter().enumerate() {
            for (key, ns) in means {
                both.entry(key).or_default()[at] += ns;
            }
        }
        let mut causes: BTreeMap<Cause, Vec<DetailDifference>> = BTreeMap::new();
        for ((cause, what, by), [before_ns, after_ns]) in both {
            let difference_ns = after_ns - before_ns;
            let detail = DetailDifference { what, by, before_ns, after_ns, difference_ns };
            causes.entry(cause).or_default().push(detail);
        }
        let mut causes: Vec<CauseDifference> = causes.into_iter().map(cause).collect();
        causes.sort_by_key(|own| (Reverse(own.difference_ns.abs()), own.cause));
        let sum = |of: fn(&CauseDifference) -> i64| causes.iter().map(of).sum();
        Some(Difference {
            steps: [before.step.clone(), after.step.clone()],
            whole,
            before_ns: sum(|own| own.before_ns),
            after_ns: sum(|own| own.after_ns),
            difference_ns: sum(|own| own.difference_ns),
            causes,
        })
    }
}

fn cause((cause, mut details): (Cause, Vec<DetailDifference>)) -> CauseDifference {
    // Of equal ones the order of their names stays.
    details.sort_by_key(|detail| Reverse(detail.difference_ns.abs()));
    let sum = |of: fn(&DetailDifference) -> i64| details.iter().map(of).sum();
    CauseDifference {
        part: cause.part(),
        cause,
        limit: cause.limit(),
        before_ns: sum(|detail| detail.before_ns),
        after_ns: sum(|detail| detail.after_ns),
        difference_ns: sum(|detail| detail.difference_ns),
        details,
    }
}

/// The details of a mean step. Sums over the steps are divided so that no nanosecond is lost: each
/// is what it adds to the rounded mean of all before it, so they add up to the mean of all.
fn means(found: &Gap) -> Vec<(Key, i64)> {
    let steps = i128::from(found.measured.max(1));
    let mut until = 0;
    let mut mean = |ns: i64| {
        let before = until / steps;
        until += i128::from(ns);
        // The mean of what 64 bits hold.
        i64::try_from(until / steps - before).unwrap_or(i64::MAX)
    };
    let mut all = Vec::new();
    for part in &found.parts {
        for detail in &part.details {
            let key = (part.cause, detail.what.clone(), detail.by.clone());
            all.push((key, mean(detail.ns)));
        }
        // What no detail is about: nothing, where details are complete.
        let rest = part.ns - part.details.iter().map(|detail| detail.ns).sum::<i64>();
        if rest != 0 {
            all.push(((part.cause, None, None), mean(rest)));
        }
    }
    all
}
