//! The durations of GPU operations: kernels by name, copies, memsets.

use std::sync::Arc;

use crate::gpu_work::{Kind, graph_name};
use crate::kinds::Kinds;
use crate::report::group::Groups;
use crate::stats::Values;
use crate::tables::gpu::{KERNEL, has_kernel_names};
use crate::warning::Oddity;
use crate::{Attribution, Error, GlobalId, NvtxRanges, Summary, Trace};

/// The GPU operations of a trace or of some of its ranges.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OperationTimes {
    /// The durations of each kernel by demangled name, largest total first; with
    /// [`Attribution::whole_graphs`] also of graphs that were traced as a whole.
    pub kernels: Vec<(Arc<str>, Summary)>,
    /// The durations of memory copies; absent when there were none.
    pub copies: Option<Summary>,
    /// The durations of memsets; absent when there were none.
    pub sets: Option<Summary>,
    /// How many bytes were copied; absent where an export does not say it of all copies.
    pub copied_bytes: Option<u128>,
    /// How many bytes were set; absent where an export does not say it of all sets.
    pub set_bytes: Option<u128>,
    /// The operations of each process on each GPU, by process and GPU; empty in those of a place.
    pub places: Vec<PlaceTimes>,
}

/// The operations of one process on one GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct PlaceTimes {
    /// The process; absent where an export does not say it.
    pub process: Option<GlobalId>,
    /// The GPU, as the process numbers it.
    pub device: i64,
    /// What it did.
    pub times: OperationTimes,
}

/// The durations of one process on one GPU, by the places of their kinds.
type Durations = ((Option<GlobalId>, i64), Vec<Values>);

impl Trace {
    /// The durations of all GPU operations, or of those launched within some instances of ranges,
    /// which are named by their places in `nvtx.ranges`. An operation counts once however many of
    /// them contain its launch.
    ///
    /// # Errors
    /// [`Error::NoTable`] without any GPU work (or, for ranges, without API calls).
    pub fn operation_times(
        &self,
        within: Option<(&NvtxRanges, &[usize])>,
        attribution: Attribution,
    ) -> Result<OperationTimes, Error> {
        let mut places: Vec<Durations> = Vec::new();
        let mut last = 0;
        let mut add = |process: Option<GlobalId>, device: i64, kind: u32, duration: i64| {
            let is_there = |(place, _): &Durations| *place == (process, device);
            if !places.get(last).is_some_and(is_there) {
                last = places.iter().position(is_there).unwrap_or_else(|| {
                    places.push(((process, device), Vec::new()));
                    places.len() - 1
                });
            }
            let (times, kind) = (&mut places[last].1, kind as usize);
            if kind >= times.len() {
                times.resize_with(kind + 1, Values::default);
            }
            times[kind].add(duration);
        };
        let kept = match within {
            Some((_, ranges)) => {
                let launched = self.launched(attribution)?;
                launched.within(ranges, |process, device, piece| {
                    add(process, device, piece.kind, piece.duration());
                });
                Some(launched)
            }
            None => self.memory().any_launched(attribution.whole_graphs).inspect(|launched| {
                launched.each(|process, device, piece| add(process, device, piece.kind, piece.duration()));
            }),
        };
        let read;
        let kinds = if let Some(launched) = &kept {
            &launched.kinds
        } else {
            read = self.identified_work(attribution.whole_graphs, |work, kind| {
                add(work.process, work.device, kind, work.duration());
            })?;
            &read
        };
        if places.len() < 2 {
            let Some(((process, device), times)) = places.pop() else { return Ok(OperationTimes::default()) };
            let times = self.named_times(times, kinds)?;
            let only = PlaceTimes { process, device, times: times.clone() };
            return Ok(OperationTimes { places: vec![only], ..times });
        }
        places.sort_by_key(|(place, _)| *place);
        let mut all: Vec<Values> = Vec::new();
        let mut apart = Vec::new();
        for ((process, device), times) in places {
            all.resize_with(all.len().max(times.len()), Values::default);
            for (all, times) in all.iter_mut().zip(&times) {
                all.extend_from(times);
            }
            apart.push(PlaceTimes { process, device, times: self.named_times(times, kinds)? });
        }
        Ok(OperationTimes { places: apart, ..self.named_times(all, kinds)? })
    }

    /// Durations by the places of their kinds, by name.
    fn named_times(&self, times: Vec<Values>, kinds: &Kinds) -> Result<OperationTimes, Error> {
        let (mut copies, mut sets) = (Values::default(), Values::default());
        let (mut copied_bytes, mut set_bytes) = (Some(0), Some(0));
        let add_bytes = |sum: &mut Option<u128>, bytes: Option<i64>, durations: &Values| {
            let bytes = bytes.and_then(|bytes| u128::try_from(bytes).ok());
            *sum = sum.zip(bytes).map(|(sum, bytes)| sum + bytes * u128::from(durations.len()));
        };
        let mut kernels: Groups<Arc<str>> = Groups::default();
        for (durations, (kind, id)) in times.into_iter().zip(kinds.all()) {
            if durations.len() == 0 {
                continue;
            }
            match (kind, id) {
                (Kind::Copy, bytes) => {
                    add_bytes(&mut copied_bytes, *bytes, &durations);
                    copies.extend(durations);
                }
                (Kind::Set, bytes) => {
                    add_bytes(&mut set_bytes, *bytes, &durations);
                    sets.extend(durations);
                }
                (Kind::Graph, Some(id)) => kernels.add_all(graph_name(*id), durations),
                (Kind::Kernel, Some(id)) => kernels.add_all(self.string_or_id(*id)?, durations),
                (Kind::Kernel | Kind::Graph, None) => {
                    has_kernel_names(self)?;
                    self.warn(self.require(&KERNEL)?, &kinds.unnamed, Oddity::Unusable);
                }
            }
        }
        let (kernels, copies, sets) = (kernels.summaries(), copies.summary(), sets.summary());
        Ok(OperationTimes { kernels, copies, sets, copied_bytes, set_bytes, places: Vec::new() })
    }
}
