//! All that ran on the GPUs, by device and time.

use std::collections::BTreeMap;
use std::ops::Range;

use flopgap_cli::Failure;
use flopgap_hint::Hint as _;
use flopgap_kernels::{Classifier, KernelClass};
use flopgap_nsys::{Error, Placement, RowsOf, Trace};
use flopgap_report::chart::Color;
use flopgap_timings::shares::Work;

use crate::failure;

/// The color of a kind of work, the same on every page.
pub(super) fn color(work: Work) -> Color {
    match work {
        Work::Kernels(KernelClass::Other) => Color::NEUTRAL,
        Work::Kernels(class) => {
            KernelClass::ALL.iter().position(|known| *known == class).map_or(Color::NEUTRAL, Color::nth)
        }
        Work::Memcpy => Color::nth(14),
        Work::Memset => Color::nth(15),
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

/// A stream of a process: its numbers, cut off beyond 32 bits, which the millions of operations
/// need not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stream {
    pub(super) process: u32,
    pub(super) stream: i32,
}

/// A kernel, copy, set or graph, in 24 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Operation {
    pub(super) start: i64,
    pub(super) end: i64,
    what: u32,
    stream: u32,
}

/// What ran on each device.
#[derive(Debug, Default)]
pub(super) struct Devices {
    /// The operations of each device, by start.
    pub(super) operations: BTreeMap<i64, Vec<Operation>>,
    whats: Places<What>,
    streams: Places<Stream>,
}

impl Devices {
    pub(super) fn what(&self, operation: Operation) -> What {
        self.whats.all[operation.what as usize]
    }

    pub(super) fn stream(&self, operation: Operation) -> Stream {
        self.streams.all[operation.stream as usize]
    }
}

/// Different values, each with its place.
#[derive(Debug)]
struct Places<T> {
    all: Vec<T>,
    known: BTreeMap<T, u32>,
    last: Option<(T, u32)>,
}

impl<T> Default for Places<T> {
    fn default() -> Places<T> {
        Places { all: Vec::new(), known: BTreeMap::new(), last: None }
    }
}

impl<T: Copy + Ord> Places<T> {
    /// The place of a value, which is added when it is new.
    fn number(&mut self, value: T) -> u32 {
        if let Some((_, place)) = self.last.filter(|(last, _)| *last == value) {
            return place;
        }
        let all = &mut self.all;
        let place = *self.known.entry(value).or_insert_with(|| {
            all.push(value);
            u32::try_from(all.len() - 1).expect("fewer than 2^32 names and streams")
        });
        self.last = Some((value, place));
        place
    }
}

/// A interval in which a device did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) device: i64,
    pub(super) start: i64,
    pub(super) end: i64,
    /// What ended before it, and what began after it.
    pub(super) before: What,
    pub(super) after: What,
}

impl Gap {
    pub(super) fn length(&self) -> i64 {
        self.end.saturating_sub(self.start)
    }
}

/// Reads all operations, or those of a interval of time.
pub(super) fn read(trace: &Trace, window: Option<&Range<i64>>) -> Result<Devices, Failure> {
    let mut devices = Devices::default();
    let mut add = |at: Placement, what: What| {
        let within = window.is_none_or(|window| at.start < window.end && at.end > window.start);
        if at.end >= at.start && within {
            let process = at.process.map_or(0, |process| u32::try_from(process.pid()).unwrap_or_default());
            let stream = Stream { process, stream: i32::try_from(at.stream).unwrap_or(i32::MAX) };
            let (what, stream) = (devices.whats.number(what), devices.streams.number(stream));
            let operation = Operation { start: at.start, end: at.end, what, stream };
            devices.operations.entry(at.device).or_default().push(operation);
        }
    };
    present(trace.kernels(), |kernel| add(kernel.at, What::Kernel(kernel.demangled)))?;
    present(trace.copies(), |copy| add(copy.at, What::Copy))?;
    present(trace.memsets(), |set| add(set.at, What::Set))?;
    present(trace.graph_runs(), |graph| add(graph.at, What::Graph))?;
    for operations in devices.operations.values_mut() {
        operations.sort_unstable_by_key(|operation| (operation.start, operation.end));
    }
    Ok(devices)
}

/// Adds the rows of a table, if it was recorded.
fn present<T>(rows: Result<RowsOf<T>, Error>, mut add: impl FnMut(T)) -> Result<(), Failure> {
    match rows {
        Err(error) if error.is_absence() => Ok(()),
        rows => rows
            .and_then(|rows| rows.into_iter().try_for_each(|row| row.map(&mut add)))
            .map_err(|error| failure(&error)),
    }
}

/// The longest intervals in which a device did nothing, longest first.
pub(super) fn gaps(devices: &Devices, count: usize) -> Vec<Gap> {
    let mut gaps = Vec::new();
    for (&device, operations) in &devices.operations {
        let Some(mut before) = operations.first().copied() else { continue };
        for &after in operations {
            if after.start > before.end {
                let (start, end) = (before.end, after.start);
                gaps.push(Gap {
                    device,
                    start,
                    end,
                    before: devices.what(before),
                    after: devices.what(after),
                });
                if gaps.len() > 1000 + 2 * count {
                    longest(&mut gaps, count);
                }
            }
            if after.end > before.end {
                before = after;
            }
        }
    }
    longest(&mut gaps, count);
    gaps
}

fn longest(gaps: &mut Vec<Gap>, count: usize) {
    gaps.sort_by_key(|gap| (std::cmp::Reverse(gap.length()), gap.device, gap.start));
    gaps.truncate(count);
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
    pub(super) fn describe(&mut self, what: What) -> Result<(String, Work), Failure> {
        let id = match what {
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

    fn devices(spans: &[(i64, i64)]) -> Devices {
        let mut devices = Devices::default();
        let (what, stream) = (What::Set, Stream { process: 0, stream: 7 });
        let (what, stream) = (devices.whats.number(what), devices.streams.number(stream));
        let operations = spans.iter().map(|&(start, end)| Operation { start, end, what, stream });
        devices.operations.insert(0, operations.collect());
        devices
    }

    #[test]
    fn a_gap_is_where_nothing_at_all_runs() {
        let found = gaps(&devices(&[(0, 10), (5, 30), (12, 20), (40, 50), (51, 52)]), 5);
        let ends: Vec<(i64, i64)> = found.iter().map(|gap| (gap.start, gap.end)).collect();
        assert_eq!(ends, [(30, 40), (50, 51)]);
        assert_eq!(gaps(&devices(&[(0, 1)]), 5), []);
    }

    #[test]
    fn of_many_gaps_the_longest_are_kept() {
        let spans: Vec<(i64, i64)> = (0..10_000).map(|at| (at * 100, at * 100 + 90 - at % 77)).collect();
        let found = gaps(&devices(&spans), 3);
        let lengths: Vec<i64> = found.iter().map(Gap::length).collect();
        assert_eq!(lengths, [86, 86, 86]);
        assert_eq!(found[0].end, 77 * 100);
    }
}
