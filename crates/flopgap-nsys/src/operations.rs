//! The durations of GPU operations: kernels by name, copies, sets.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::gpu_work::{Backward, Kind};
use crate::nesting::Nesting;
use crate::owners::Owners;
use crate::report::Groups;
use crate::{Attribution, Error, KernelName, Name, NvtxRanges, Summary, Trace};

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
        let within = match within {
            None => None,
            Some((nvtx, ranges)) => {
                let wanted: FxHashSet<usize> = ranges.iter().copied().collect();
                let nesting = Nesting::of(self, &Owners::of(nvtx), attribution.by)?;
                let nodes = nesting.within(|range| wanted.contains(&range));
                Some((nesting, nodes))
            }
        };
        let counts = |process, correlation| {
            within.as_ref().is_none_or(|(nesting, nodes)| {
                nesting.node(process, correlation).is_some_and(|node| nodes[node])
            })
        };
        let (mut copies, mut sets) = (Vec::new(), Vec::new());
        self.gpu_work(attribution.whole_graphs, Backward::LeftOut, |work| {
            let durations = match work.kind {
                Kind::Copy => &mut copies,
                Kind::Set => &mut sets,
                Kind::Kernel | Kind::Graph => return,
            };
            if counts(work.process, work.correlation) {
                durations.push(work.duration());
            }
        })?;
        let mut groups: Groups<Name> = Groups::default();
        let names = self.named_kernels(
            KernelName::Demangled,
            attribution.whole_graphs,
            Backward::LeftOut,
            |work, name| {
                if counts(work.process, work.correlation) {
                    groups.add(name, work.duration());
                }
            },
        );
        let kernels = match names {
            Ok(names) => groups.rekey(|name| Ok::<_, Error>(names.text(name).clone()))?.summaries(),
            Err(error) if error.is_no_table() => Vec::new(),
            Err(error) => return Err(error),
        };
        Ok(OperationTimes { kernels, copies: Summary::of(&mut copies), sets: Summary::of(&mut sets) })
    }
}
