//! The durations of GPU operations: kernels by name, copies, sets.

use flopgap_trace::OperationSums;

use crate::gpu_work::{Kind, graph_name};
use crate::tables::gpu::has_kernel_names;
use crate::{Attribution, Error, GraphId, OperationTimes, StringId, Trace};

impl Trace {
    /// The durations of all GPU operations, or of those launched within some instances of ranges,
    /// which are named by their places in [`Trace::nvtx_ranges`]. An operation counts once however
    /// many of them contain its launch.
    ///
    /// # Errors
    /// [`Error::NoTable`] without any GPU work (or, for ranges, without API calls).
    ///
    /// # Panics
    /// If a place is not that of a range.
    pub fn operation_times(
        &self,
        within: Option<&[usize]>,
        attribution: Attribution,
    ) -> Result<OperationTimes, Error> {
        let mut sums = OperationSums::default();
        let kept = match within {
            Some(ranges) => {
                let launched = self.launched(attribution)?;
                launched.within(ranges, |process, device, piece| {
                    sums.add(process, device, piece.kind, piece.duration());
                });
                Some(launched)
            }
            None => self.memory().any_launched(attribution.whole_graphs).inspect(|launched| {
                launched.each(|process, device, piece| {
                    sums.add(process, device, piece.kind, piece.duration());
                });
            }),
        };
        let read;
        let kinds = if let Some(launched) = &kept {
            launched.kinds()
        } else {
            read = self.identified_work(attribution.whole_graphs, |work, kind| {
                sums.add(work.process, work.device, kind, work.duration());
            })?;
            &read
        };
        sums.finish(kinds, |kind, id| match (kind, id) {
            (Kind::Graph, Some(id)) => Ok(Some(graph_name(GraphId(id)))),
            (_, Some(id)) => self.string_or_id(StringId(id)).map(Some),
            (_, None) => has_kernel_names(self).map(|()| None),
        })
    }
}
