//! The durations of GPU operations: kernels by name, copies, sets.

use std::sync::Arc;

use crate::gpu_work::{Kind, graph_name};
use crate::report::Groups;
use crate::rows::UNUSABLE;
use crate::stats::Values;
use crate::tables::KERNEL;
use crate::{Attribution, Error, NvtxRanges, Summary, Trace};

/// The GPU operations of a trace or of some of its ranges.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OperationTimes {
    /// The durations of each kernel by demangled name, largest total first; with [`Attribution::whole_graphs`] also of graphs that were
    /// traced as a whole.
    pub kernels: Vec<(Arc<str>, Summary)>,
    /// The durations of memory copies; absent when there were none.
    pub copies: Option<Summary>,
    /// The durations of memory sets; absent when there were none.
    pub sets: Option<Summary>,
}

impl Trace {
    /// The durations of all GPU operations, or of those launched within some instances of ranges, which are named by their places in
    /// `nvtx.ranges`. An operation counts once however many of them contain its launch.
    ///
    /// # Errors
    /// [`Error::NoTable`] without any GPU work (or, for ranges, without API calls).
    pub fn operation_times(
        &self,
        within: Option<(&NvtxRanges, &[usize])>,
        attribution: Attribution,
    ) -> Result<OperationTimes, Error> {
        let mut times: Vec<Values> = Vec::new();
        let mut add = |kind: u32, duration: i64| {
            let place = kind as usize;
            if place >= times.len() {
                times.resize_with(place + 1, Values::default);
            }
            times[place].add(duration);
        };
        let kept = match within {
            Some((_, ranges)) => {
                let launched = self.launched(attribution)?;
                launched.within(ranges, |piece| add(piece.kind, piece.duration()));
                Some(launched)
            }
            None => self.memory().any_launched(attribution.whole_graphs).inspect(|launched| {
                launched.each(|_, _, piece| add(piece.kind, piece.duration()));
            }),
        };
        let read;
        let kinds = if let Some(launched) = &kept {
            &launched.kinds
        } else {
            read = self.identified_work(attribution.whole_graphs, |work, kind| add(kind, work.duration()))?;
            &read
        };
        let (mut copies, mut sets) = (Values::default(), Values::default());
        let mut kernels: Groups<Arc<str>> = Groups::default();
        for (durations, (kind, id)) in times.into_iter().zip(kinds.all()) {
            match (kind, id) {
                (Kind::Copy, _) => copies.extend(durations),
                (Kind::Set, _) => sets.extend(durations),
                (Kind::Graph, Some(id)) => kernels.add_all(graph_name(*id), durations),
                (Kind::Kernel, Some(id)) => kernels.add_all(self.string_or_id(*id)?, durations),
                (Kind::Kernel | Kind::Graph, None) => {
                    let (path, table) = (self.path(), self.require(&KERNEL)?);
                    if !self.schema().has(KERNEL.name, "demangledName") {
                        let (table, column) = (KERNEL.name, "demangledName");
                        return Err(Error::NoColumn { path: path.to_owned(), table, column });
                    }
                    self.warn(table, &kinds.unnamed, UNUSABLE);
                }
            }
        }
        let (kernels, copies, sets) = (kernels.summaries(), copies.summary(), sets.summary());
        Ok(OperationTimes { kernels, copies, sets })
    }
}
