//! Missing information in a report, with its position.

use std::collections::BTreeMap;
use std::fmt;

use flopgap_ncu::{LaunchView, Layout, Unknown};

/// The position of a launch in its report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The line of a CSV, from 1.
    Line(u64),
    /// The launch of an `.ncu-rep`, by ncu's id.
    Launch(u64),
}

impl Place {
    pub(crate) fn of(launch: LaunchView<'_>) -> Place {
        match launch.layout {
            Layout::Report => Place::Launch(launch.position),
            _ => Place::Line(launch.position),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line(line) => write!(f, "line {line}"),
            Place::Launch(id) => write!(f, "launch {id}"),
        }
    }
}

/// Launches that lack a quantity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// How many.
    pub launches: u64,
    /// Their kernels, by display name, with the launches of each.
    pub kernels: BTreeMap<String, u64>,
    /// Where the first of them is.
    pub first: Place,
}

impl Missing {
    /// Counts `launches` launches of a kernel at `place` to those that lack something.
    pub(crate) fn add(known: &mut Option<Missing>, kernel: &str, launches: u64, place: Place) {
        let missing =
            known.get_or_insert_with(|| Missing { launches: 0, kernels: BTreeMap::new(), first: place });
        missing.launches += launches;
        match missing.kernels.get_mut(kernel) {
            Some(count) => *count += launches,
            None => drop(missing.kernels.insert(kernel.to_owned(), launches)),
        }
    }

    /// Adds the launches of `more` to these.
    pub fn merge(&mut self, more: &Missing) {
        self.launches += more.launches;
        for (kernel, launches) in &more.kernels {
            *self.kernels.entry(kernel.clone()).or_default() += launches;
        }
        self.first = self.first.min(more.first);
    }

    /// The kernels as text, the most launched first: `f (20 launches), g and 3 more kernels, first
    /// in line 7`.
    pub fn describe(&self) -> String {
        const SHOWN: usize = 2;
        let mut kernels: Vec<(&String, &u64)> = self.kernels.iter().collect();
        kernels.sort_by_key(|&(name, launches)| (std::cmp::Reverse(launches), name));
        let named = |&(name, launches): &(&String, &u64)| match launches {
            1 => format!("`{name}`"),
            launches => format!("`{name}` ({launches} launches)"),
        };
        let text = kernels.iter().take(SHOWN).map(named).collect::<Vec<_>>().join(", ");
        let more = match kernels.len().saturating_sub(SHOWN) {
            0 => String::new(),
            1 => " and 1 more kernel".to_owned(),
            more => format!(" and {more} more kernels"),
        };
        let first = if self.launches > 1 { "the first in" } else { "in" };
        format!("{text}{more}, {first} {}", self.first)
    }
}

/// Finds the launches that lack a quantity which others have. While none has it, nothing is kept:
/// most reports lack most.
#[derive(Debug, Default)]
pub(crate) struct Lacking {
    /// Where the first launch without it is, before any launch had it.
    before: Option<Place>,
    measured: bool,
    missing: Option<Missing>,
}

impl Lacking {
    /// Notes launches of `kernel` at `place`. `earlier`: all kernels so far, without these
    /// launches.
    pub(crate) fn note<'a, E: Iterator<Item = (&'a str, u64)>>(
        &mut self,
        has_it: bool,
        (kernel, launches): (&str, u64),
        place: Place,
        earlier: impl FnOnce() -> E,
    ) {
        match (has_it, self.measured) {
            (true, true) => {}
            (true, false) => {
                self.measured = true;
                if let Some(first) = self.before {
                    for (kernel, launches) in earlier().filter(|&(_, launches)| launches > 0) {
                        Missing::add(&mut self.missing, kernel, launches, first);
                    }
                }
            }
            (false, true) => Missing::add(&mut self.missing, kernel, launches, place),
            (false, false) => drop(self.before.get_or_insert(place)),
        }
    }

    /// The launches that lack it, if some have it.
    pub(crate) fn of_some(self) -> Option<Missing> {
        self.missing
    }
}

/// Launches whose FLOPs are not known, for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingCounters {
    /// The reason.
    pub reason: Unknown,
    /// The launches.
    pub missing: Missing,
    /// The counters to record so that they are known; empty where recording again does not help.
    pub counters: Vec<String>,
}
