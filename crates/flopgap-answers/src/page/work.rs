//! All that ran on the GPUs, by device and time.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use flopgap_files::present;
use flopgap_kernels::{Classifier, KernelClass};
use flopgap_report::chart::Color;
use flopgap_timings::shares::Work as Kind;
use flopgap_timings::{Gpus, Place};
use flopgap_trace::{DeviceId, ProcessId, Recording, Work, WorkKind};

use crate::error::Error;

/// The color of a kind of work, the same on every page.
pub(crate) fn color(work: Kind) -> Color {
    match work {
        Kind::Kernels(KernelClass::Other) => Color::NEUTRAL,
        Kind::Kernels(class) => {
            KernelClass::ALL.iter().position(|known| *known == class).map_or(Color::NEUTRAL, Color::nth)
        }
        Kind::Memcpy => Color::nth(14),
        Kind::Memset => Color::nth(15),
    }
}

/// What ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
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
pub(crate) struct Stream {
    pub(crate) process: u32,
    pub(crate) stream: i32,
}

/// A kernel, copy, set or graph, in 24 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    pub(crate) start: i64,
    pub(crate) end: i64,
    what: u32,
    stream: u32,
}

/// What ran on each device.
#[derive(Debug, Default)]
pub(crate) struct Devices {
    /// The operations of each GPU of the machine, by start.
    pub(crate) operations: BTreeMap<Place, Vec<Operation>>,
    whats: Places<What>,
    streams: Places<Stream>,
    /// What kernels are called.
    names: BTreeMap<i64, Arc<str>>,
}

impl Devices {
    pub(crate) fn what(&self, operation: Operation) -> What {
        self.whats.all[operation.what as usize]
    }

    pub(crate) fn stream(&self, operation: Operation) -> Stream {
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

/// An interval in which a device did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) gpu: Place,
    pub(crate) start: i64,
    pub(crate) end: i64,
    /// What ended before it, and what began after it.
    pub(crate) before: What,
    pub(crate) after: What,
}

impl Gap {
    pub(crate) fn length(&self) -> i64 {
        self.end.saturating_sub(self.start)
    }
}

/// Reads all operations, or those of an interval of time.
pub(crate) fn read(trace: &dyn Recording, window: Option<&Range<i64>>) -> Result<Devices, Error> {
    let mut devices = Devices::default();
    let mut of_processes: BTreeMap<(Option<ProcessId>, DeviceId), Vec<Operation>> = BTreeMap::new();
    let read = trace.each_operation(true, &mut |operation| {
        let Work { start, end, device, process, kind, .. } = operation.work;
        let within = window.is_none_or(|window| start < window.end && end > window.start);
        if end >= start && within {
            let pid = process.map_or(0, |process| u32::try_from(process.pid()).unwrap_or_default());
            let stream =
                Stream { process: pid, stream: i32::try_from(operation.stream.0).unwrap_or(i32::MAX) };
            let what = match kind {
                WorkKind::Kernel => What::Kernel(operation.name_id),
                WorkKind::Copy => What::Copy,
                WorkKind::Set => What::Set,
                WorkKind::Graph => What::Graph,
            };
            if devices.whats.last.is_none_or(|(last, _)| last != what) && kind == WorkKind::Kernel {
                devices.names.entry(operation.name_id).or_insert_with(|| operation.name.into());
            }
            let (what, stream) = (devices.whats.number(what), devices.streams.number(stream));
            let operation = Operation { start, end, what, stream };
            of_processes.entry((process, device)).or_default().push(operation);
        }
    });
    present(read)?;
    let gpus = Gpus::read(trace)?;
    let gpus = gpus.with_processes(of_processes.keys().map(|(process, _)| *process));
    for ((process, device), mut operations) in of_processes {
        devices.operations.entry(gpus.gpu(process, device)).or_default().append(&mut operations);
    }
    for operations in devices.operations.values_mut() {
        operations.sort_unstable_by_key(|operation| (operation.start, operation.end));
    }
    Ok(devices)
}

/// The longest intervals in which a device did nothing, longest first.
pub(crate) fn gaps(devices: &Devices, count: usize) -> Vec<Gap> {
    let mut gaps = Vec::new();
    for (&gpu, operations) in &devices.operations {
        let Some(mut before) = operations.first().copied() else { continue };
        for &after in operations {
            if after.start > before.end {
                let (start, end) = (before.end, after.start);
                gaps.push(Gap { gpu, start, end, before: devices.what(before), after: devices.what(after) });
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
    gaps.sort_by_key(|gap| (std::cmp::Reverse(gap.length()), gap.gpu, gap.start));
    gaps.truncate(count);
}

/// An interval in which a device did nothing, with the names of what ran around it.
#[derive(Clone, Debug)]
pub(crate) struct Described {
    pub(crate) gap: Gap,
    pub(crate) before: String,
    pub(crate) after: String,
}

/// Intervals with the names of what ran around them.
pub(crate) fn described(gaps: &[Gap], names: &Names<'_>) -> Vec<Described> {
    let of = |gap: &Gap| Described {
        gap: *gap,
        before: names.describe(gap.before).0,
        after: names.describe(gap.after).0,
    };
    gaps.iter().map(of).collect()
}

/// Short names and kinds of operations.
pub(crate) struct Names<'a> {
    devices: &'a Devices,
    classifier: &'a Classifier,
}

impl<'a> Names<'a> {
    pub(crate) fn new(devices: &'a Devices, classifier: &'a Classifier) -> Names<'a> {
        Names { devices, classifier }
    }

    /// A short name, and the kind of work.
    pub(crate) fn describe(&self, what: What) -> (String, Kind) {
        let id = match what {
            What::Kernel(id) => id,
            What::Copy => return ("memcpy".to_owned(), Kind::Memcpy),
            What::Set => return ("memset".to_owned(), Kind::Memset),
            What::Graph => return ("CUDA graph".to_owned(), Kind::Kernels(KernelClass::Other)),
        };
        match self.devices.names.get(&id) {
            Some(name) => {
                let info = self.classifier.get(name);
                (info.short.clone(), Kind::Kernels(info.class))
            }
            None => (format!("[unknown string {id}]"), Kind::Kernels(KernelClass::Other)),
        }
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
        let gpu = Place { rank: None, process: None, gpu: None };
        devices.operations.insert(gpu, operations.collect());
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
