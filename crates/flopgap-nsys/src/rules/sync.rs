//! Calls that block the host.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::RuleOptions;
use crate::launches::{Launches, Work};
use crate::report::{Column, Columns, Sink, Value};
use crate::tables::gpu::{Kind, LaunchId, copies as all_copies, launch_ids, memsets};
use crate::tables::host::api_calls;
use crate::{ContextId, CopyKind, Error, MemoryCopy, MemoryKind, MemorySet, StringId, ThreadId, Trace};

static CALLS: Columns = Columns::new("Duration (ns),Start (ns),PID,TID,API Name");
static COPIES: Columns = Columns::new(
    "Duration (ns),Start (ns),Src Kind,Dst Kind,Bytes (MB),PID,Device ID,Context ID,\
     Green Context ID,Stream ID,API Name",
);
static SETS: Columns = Columns::new(
    "Duration (ns),Start (ns),Memory Kind,Bytes (MB),PID,Device ID,Context ID,Green Context ID,\
     Stream ID,API Name",
);

/// Up to this size a copy to the device returns before it is done.
const SMALL: i64 = 64_000;

/// Prefixes of calls that wait for a whole device or stream.
const WAITING: [&str; 2] = ["cudaDeviceSynchronize", "cudaStreamSynchronize"];

/// The names of calls, each looked up and tested once.
struct CallNames<'a> {
    trace: &'a Trace,
    /// The text, and the outcome of the test.
    known: FxHashMap<StringId, (Arc<str>, bool)>,
}

impl<'a> CallNames<'a> {
    fn new(trace: &'a Trace) -> CallNames<'a> {
        CallNames { trace, known: FxHashMap::default() }
    }

    /// A name, when it passes a test, which is the same each time.
    fn test(&mut self, id: StringId, test: impl FnOnce(&str) -> bool) -> Result<Option<&str>, Error> {
        let (name, passes) = match self.known.entry(id) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let name = self.trace.string_or_id(id)?;
                let passes = test(&name);
                place.insert((name, passes))
            }
        };
        Ok(passes.then_some(&**name))
    }

    fn get(&self, id: StringId) -> Result<Arc<str>, Error> {
        self.known.get(&id).map_or_else(|| self.trace.string_or_id(id), |(text, _)| Ok(text.clone()))
    }
}

/// The longest of some things, of equal ones those that came first; no more are held than twice as
/// many as are wanted.
struct Longest<T> {
    wanted: usize,
    /// Each with its length and how many came before it.
    held: Vec<(i64, u64, T)>,
    seen: u64,
}

impl<T> Longest<T> {
    fn new(wanted: usize) -> Longest<T> {
        Longest { wanted, held: Vec::new(), seen: 0 }
    }

    fn offer(&mut self, length: i64, thing: T) {
        if self.held.len() >= self.wanted.saturating_mul(2).max(1) {
            self.shrink();
        }
        self.held.push((length, self.seen, thing));
        self.seen += 1;
    }

    fn shrink(&mut self) {
        self.held.sort_unstable_by_key(|(length, place, _)| (Reverse(*length), *place));
        self.held.truncate(self.wanted);
    }

    fn sorted(mut self) -> impl Iterator<Item = (i64, T)> {
        self.shrink();
        self.held.into_iter().map(|(length, _, thing)| (length, thing))
    }
}

/// Whether a name begins with `prefix`, in any case, as SQL's LIKE compares.
fn begins_with(name: &str, prefix: &str) -> bool {
    name.get(..prefix.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(prefix))
}

/// Whether a name of an API call says that it does not wait.
fn is_async(name: &str) -> bool {
    name.to_ascii_lowercase().contains("async")
}

/// `cuda_api_sync`.
pub(super) fn waiting_calls(trace: &Trace, options: &RuleOptions, sink: &mut dyn Sink) -> Result<(), Error> {
    let mut names = CallNames::new(trace);
    let mut longest = Longest::new(options.limit());
    for call in api_calls(trace)? {
        let call = call?;
        let waits = names.test(call.name, |name| WAITING.iter().any(|waits| begins_with(name, waits)))?;
        if waits.is_some() {
            longest.offer(call.duration(), call);
        }
    }
    let mut rows = Vec::new();
    for (duration, call) in longest.sorted() {
        rows.push([
            duration.into(),
            call.start.into(),
            call.thread.map(ThreadId::pid).into(),
            call.thread.map(ThreadId::tid).into(),
            names.get(call.name)?.into(),
        ]);
    }
    write(trace, sink, &CALLS, &rows)
}

/// `cuda_memcpy_async`.
pub(super) fn pageable_copies(
    trace: &Trace,
    options: &RuleOptions,
    sink: &mut dyn Sink,
) -> Result<(), Error> {
    copies(trace, options, sink, |copy, name| {
        [copy.source, copy.destination].contains(&Some(MemoryKind::Pageable)) && is_async(name)
    })
}

/// `cuda_memcpy_sync`.
pub(super) fn waiting_copies(trace: &Trace, options: &RuleOptions, sink: &mut dyn Sink) -> Result<(), Error> {
    copies(trace, options, sink, |copy, name| {
        let small = copy.kind == CopyKind::HostToDevice && copy.bytes <= SMALL;
        // Exports name the devices only where they may differ. nsys means to leave all copies
        // within a device out, but then lists those that name none.
        let one_device = copy.source_device == copy.destination_device;
        let within = one_device && (copy.source_device.is_some() || copy.kind == CopyKind::DeviceToDevice);
        !is_async(name) && !small && !within
    })
}

fn copies(
    trace: &Trace,
    options: &RuleOptions,
    sink: &mut dyn Sink,
    found: impl Fn(&MemoryCopy, &str) -> bool,
) -> Result<(), Error> {
    let mut work = Work::default();
    for id in launch_ids(trace, Kind::Copy)? {
        let LaunchId { process, correlation } = id?;
        work.add(process, correlation);
    }
    let launches = Launches::of_work(&trace.unfiltered(), &work)?;
    let mut names = CallNames::new(trace);
    let mut longest = Longest::new(options.limit());
    for copy in all_copies(trace)? {
        let copy = copy?;
        let Some(call) = launches.find(copy.at.process, copy.at.correlation) else { continue };
        let name = names.test(call.name, |name| begins_with(name, "cudaMemcpy"))?;
        if name.is_some_and(|name| found(&copy, name)) {
            longest.offer(copy.at.duration(), copy);
        }
    }
    let mut rows = Vec::new();
    for (duration, copy) in longest.sorted() {
        let Some(call) = launches.find(copy.at.process, copy.at.correlation) else { continue };
        rows.push([
            duration.into(),
            copy.at.start.into(),
            copy.source.into(),
            copy.destination.into(),
            copy.bytes.into(),
            call.thread.pid().into(),
            copy.at.device.into(),
            copy.at.context.into(),
            copy.at.green_context.filter(|context| *context != ContextId(0)).into(),
            copy.at.stream.into(),
            names.get(call.name)?.into(),
        ]);
    }
    write(trace, sink, &COPIES, &rows)
}

/// `cuda_memset_sync`.
pub(super) fn waiting_sets(trace: &Trace, options: &RuleOptions, sink: &mut dyn Sink) -> Result<(), Error> {
    let waits = |set: &MemorySet| matches!(set.memory, Some(MemoryKind::Pinned | MemoryKind::Managed));
    let mut work = Work::default();
    for set in memsets(trace)? {
        let set = set?;
        if waits(&set) {
            work.add(set.at.process, set.at.correlation);
        }
    }
    let launches = Launches::of_work(&trace.unfiltered(), &work)?;
    let mut names = CallNames::new(trace);
    let mut longest = Longest::new(options.limit());
    for set in memsets(trace)? {
        let set = set?;
        let call = launches.find(set.at.process, set.at.correlation).filter(|_| waits(&set));
        let Some(call) = call else { continue };
        if names.test(call.name, |name| begins_with(name, "cudaMemset") && !is_async(name))?.is_some() {
            longest.offer(set.at.duration(), set);
        }
    }
    let mut rows = Vec::new();
    for (duration, set) in longest.sorted() {
        let Some(call) = launches.find(set.at.process, set.at.correlation) else { continue };
        rows.push([
            duration.into(),
            set.at.start.into(),
            set.memory.into(),
            set.bytes.into(),
            call.thread.pid().into(),
            set.at.device.into(),
            set.at.context.into(),
            set.at.green_context.filter(|context| *context != ContextId(0)).into(),
            set.at.stream.into(),
            names.get(call.name)?.into(),
        ]);
    }
    write(trace, sink, &SETS, &rows)
}

fn write<const N: usize>(
    trace: &Trace,
    sink: &mut dyn Sink,
    columns: &'static [Column],
    rows: &[[Value; N]],
) -> Result<(), Error> {
    trace.writing(|| {
        sink.columns(columns)?;
        rows.iter().try_for_each(|row| sink.row(row))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// What is held is what a stable sort puts first.
        #[test]
        fn the_longest_are_kept(lengths in prop::collection::vec(0_i64..20, 0..60), wanted in 0_usize..10) {
            let mut longest = Longest::new(wanted);
            for (place, length) in lengths.iter().enumerate() {
                longest.offer(*length, place);
            }
            let mut expected: Vec<(i64, usize)> = lengths.iter().copied().zip(0..).collect();
            expected.sort_by_key(|(length, _)| Reverse(*length));
            expected.truncate(wanted);
            prop_assert_eq!(longest.sorted().collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn names_are_compared_as_sql_does() {
        assert!(begins_with("CUDAMEMCPY2D_v3020", "cudaMemcpy"));
        assert!(!begins_with("cuMemcpyHtoD_v2", "cudaMemcpy") && !begins_with("cu", "cudaMemcpy"));
        assert!(is_async("cudaMemcpyAsync_v3020") && !is_async("cudaMemcpy_v3020"));
    }
}
