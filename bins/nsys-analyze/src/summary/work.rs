//! All that ran on the GPUs, by device and time.

use std::collections::BTreeMap;

use flopgap_cli::Failure;
use flopgap_kernels::{Classifier, KernelClass};
use flopgap_nsys::{Error, Placement, Trace};
use flopgap_report::chart::Colour;
use flopgap_timings::shares::Work;

use crate::failure;

/// The colour of a kind of work, the same on every page.
pub(super) fn colour(work: Work) -> Colour {
    match work {
        Work::Kernels(KernelClass::Other) => Colour::NEUTRAL,
        Work::Kernels(class) => {
            KernelClass::ALL.iter().position(|known| *known == class).map_or(Colour::NEUTRAL, Colour::nth)
        }
        Work::Memcpy => Colour::nth(14),
        Work::Memset => Colour::nth(15),
    }
}

/// What ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    /// A kernel, by the id of its name.
    Kernel(i64),
    Copy,
    Set,
    /// A CUDA graph whose kernels and copies were not recorded one by one.
    Graph,
}

/// A stream of a process: its numbers, cut off beyond 32 bits, which the millions of operations need not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stream {
    pub(super) process: u32,
    pub(super) stream: i32,
}

/// A kernel, copy, set or graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Operation {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) what: What,
    pub(super) stream: Stream,
}

/// The operations of each device, by start.
pub(super) type Devices = BTreeMap<i64, Vec<Operation>>;

/// A stretch in which a device did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) device: i64,
    /// What ended before it, and what began after it.
    pub(super) before: Operation,
    pub(super) after: Operation,
}

impl Gap {
    pub(super) fn length(&self) -> i64 {
        self.after.start.saturating_sub(self.before.end)
    }
}

/// Reads all operations.
pub(super) fn read(trace: &Trace) -> Result<Devices, Failure> {
    let mut devices = Devices::new();
    let mut add = |at: Placement, what: What| {
        if at.end >= at.start {
            let process = at.process.map_or(0, |process| u32::try_from(process.pid()).unwrap_or_default());
            let stream = Stream { process, stream: i32::try_from(at.stream).unwrap_or(i32::MAX) };
            let operation = Operation { start: at.start, end: at.end, what, stream };
            devices.entry(at.device).or_default().push(operation);
        }
    };
    present(trace.kernels(|kernel| add(kernel.at, What::Kernel(kernel.demangled))))?;
    present(trace.copies(|copy| add(copy.at, What::Copy)))?;
    present(trace.sets(|set| add(set.at, What::Set)))?;
    present(trace.graph_runs(|graph| add(graph.at, What::Graph)))?;
    for operations in devices.values_mut() {
        operations.sort_unstable_by_key(|operation| (operation.start, operation.end));
    }
    Ok(devices)
}

fn present(read: Result<(), Error>) -> Result<(), Failure> {
    match read {
        Err(error) if !error.is_absence() => Err(failure(&error)),
        _ => Ok(()),
    }
}

/// The longest stretches in which a device did nothing, longest first.
pub(super) fn gaps(devices: &Devices, count: usize) -> Vec<Gap> {
    let mut gaps = Vec::new();
    for (&device, operations) in devices {
        let Some(mut before) = operations.first().copied() else { continue };
        for &after in operations {
            if after.start > before.end {
                gaps.push(Gap { device, before, after });
            }
            if after.end > before.end {
                before = after;
            }
        }
    }
    gaps.sort_by_key(|gap| (std::cmp::Reverse(gap.length()), gap.device, gap.before.end));
    gaps.truncate(count);
    gaps
}

/// Names and kinds of operations, each name looked up once.
pub(super) struct Names<'a> {
    trace: &'a Trace,
    classifier: &'a Classifier,
    known: BTreeMap<i64, (String, Work)>,
}

impl<'a> Names<'a> {
    pub(super) fn new(trace: &'a Trace, classifier: &'a Classifier) -> Names<'a> {
        Names { trace, classifier, known: BTreeMap::new() }
    }

    /// A short name, and the kind of work.
    pub(super) fn of(&mut self, operation: Operation) -> Result<(String, Work), Failure> {
        let id = match operation.what {
            What::Kernel(id) => id,
            What::Copy => return Ok(("memcpy".to_owned(), Work::Memcpy)),
            What::Set => return Ok(("memset".to_owned(), Work::Memset)),
            What::Graph => return Ok(("CUDA graph".to_owned(), Work::Kernels(KernelClass::Other))),
        };
        if let Some(known) = self.known.get(&id) {
            return Ok(known.clone());
        }
        let name = self.trace.string(id).map_err(|error| failure(&error))?;
        let found = match name {
            Some(name) => {
                let info = self.classifier.get(&name);
                (info.short.clone(), Work::Kernels(info.class))
            }
            None => (format!("[unknown string {id}]"), Work::Kernels(KernelClass::Other)),
        };
        self.known.insert(id, found.clone());
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(start: i64, end: i64) -> Operation {
        Operation { start, end, what: What::Set, stream: Stream { process: 0, stream: 7 } }
    }

    #[test]
    fn a_gap_is_where_nothing_at_all_runs() {
        let work =
            vec![operation(0, 10), operation(5, 30), operation(12, 20), operation(40, 50), operation(51, 52)];
        let found = gaps(&[(0, work)].into(), 5);
        let ends: Vec<(i64, i64)> = found.iter().map(|gap| (gap.before.end, gap.after.start)).collect();
        assert_eq!(ends, [(30, 40), (50, 51)]);
        assert_eq!(gaps(&[(0, vec![operation(0, 1)])].into(), 5), []);
    }
}
