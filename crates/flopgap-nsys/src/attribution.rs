//! GPU work by the NVTX range within which it was launched.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::covered::Covered;
use crate::gpu_work::{Backward, Kind, Work};
use crate::nesting::Nesting;
use crate::ranges::RangeTable;
use crate::report::group::Groups;
use crate::tables::gpu::KERNEL;
use crate::tables::host::RUNTIME;
use crate::{Error, GlobalId, KernelName, Name, NvtxRanges, Summary, Trace};

/// How GPU work is attributed to NVTX ranges.
///
/// The default is nsys's: a kernel, copy or memset belongs to every range that contains the whole
/// call that launched it, on the thread that made the call. Ranges that end on another thread than
/// they began on own nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attribution {
    /// The rule that attributes GPU work to ranges.
    pub by: AttributeBy,
    /// Whether CUDA graphs that were traced as a whole (`--cuda-graph-trace=graph`, nsys's default)
    /// count as GPU work. nsys shows them in no report. Each launch of a graph is then one
    /// operation, and one kernel called `[CUDA graph N]`, N being its id.
    pub whole_graphs: bool,
}

/// Where the ranges come from that own a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AttributeBy {
    /// From the launching thread, as in nsys.
    #[default]
    Thread,
    /// From the launching thread; if none of its ranges contains the launch, from the main thread
    /// of the process.
    ///
    /// So the backward pass of PyTorch, which its autograd thread launches, belongs to the range in
    /// which the main thread waits for it. The main thread is the one with the number of the
    /// process; when that has no range, the one with the most.
    Process,
}

/// The GPU work launched within one instance of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuWork {
    /// When the first of it began, in nanoseconds since the recording began.
    pub start: i64,
    /// When the last of it ended.
    pub end: i64,
    /// How long any of it was running, in nanoseconds: what runs at the same time on one device
    /// counts once. With work on several devices this is the sum over them.
    pub busy: i64,
    /// From the first of it to the last, in nanoseconds: on one device `end - start`, on several
    /// From the first of it to the last, in nanoseconds: on one device `end - start`, on several
    /// the sum over them.
    pub extent: i64,
    /// The sum of all durations, in nanoseconds.
    pub total: i128,
    /// How many kernels ran; graphs that were traced as a whole do not count.
    pub kernels: u64,
    /// How many calls launched it, nsys's `GPU Ops`: the launch of a graph is one, however many
    /// nodes it has.
    pub operations: u64,
}

/// NVTX ranges with the GPU work that was launched within them.
#[derive(Clone, Debug, Default)]
pub struct RangeWork {
    /// The ranges.
    pub nvtx: Arc<NvtxRanges>,
    /// The work of each of `nvtx.ranges`; `None` where nothing was launched.
    pub work: Vec<Option<GpuWork>>,
}

/// The work of one GPU for one process.
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
    /// How many memsets ran.
    pub sets: u64,
    /// The sum of their durations, in nanoseconds.
    pub set_time: i128,
    /// How many graphs that were traced as a whole ran; 0 unless [`Attribution::whole_graphs`].
    pub graphs: u64,
    /// The sum of their durations, in nanoseconds.
    pub graph_time: i128,
}

impl Trace {
    /// The GPU times of each kernel by demangled name, largest total first: of all kernels, or of
    /// those launched within a range that is called `range`.
    ///
    /// A range is named as it was marked (`forward`), or with its domain (`model:forward`). A
    /// kernel counts once however many ranges of that name contain its launch.
    ///
    /// # Errors
    /// [`Error::NoTable`] without kernels (or, for a range, without annotations or API calls);
    /// [`Error::NoRange`] when no range has that name.
    pub fn kernel_times(
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
    /// Copies and memsets count as work like kernels. Work whose launch was not recorded belongs to
    /// no range. Of a large trace with many ranges, [`Launched::work_of`](crate::Launched::work_of)
    /// and [`Launched::sums_of`](crate::Launched::sums_of) say the same of some of them in less
    /// memory.
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
    ///     let backward = rows.filter(|(range, _)| found.nvtx.names.get(range.name).is("backward"));
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
        let launched = self.launched(attribution)?;
        let nvtx = launched.nvtx().clone();
        let all: Vec<usize> = (0..nvtx.ranges.len()).collect();
        let work = launched.work_of(&all);
        Ok(RangeWork { nvtx, work })
    }

    /// What each GPU did for each process, by process and device: all of it, or what was launched
    /// within a range that is called `range` (as in [`Trace::kernel_times`]).
    ///
    /// # Errors
    /// [`Error::NoTable`] without any GPU work (or, for a range, without annotations or API calls);
    /// [`Error::NoRange`] when no range has that name.
    pub fn gpu_activity(
        &self,
        range: Option<&str>,
        attribution: Attribution,
    ) -> Result<Vec<GpuActivity>, Error> {
        let mut devices: FxHashMap<(Option<GlobalId>, i64), Activity> = FxHashMap::default();
        let mut add = |process: Option<GlobalId>, device: i64, kind: Kind, start: i64, end: i64| {
            let (activity, intervals) = devices.entry((process, device)).or_insert_with(|| {
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
            intervals.push((start, end));
        };
        let within = range.map(|range| self.within(range, attribution.by)).transpose()?;
        let known = within.is_none().then(|| self.memory().any_launched(attribution.whole_graphs));
        if let Some(launched) = known.flatten() {
            launched.each(|process, device, piece| {
                add(process, device, launched.kind(piece), piece.start, piece.end);
            });
        } else {
            self.gpu_work(attribution.whole_graphs, Backward::LeftOut, |work| {
                if within.as_ref().is_none_or(|within| within.has(&work)) {
                    add(work.process, work.device, work.kind, work.start, work.end);
                }
            })?;
        }
        let activities = devices.into_values().map(|(mut activity, mut intervals)| {
            intervals.sort_unstable();
            let mut covered = Covered::NOTHING;
            let busy = intervals.iter().map(|(start, end)| covered.add(*start, *end).busy);
            activity.busy = busy.fold(0, i64::saturating_add);
            activity
        });
        let mut activities: Vec<GpuActivity> = activities.collect();
        activities.sort_unstable_by_key(|activity| (activity.process, activity.device));
        Ok(activities)
    }

    /// The launches within the ranges of a name.
    fn within(&self, range: &str, by: AttributeBy) -> Result<Within, Error> {
        self.require(&RUNTIME)?;
        let RangeTable { owners, names, labels, .. } = self.range_table()?;
        let wanted: Vec<bool> = labels.iter().map(|(_, label)| label.is(range)).collect();
        let named = |candidate: usize| wanted[names[candidate].index()];
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
