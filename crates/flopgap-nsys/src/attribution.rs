//! GPU work by the NVTX range within which it was launched.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::gpu_work::{Backward, Kind, Work};
use crate::nesting::Nesting;
use crate::owners::Owners;
use crate::ranges::RangeTable;
use crate::report::Groups;
use crate::tables::{KERNEL, RUNTIME};
use crate::{Error, GlobalId, KernelName, Name, NvtxRanges, Summary, Trace};

/// How GPU work is attributed to NVTX ranges.
///
/// The default is nsys's: a kernel, copy or set belongs to every range that contains the whole call that launched it, on the
/// thread that made the call. Ranges that end on another thread than they began on own nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attribution {
    /// Whose ranges own what a thread launches.
    pub by: AttributeBy,
    /// Whether CUDA graphs that were traced as a whole (`--cuda-graph-trace=graph`, nsys's default) count as GPU work. nsys shows
    /// them in no report. Each launch of a graph is then one operation, and one kernel called `[CUDA graph N]`, N being its id.
    pub whole_graphs: bool,
}

/// Whose ranges own what a thread launches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AttributeBy {
    /// Those of the thread itself, as nsys has it.
    #[default]
    Thread,
    /// Those of the thread itself; where none of them contains the launch, those of the main thread of the process that do.
    ///
    /// So the backward pass of PyTorch, which its autograd thread launches, belongs to the range in which the main thread waits
    /// for it. The main thread is the one with the number of the process; when that has no range, the one with the most.
    Process,
}

/// The GPU work launched within one instance of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuWork {
    /// When the first of it began, in nanoseconds since the recording began.
    pub start: i64,
    /// When the last of it ended.
    pub end: i64,
    /// How long any of it was running, in nanoseconds: what runs at the same time on one device counts once. With work on several
    /// devices this is the sum over them.
    pub busy: i64,
    /// From the first of it to the last, in nanoseconds: on one device `end - start`, on several the sum over them.
    pub extent: i64,
    /// The sum of all durations, in nanoseconds.
    pub total: i128,
    /// How many kernels ran; graphs that were traced as a whole do not count.
    pub kernels: u64,
    /// How many calls launched it, nsys's `GPU Ops`: the launch of a graph is one, however many nodes it has.
    pub operations: u64,
}

/// NVTX ranges with the GPU work that was launched within them.
#[derive(Clone, Debug, Default)]
pub struct RangeWork {
    /// The ranges.
    pub nvtx: NvtxRanges,
    /// The work of each of `nvtx.ranges`; none where nothing was launched.
    pub work: Vec<Option<GpuWork>>,
}

/// What one GPU did for one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuActivity {
    /// The process; absent in trimmed exports.
    pub process: Option<GlobalId>,
    /// Which GPU, as the process numbers them.
    pub device: i64,
    /// When the first work began, in nanoseconds since the recording began.
    pub start: i64,
    /// When the last work ended.
    pub end: i64,
    /// How long any work was running, in nanoseconds; what runs at the same time counts once.
    pub busy: i64,
    /// How many kernels ran.
    pub kernels: u64,
    /// The sum of their durations, in nanoseconds.
    pub kernel_time: i128,
    /// How many copies ran.
    pub copies: u64,
    /// The sum of their durations, in nanoseconds.
    pub copy_time: i128,
    /// How many memory sets ran.
    pub sets: u64,
    /// The sum of their durations, in nanoseconds.
    pub set_time: i128,
    /// How many graphs that were traced as a whole ran; 0 unless [`Attribution::whole_graphs`].
    pub graphs: u64,
    /// The sum of their durations, in nanoseconds.
    pub graph_time: i128,
}

impl Trace {
    /// The GPU times of each kernel by demangled name, largest total first: [`Trace::kernel_times_by`] with nsys's attribution.
    ///
    /// # Errors
    /// As [`Trace::kernel_times_by`].
    pub fn kernel_times(&self, range: Option<&str>) -> Result<Vec<(Arc<str>, Summary)>, Error> {
        self.kernel_times_by(range, Attribution::default())
    }

    /// The GPU times of each kernel by demangled name, largest total first: of all kernels, or of those launched within a range
    /// that is called `range`.
    ///
    /// A range is named as it was marked (`forward`), or with its domain (`model:forward`). A kernel counts once however many
    /// ranges of that name contain its launch.
    ///
    /// # Errors
    /// [`Error::NoTable`] without kernels (or, for a range, without annotations or API calls); [`Error::NoRange`] when no range has
    /// that name.
    pub fn kernel_times_by(
        &self,
        range: Option<&str>,
        attribution: Attribution,
    ) -> Result<Vec<(Arc<str>, Summary)>, Error> {
        if !attribution.whole_graphs {
            self.require(&KERNEL)?;
        }
        let within = range.map(|range| self.within(range, attribution.by)).transpose()?;
        let mut groups: Groups<Name> = Groups::default();
        let names = self.named_kernels(
            KernelName::Demangled,
            attribution.whole_graphs,
            Backward::LeftOut,
            |work, name| {
                if within.as_ref().is_none_or(|within| within.has(&work)) {
                    groups.add(name, work.duration());
                }
            },
        )?;
        Ok(groups.rekey(|name| Ok::<_, Error>(names.text(name).clone()))?.summaries())
    }

    /// Every NVTX range with the GPU work that was launched within it.
    ///
    /// Copies and sets count as work like kernels. Work whose launch was not recorded belongs to no range.
    ///
    /// ```
    /// use flopgap_nsys::{AttributeBy, Attribution, Trace};
    ///
    /// # let database = zstd::decode_all(std::fs::File::open("../../fixtures/nsys/small_forward_backward.sqlite.zst")?)?;
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("small_forward_backward.sqlite");
    /// # std::fs::write(&path, database)?;
    /// let trace = Trace::open(&path)?;
    /// let kernels = |by| -> Result<u64, flopgap_nsys::Error> {
    ///     let found = trace.range_work(Attribution { by, ..Attribution::default() })?;
    ///     let rows = found.nvtx.ranges.iter().zip(&found.work);
    ///     let backward = rows.filter(|(range, _)| found.nvtx.names.text(range.name).as_ref() == ":backward");
    ///     Ok(backward.filter_map(|(_, work)| work.map(|work| work.kernels)).sum())
    /// };
    /// // Autograd launches the backward pass from a thread of its own.
    /// assert_eq!(kernels(AttributeBy::Thread)?, 3);
    /// assert_eq!(kernels(AttributeBy::Process)?, 1610);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoTable`] without annotations, API calls or any GPU work.
    pub fn range_work(&self, attribution: Attribution) -> Result<RangeWork, Error> {
        let nvtx = self.nvtx_ranges()?;
        let mut nesting = Nesting::of(self, &Owners::of(&nvtx), attribution.by)?;
        let mut placed = Vec::new();
        self.gpu_work(attribution.whole_graphs, Backward::LeftOut, |work| {
            if let Some((node, first)) = nesting.take(work.process, work.correlation) {
                placed.push((work.device, work.start, work.end, node, work.kind, first));
            }
        })?;
        // By device and start, so that what each range has seen of a device ends where `covered` says.
        placed.sort_unstable_by_key(|(device, start, ..)| (*device, *start));
        let mut work: Vec<Option<GpuWork>> = vec![None; nvtx.ranges.len()];
        let mut covered: Vec<Covered> = vec![Covered::default(); nvtx.ranges.len()];
        for (device, start, end, node, kind, first) in placed {
            for range in nesting.ranges(node) {
                let lasts = covered[range].extend(device, start, end);
                let busy = covered[range].add(device, start, end);
                let none = GpuWork { start, end, busy: 0, extent: 0, total: 0, kernels: 0, operations: 0 };
                let known = work[range].get_or_insert(none);
                known.start = known.start.min(start);
                known.end = known.end.max(end);
                known.busy = known.busy.saturating_add(busy);
                known.extent = known.extent.saturating_add(lasts);
                known.total += i128::from(end) - i128::from(start);
                known.kernels += u64::from(kind == Kind::Kernel);
                known.operations += u64::from(first);
            }
        }
        Ok(RangeWork { nvtx, work })
    }

    /// What each GPU did for each process, by process and device: all of it, or what was launched within a range that is called
    /// `range` (as in [`Trace::kernel_times_by`]).
    ///
    /// # Errors
    /// [`Error::NoTable`] without any GPU work (or, for a range, without annotations or API calls); [`Error::NoRange`] when no
    /// range has that name.
    pub fn gpu_activity(
        &self,
        range: Option<&str>,
        attribution: Attribution,
    ) -> Result<Vec<GpuActivity>, Error> {
        let within = range.map(|range| self.within(range, attribution.by)).transpose()?;
        let mut devices: FxHashMap<(Option<GlobalId>, i64), Activity> = FxHashMap::default();
        self.gpu_work(attribution.whole_graphs, Backward::LeftOut, |work| {
            if within.as_ref().is_some_and(|within| !within.has(&work)) {
                return;
            }
            let Work { kind, start, end, device, process, .. } = work;
            let (activity, stretches) = devices.entry((process, device)).or_insert_with(|| {
                let none = GpuActivity {
                    process,
                    device,
                    start,
                    end,
                    busy: 0,
                    kernels: 0,
                    kernel_time: 0,
                    copies: 0,
                    copy_time: 0,
                    sets: 0,
                    set_time: 0,
                    graphs: 0,
                    graph_time: 0,
                };
                (none, Vec::new())
            });
            activity.start = activity.start.min(start);
            activity.end = activity.end.max(end);
            let (count, time) = match kind {
                Kind::Kernel => (&mut activity.kernels, &mut activity.kernel_time),
                Kind::Copy => (&mut activity.copies, &mut activity.copy_time),
                Kind::Set => (&mut activity.sets, &mut activity.set_time),
                Kind::Graph => (&mut activity.graphs, &mut activity.graph_time),
            };
            *count += 1;
            *time += i128::from(end) - i128::from(start);
            stretches.push((start, end));
        })?;
        let activities = devices.into_values().map(|(mut activity, mut stretches)| {
            stretches.sort_unstable();
            let mut covered = Covered::default();
            activity.busy = stretches
                .iter()
                .map(|(start, end)| covered.add(activity.device, *start, *end))
                .fold(0, i64::saturating_add);
            activity
        });
        let mut activities: Vec<GpuActivity> = activities.collect();
        activities.sort_unstable_by_key(|activity| (activity.process, activity.device));
        Ok(activities)
    }

    /// What was launched within the ranges of a name.
    fn within(&self, range: &str, by: AttributeBy) -> Result<Within, Error> {
        self.require(&RUNTIME)?;
        let RangeTable { owners, names, texts, .. } = self.range_table(false)?;
        let in_default_domain = format!(":{range}");
        let named = |candidate: usize| {
            let text = texts.text(names[candidate]).as_ref();
            text == range || text == in_default_domain
        };
        if !owners.threads().flatten().any(|owner| named(*owner as usize)) {
            return Err(Error::NoRange { path: self.path().to_owned(), range: range.to_owned() });
        }
        let nesting = Nesting::of(self, &owners, by)?;
        let nodes = nesting.within(named);
        Ok(Within { nesting, nodes })
    }
}

/// What a GPU did for a process, and from when to when.
type Activity = (GpuActivity, Vec<(i64, i64)>);

/// What was launched within certain ranges.
struct Within {
    nesting: Nesting,
    nodes: Vec<bool>,
}

impl Within {
    fn has(&self, work: &Work) -> bool {
        self.nesting.node(work.process, work.correlation).is_some_and(|node| self.nodes[node])
    }
}

/// Until when a device is known to be busy, for intervals that come by device and start.
#[derive(Clone, Copy, Default)]
struct Covered {
    until: Option<(i64, i64)>,
}

impl Covered {
    /// By how much an interval that is not added yet is later than all before it on its device, gaps included.
    fn extend(&self, device: i64, start: i64, end: i64) -> i64 {
        let until = match self.until {
            Some((same, until)) if same == device => until,
            _ => start,
        };
        end.saturating_sub(until).max(0)
    }

    /// How much of an interval is new.
    fn add(&mut self, device: i64, start: i64, end: i64) -> i64 {
        let until = match self.until {
            Some((same, until)) if same == device => until.max(start),
            _ => start,
        };
        self.until = Some((device, until.max(end)));
        end.saturating_sub(until).max(0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The union of intervals is the number of unit steps that any of them covers.
        #[test]
        fn busy_is_the_union(mut raw in proptest::collection::vec((0_i64..2, 0_i64..40, 0_i64..10), 0..30)) {
            raw.sort_unstable();
            let mut covered = Covered::default();
            let busy: i64 = raw.iter().map(|(device, start, length)| covered.add(*device, *start, start + length)).sum();
            let steps = (0..2).flat_map(|device| (0..60).map(move |at| (device, at)));
            let expected = steps.filter(|(on, at)| {
                raw.iter().any(|(device, start, length)| device == on && start <= at && *at < start + length)
            });
            prop_assert_eq!(busy, i64::try_from(expected.count()).unwrap());

            // The extent of each device is from its first start to its last end.
            let mut covered = Covered::default();
            let mut extent = 0;
            for (device, start, length) in &raw {
                extent += covered.extend(*device, *start, start + length);
                covered.add(*device, *start, start + length);
            }
            let of = |on: i64| {
                let own = || raw.iter().filter(|(device, ..)| *device == on);
                let last = own().map(|(_, start, length)| start + length).max();
                last.zip(own().map(|(_, start, _)| *start).min()).map_or(0, |(last, first)| last - first)
            };
            prop_assert_eq!(extent, of(0) + of(1));
        }
    }
}
