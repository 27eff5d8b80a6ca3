//! GPU work by the NVTX range within which it was launched.

use std::sync::Arc;

use flopgap_trace::{Activities, Nesting};

use crate::gpu_work::{Backward, Work};
use crate::launched::nesting;
use crate::ranges::RangeTable;
use crate::report::group::Groups;
use crate::tables::gpu::KERNEL;
use crate::tables::host::RUNTIME;
use crate::{
    AttributeBy, Attribution, Error, GpuActivity, GpuWork, KernelName, Name, NvtxRanges, Summary, Trace,
};

/// NVTX ranges with the GPU work that was launched within them.
#[derive(Clone, Debug, Default)]
pub struct RangeWork {
    /// The ranges.
    pub nvtx: Arc<NvtxRanges>,
    /// The work of each of `nvtx.ranges`; `None` where nothing was launched.
    pub work: Vec<Option<GpuWork>>,
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
        let mut devices = Activities::default();
        let within = range.map(|range| self.within(range, attribution.by)).transpose()?;
        let known = within.is_none().then(|| self.memory().any_launched(attribution.whole_graphs));
        if let Some(launched) = known.flatten() {
            launched.each(|process, device, piece| {
                devices.add(process, device, launched.kind(piece), piece.start, piece.end);
            });
        } else {
            self.gpu_work(attribution.whole_graphs, Backward::LeftOut, |work| {
                if within.as_ref().is_none_or(|within| within.has(&work)) {
                    devices.add(work.process, work.device, work.kind, work.start, work.end);
                }
            })?;
        }
        Ok(devices.finish())
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
        let nesting = nesting(self, &owners, by)?;
        let nodes = nesting.within(named);
        Ok(Within { nesting, nodes })
    }
}

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
