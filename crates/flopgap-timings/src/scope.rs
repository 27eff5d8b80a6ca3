//! What of a trace is looked at: all of it, or the work of some ranges.

use std::cmp::Reverse;
use std::fmt::Write as _;
use std::sync::Arc;

use flopgap_nsys::{Attribution, GlobalId, NvtxRange, NvtxRanges, Summary, Trace};
use rustc_hash::FxHashMap;

use crate::error::Error;
use crate::kind::PassKind;
use crate::passes::{called, in_a_sentence};
use crate::pattern::RangePattern;
use crate::select::{Group, Named, WarmUp};

/// Which ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ranges {
    /// No ranges: everything that the trace recorded.
    All,
    /// Whole steps ([`PassKind::Step`](crate::PassKind::Step)): those of the name that says it best, where several are steps. A trace of
    /// a language model that marks no steps is measured by its decoding, or by its prefilling.
    Steps,
    /// Those that any of these patterns means; of ranges within each other, the outermost.
    Named(Vec<RangePattern>),
    /// The pass that is shown under this name, such as `step_*`.
    Shown(String),
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

/// The ranges of a scope.
struct Selected {
    name: String,
    /// Places in [`NvtxRanges::ranges`], by time, none within another.
    instances: Vec<usize>,
    /// Which were left out, in a sentence.
    rule: String,
}

/// Leaves those out that lie within others of them on their thread, or are there twice, and orders the rest by time.
fn outermost(nvtx: &NvtxRanges, instances: &mut Vec<usize>) {
    let ranges = &nvtx.ranges;
    instances.sort_unstable_by_key(|&at| (ranges[at].thread, ranges[at].start, Reverse(ranges[at].end), at));
    instances.dedup();
    let mut outer: Option<&NvtxRange> = None;
    instances.retain(|&at| {
        let range = &ranges[at];
        let within = outer.is_some_and(|outer| outer.thread == range.thread && range.end <= outer.end);
        if !within {
            outer = Some(range);
        }
        !within
    });
    instances.sort_unstable_by_key(|&at| (ranges[at].start, at));
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
        let Selected { name, instances, .. } = self.select(trace, &nvtx)?;
        Ok(Some((name, instances.len() as u64)))
    }

    /// The instances of the ranges.
    fn select(&self, trace: &Trace, nvtx: &NvtxRanges) -> Result<Selected, Error> {
        let named = Named::new(nvtx);
        let mut rule = named.rule(&self.warm_up);
        let groups: Vec<Group> = match &self.ranges {
            Ranges::All => Vec::new(),
            Ranges::Named(patterns) => called(trace, &named, patterns, &self.warm_up)?,
            Ranges::Shown(name) => {
                let mut groups = named.passes(&self.warm_up);
                groups.retain(|group| group.name == *name);
                if groups.is_empty() {
                    let path = trace.path().to_owned();
                    return Err(flopgap_nsys::Error::NoRange { path, range: name.clone() }.into());
                }
                groups
            }
            Ranges::Steps => {
                let path = || trace.path().to_owned();
                let Some((steps, others)) = named.principal(named.passes(&self.warm_up)) else {
                    return Err(Error::NoSteps { path: path() });
                };
                if steps.instances.is_empty() {
                    let instances = steps.left_out.total();
                    return Err(Error::OnlyWarmUp { path: path(), range: steps.name, instances });
                }
                if !others.is_empty() {
                    let others =
                        others.iter().map(|group| format!("`{}` ({})", group.name, group.instances.len()));
                    let _ = write!(
                        rule,
                        " Steps are `{}`; {} are not among them: name them with --range.",
                        steps.name,
                        others.collect::<Vec<_>>().join(", ")
                    );
                }
                vec![steps]
            }
        };
        let shown: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
        let mut instances: Vec<usize> =
            groups.iter().flat_map(|group| group.instances.iter().copied()).collect();
        let all = instances.len();
        outermost(nvtx, &mut instances);
        if instances.len() < all {
            let within = all - instances.len();
            let _ = write!(rule, " {within} of these ranges lie within others of them and count with those.");
        }
        Ok(Selected { name: shown.join(", "), instances, rule })
    }

    /// The GPU work of the scope.
    pub(crate) fn times(&self, trace: &Trace) -> Result<Scoped, Error> {
        if self.ranges == Ranges::All {
            // First what holds the ranges: where there are optimizer passes the rest is answered from it.
            let nvtx = match trace.nvtx_ranges() {
                Ok(nvtx) => Some(nvtx),
                Err(error) if error.is_absence() => None,
                Err(error) => return Err(error.into()),
            };
            let marked = nvtx.as_deref().map(|nvtx| Named::new(nvtx).marked_as(PassKind::Optimizer));
            let _kept =
                marked.as_ref().filter(|marked| !marked.is_empty()).map(|_| trace.launched(self.attribution));
            let activity = trace.gpu_activity(None, self.attribution)?;
            let optimizer = nvtx.map(|nvtx| self.optimizer(trace, &nvtx, None)).transpose()?.flatten();
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
        let launched = trace.launched(self.attribution)?;
        let nvtx = launched.nvtx();
        let Selected { name: scope, instances, rule } = self.select(trace, nvtx)?;
        let times = trace.operation_times(Some((nvtx, &instances)), self.attribution)?;
        if times.kernels.is_empty() && times.copies.is_none() && times.sets.is_none() {
            return Err(Error::NoWork { path: trace.path().to_owned(), ranges: format!("`{scope}`") });
        }
        let optimizer = self.optimizer(trace, nvtx, Some(&instances))?;
        let worked = launched.sums_of(&[&instances])[0];
        Ok(Scoped {
            scope,
            instances: Some(instances.len() as u64),
            attribution: Some(in_a_sentence(self.attribution)),
            rule: Some(rule),
            kernels: times.kernels,
            copies: times.copies,
            sets: times.sets,
            busy_ns: worked.busy,
            extent_ns: worked.extent,
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
