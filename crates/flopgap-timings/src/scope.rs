//! What of a trace is looked at: all of it, or the work of some ranges.

use std::sync::Arc;

use flopgap_nsys::{Attribution, NvtxRanges, Summary, Trace};

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
        let names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
        let mut instances: Vec<usize> = groups.iter().flat_map(|group| group.instances.iter().copied()).collect();
        instances.sort_by_key(|&at| (nvtx.ranges[at].start, at));
        Ok((names.join(", "), instances))
    }

    /// The GPU work of the scope.
    pub(crate) fn times(&self, trace: &Trace) -> Result<Scoped, Error> {
        if self.ranges == Ranges::All {
            let activity = trace.gpu_activity(None, self.attribution)?;
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
            });
        }
        let work = trace.range_work(self.attribution)?;
        let (scope, instances) = self.select(trace, &work.nvtx)?;
        let times = trace.operation_times(Some((&work.nvtx, &instances)), self.attribution)?;
        if times.kernels.is_empty() && times.copies.is_none() && times.sets.is_none() {
            return Err(Error::NoWork { path: trace.path().to_owned(), ranges: format!("`{scope}`") });
        }
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
        })
    }
}
