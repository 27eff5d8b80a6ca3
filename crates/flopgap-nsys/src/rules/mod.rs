//! nsys's expert rules: findings that could make a program faster.

mod idle;
mod options;
mod sync;

pub use options::{AppliedRule, InvalidRule, RuleOptions};

use std::fmt;
use std::str::FromStr;

use flopgap_files::{ErrorKind, Hint};

use crate::{Error, Sink, Trace};

/// A rule of `nsys analyze`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// Asynchronous copies from or to pageable memory, which are not asynchronous.
    CudaMemcpyAsync,
    /// Synchronous copies that block the host.
    CudaMemcpySync,
    /// Synchronous memsets of pinned or managed memory.
    CudaMemsetSync,
    /// Calls that wait for a whole device or stream.
    CudaApiSync,
    /// Intervals of more than half a second (or [`RuleOptions::gap`]) in which a GPU did nothing.
    GpuGaps,
    /// Intervals in which a GPU was busy less than half of the time (or
    /// [`RuleOptions::threshold`]).
    GpuTimeUtil,
}

impl Rule {
    /// All rules, in nsys's order.
    pub const ALL: [Rule; 6] = [
        Rule::CudaMemcpyAsync,
        Rule::CudaMemcpySync,
        Rule::CudaMemsetSync,
        Rule::CudaApiSync,
        Rule::GpuGaps,
        Rule::GpuTimeUtil,
    ];

    /// Its name in nsys.
    pub fn name(self) -> &'static str {
        match self {
            Rule::CudaMemcpyAsync => "cuda_memcpy_async",
            Rule::CudaMemcpySync => "cuda_memcpy_sync",
            Rule::CudaMemsetSync => "cuda_memset_sync",
            Rule::CudaApiSync => "cuda_api_sync",
            Rule::GpuGaps => "gpu_gaps",
            Rule::GpuTimeUtil => "gpu_time_util",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A text that names no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown rule `{text}`; there are {}", Rule::ALL.map(Rule::name).join(", "))]
pub struct UnknownRule {
    text: String,
}

impl Hint for UnknownRule {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Usage
    }
}

impl FromStr for Rule {
    type Err = UnknownRule;

    fn from_str(text: &str) -> Result<Rule, UnknownRule> {
        let found = Rule::ALL.into_iter().find(|rule| rule.name() == text);
        found.ok_or_else(|| UnknownRule { text: text.to_owned() })
    }
}

impl Trace {
    /// Applies a rule, as nsys does without arguments or with those of an [`AppliedRule`]: the rows
    /// that it found, worst first, at most 50 unless the options say otherwise. No rows: nothing to
    /// improve.
    ///
    /// Time, range, process and thread of its options replace the filter of a trace that is
    /// [filtered](Trace::filtered). Options that a rule has no use for change nothing.
    ///
    /// ```
    /// use flopgap_nsys::{ReportTable, Rule, Trace};
    ///
    /// fn idle(trace: &Trace) -> Result<bool, flopgap_nsys::Error> {
    ///     let mut gaps = ReportTable::default();
    ///     trace.rule(Rule::GpuGaps, &mut gaps)?;
    ///     Ok(!gaps.rows.is_empty())
    /// }
    /// ```
    ///
    /// # Errors
    /// [`Error::NoTable`] and [`Error::NoColumn`] when the trace does not hold what the rule looks
    /// at; [`Error::NoRange`] when there is no range that its options name, [`Error::Filter`] when
    /// they leave no time.
    pub fn rule(&self, rule: impl Into<AppliedRule>, sink: &mut dyn Sink) -> Result<(), Error> {
        let AppliedRule { rule, options } = &rule.into();
        let filtered = options.filter(self)?.map(|filter| self.filtered(filter));
        let trace = filtered.as_ref().unwrap_or(self);
        match rule {
            Rule::CudaMemcpyAsync => sync::pageable_copies(trace, options, sink),
            Rule::CudaMemcpySync => sync::waiting_copies(trace, options, sink),
            Rule::CudaMemsetSync => sync::waiting_sets(trace, options, sink),
            Rule::CudaApiSync => sync::waiting_calls(trace, options, sink),
            Rule::GpuGaps => idle::gaps(trace, options, sink),
            Rule::GpuTimeUtil => idle::utilization(trace, options, sink),
        }
    }
}
