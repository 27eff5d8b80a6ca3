//! What of a trace is looked at: all of it, or the work of some ranges.

use std::sync::Arc;

use flopgap_nsys::{Attribution, GlobalId, NvtxRange, NvtxRanges, Summary, Trace};
use rustc_hash::FxHashMap;

use crate::error::Error;
use crate::kind::PassKind;
use crate::passes::{called, in_a_sentence};
use crate::select::{Group, Named, WarmUp};

/// Which ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ranges {
    /// No ranges: everything that the trace recorded.
    All,
    /// Whole steps ([`PassKind::Step`]).
    Steps,
    /// Those of a name: `forward`, `model:forward`, or folded as `step_*`.
    Named(String),
}

/// What of a trace is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Which ranges.
    pub ranges: Ranges,
    /// Which of their instances are left out.
    pub warm_up: WarmUp,
    /// How GPU work finds its range.
    pub attribution: Attribution,
}

/// The name of optimizer passes, and their kernels.
type Optimizer = (String, Vec<(Arc<str>, Summary)>);

/// The GPU work of a scope.
#[derive(Clone, Debug)]
pub(crate) struct Scoped {
    pub(crate) scope: String,
    pub(crate) instances: Option<u64>,
    pub(crate) attribution: Option<String>,
    pub(crate) rule: Option<String>,
    /// By demangled name, largest total first.
    pub(crate) kernels: Vec<(Arc<str>, Summary)>,
    pub(crate) copies: Option<Summary>,
    pub(crate) sets: Option<Summary>,
    pub(crate) busy_ns: i128,
    pub(crate) extent_ns: i128,
    /// The ranges that mark optimizer passes within the scope, and the kernels launched within them.
    pub(crate) optimizer: Option<Optimizer>,
}

impl Scope {
    /// Everything.
    pub fn all() -> Scope {
        Scope { ranges: Ranges::All, warm_up: WarmUp::default(), attribution: Attribution::default() }
    }

    /// The names of the ranges and how many instances of them are looked at; nothing for a whole trace.
    ///
    /// # Errors
    /// [`Error::NoSteps`] when the trace marks none, [`Error::OnlyWarmUp`] when all instances are left out; and when it has no such range.
    pub fn instances(&self, trace: &Trace) -> Result<Option<(String, u64)>, Error> {
        if self.ranges == Ranges::All {
            return Ok(None);
        }
        let nvtx = trace.nvtx_ranges()?;
        let (name, instances) = self.select(trace, &nvtx)?;
        Ok(Some((name, instances.len() as u64)))
    }

    /// The instances of the ranges, by time.
    fn select(&self, trace: &Trace, nvtx: &NvtxRanges) -> Result<(String, Vec<usize>), Error> {
        let named = Named::new(nvtx);
        let groups: Vec<Group> = match &self.ranges {
            Ranges::All => Vec::new(),
            Ranges::Named(name) => called(trace, &named, name, &self.warm_up)?,
            Ranges::Steps => {
                let mut steps = named.passes(&self.warm_up);
                steps.retain(|group| group.kind == PassKind::Step);
                let path = || trace.path().to_owned();
                let Some(first) = steps.first() else { return Err(Error::NoSteps { path: path() }) };
                if steps.iter().all(|group| group.instances.is_empty()) {
                    let instances = steps.iter().map(|group| group.left_out.total()).sum();
                    return Err(Error::OnlyWarmUp { path: path(), range: first.name.clone(), instances });
                }
                steps.retain(|group| !group.instances.is_empty());
                steps
            }
        };
        let shown: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
        let mut instances: Vec<usize> =
            groups.iter().flat_map(|group| group.instances.iter().copied()).collect();
        instances.sort_by_key(|&at| (nvtx.ranges[at].start, at));
        Ok((shown.join(", "), instances))
    }

    /// The GPU work of the scope.
    pub(crate) fn times(&self, trace: &Trace) -> Result<Scoped, Error> {
        if self.ranges == Ranges::All {
            let activity = trace.gpu_activity(None, self.attribution)?;
            let optimizer = match trace.nvtx_ranges() {
                Ok(nvtx) => self.optimizer(trace, &nvtx, None)?,
                Err(error) if error.is_absence() => None,
                Err(error) => return Err(error.into()),
            };
            let times = trace.operation_times(None, self.attribution)?;
            return Ok(Scoped {
                scope: "all".to_owned(),
                instances: None,
                attribution: None,
                rule: None,
                kernels: times.kernels,
                copies: times.copies,
                sets: times.sets,
                busy_ns: activity.iter().map(|gpu| i128::from(gpu.busy)).sum(),
                extent_ns: activity.iter().map(|gpu| i128::from(gpu.end) - i128::from(gpu.start)).sum(),
                optimizer,
            });
        }
        let work = trace.range_work(self.attribution)?;
        let (scope, instances) = self.select(trace, &work.nvtx)?;
        let times = trace.operation_times(Some((&work.nvtx, &instances)), self.attribution)?;
        if times.kernels.is_empty() && times.copies.is_none() && times.sets.is_none() {
            return Err(Error::NoWork { path: trace.path().to_owned(), ranges: format!("`{scope}`") });
        }
        let optimizer = self.optimizer(trace, &work.nvtx, Some(&instances))?;
        let worked = || instances.iter().filter_map(|&at| work.work[at].as_ref());
        Ok(Scoped {
            scope,
            instances: Some(instances.len() as u64),
            attribution: Some(in_a_sentence(self.attribution)),
            rule: Some(Named::new(&work.nvtx).rule(&self.warm_up)),
            kernels: times.kernels,
            copies: times.copies,
            sets: times.sets,
            busy_ns: worked().map(|work| i128::from(work.busy)).sum(),
            extent_ns: worked().map(|work| i128::from(work.end) - i128::from(work.start)).sum(),
            optimizer,
        })
    }

    /// The optimizer passes of the trace, or those that lie in some instances of ranges, with their kernels. Only the range tells that
    /// a kernel is part of an optimizer: an unfused one is a row of additions and multiplications like any other.
    fn optimizer(
        &self,
        trace: &Trace,
        nvtx: &NvtxRanges,
        within: Option<&[usize]>,
    ) -> Result<Option<Optimizer>, Error> {
        let mut passes = Named::new(nvtx).marked_as(PassKind::Optimizer);
        if let Some(instances) = within {
            let around = Around::new(nvtx, instances);
            passes.retain(|(_, at)| around.contains(&nvtx.ranges[*at]));
        }
        if passes.is_empty() {
            return Ok(None);
        }
        let mut names: Vec<&str> = passes.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let ranges: Vec<usize> = passes.iter().map(|(_, at)| *at).collect();
        match trace.operation_times(Some((nvtx, &ranges)), self.attribution) {
            Ok(times) => Ok(Some((names.join(", "), times.kernels))),
            Err(error) if error.is_absence() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Which ranges lie in one of some instances. For each thread the starts of the instances, in order, each with the latest end of
/// those up to it: some instance contains a range if and only if the last one that begins no later knows an end that is no earlier.
struct Around(FxHashMap<GlobalId, Vec<(i64, i64)>>);

impl Around {
    /// `instances` are in the order of their starts.
    fn new(nvtx: &NvtxRanges, instances: &[usize]) -> Around {
        let mut threads: FxHashMap<GlobalId, Vec<(i64, i64)>> = FxHashMap::default();
        for &at in instances {
            let range = &nvtx.ranges[at];
            let Some(end) = range.end else { continue };
            let known = threads.entry(range.thread).or_default();
            let latest = known.last().map_or(end, |&(_, latest)| latest.max(end));
            known.push((range.start, latest));
        }
        Around(threads)
    }

    fn contains(&self, range: &NvtxRange) -> bool {
        let Some(known) = self.0.get(&range.thread) else { return false };
        let after = known.partition_point(|&(start, _)| start <= range.start);
        let latest = after.checked_sub(1).map(|at| known[at].1);
        latest.is_some_and(|latest| range.end.is_some_and(|end| end <= latest))
    }
}
