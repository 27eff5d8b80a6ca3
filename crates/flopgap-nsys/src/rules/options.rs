//! Options of rules.

use std::fmt;
use std::str::FromStr;

use flopgap_files::{ErrorKind, Hint};

use super::{Rule, UnknownRule};
use crate::{Error, Filter, Trace};

/// The arguments of nsys's rules, with nsys's defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleOptions {
    /// The most rows that are listed, worst first; nothing: all of them.
    pub rows: Option<usize>,
    /// Look only at what was recorded from this time on, in nanoseconds.
    pub start: Option<i64>,
    /// Look only at what was recorded before this time, in nanoseconds.
    pub end: Option<i64>,
    /// Look only at a range, written as for [`Trace::filter_of_range`]. The start and end above
    /// replace its own.
    pub nvtx: Option<String>,
    /// Look only at the process with this id of the system (`cuda_api_sync`).
    pub process: Option<i64>,
    /// Look only at the thread with this id of the system (`cuda_api_sync`).
    pub thread: Option<i64>,
    /// A gap is longer than this, in milliseconds (`gpu_gaps`).
    pub gap: i64,
    /// A part of the time is listed when the GPU was in use for less than this, in percent
    /// (`gpu_time_util`).
    pub threshold: i64,
    /// Into how many parts the time of a GPU is cut, 1 to 1000 (`gpu_time_util`).
    pub chunks: u16,
}

impl Default for RuleOptions {
    fn default() -> RuleOptions {
        RuleOptions {
            rows: Some(50),
            start: None,
            end: None,
            nvtx: None,
            process: None,
            thread: None,
            gap: 500,
            threshold: 50,
            chunks: 30,
        }
    }
}

impl RuleOptions {
    /// The most rows to list.
    pub(super) fn limit(&self) -> usize {
        self.rows.unwrap_or(usize::MAX)
    }

    /// Which rows to look at, where the options say so.
    pub(super) fn filter(&self, trace: &Trace) -> Result<Option<Filter>, Error> {
        let RuleOptions { start, end, process, thread, .. } = *self;
        let invalid = |source| Error::Filter { path: trace.path().to_owned(), source };
        if let Some(range) = &self.nvtx {
            return trace.filter_of_range(range)?.between(start, end).map(Some).map_err(invalid);
        }
        if [start, end, process, thread].iter().all(Option::is_none) {
            return Ok(None);
        }
        let filter = Filter::time(Some(start.unwrap_or(0)), end).map_err(invalid)?;
        Ok(Some(filter.owned_by(process, thread)))
    }
}

/// A rule with its options, as nsys writes them: `gpu_gaps:gap=100:rows=-1`.
///
/// ```
/// use flopgap_nsys::{AppliedRule, Rule};
///
/// let applied: AppliedRule = "gpu_gaps:gap=100:rows=-1".parse().unwrap();
/// assert_eq!((applied.rule, applied.options.gap, applied.options.rows), (Rule::GpuGaps, 100, None));
/// assert!("gpu_gaps:chunks=5".parse::<AppliedRule>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedRule {
    /// The rule.
    pub rule: Rule,
    /// Its options.
    pub options: RuleOptions,
}

impl From<Rule> for AppliedRule {
    fn from(rule: Rule) -> AppliedRule {
        AppliedRule { rule, options: RuleOptions::default() }
    }
}

impl fmt::Display for AppliedRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (options, default) = (&self.options, RuleOptions::default());
        write!(f, "{}", self.rule)?;
        if options.rows != default.rows {
            match options.rows {
                Some(rows) => write!(f, ":rows={rows}")?,
                None => f.write_str(":rows=-1")?,
            }
        }
        let numbers = [
            ("start", options.start),
            ("end", options.end),
            ("process", options.process),
            ("thread", options.thread),
            ("gap", (options.gap != default.gap).then_some(options.gap)),
            ("threshold", (options.threshold != default.threshold).then_some(options.threshold)),
            ("chunks", (options.chunks != default.chunks).then_some(options.chunks.into())),
        ];
        for (name, value) in numbers {
            if let Some(value) = value {
                write!(f, ":{name}={value}")?;
            }
        }
        options.nvtx.as_ref().map_or(Ok(()), |range| write!(f, ":nvtx={range}"))
    }
}

/// A text that is not a rule with options.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidRule {
    /// Unknown rule.
    #[error(transparent)]
    Unknown(#[from] UnknownRule),
    /// Unknown argument of the rule, or an invalid value.
    #[error("{rule}: unknown argument `{argument}`; it takes {known}")]
    Argument {
        /// The rule.
        rule: Rule,
        /// What was given.
        argument: String,
        /// The valid arguments.
        known: String,
    },
    /// A range cannot be combined with a process or thread, since it implies both.
    #[error("{rule}: give either nvtx or process and thread")]
    RangeAndThread {
        /// The rule.
        rule: Rule,
    },
}

impl Hint for InvalidRule {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Usage
    }
}

impl Rule {
    /// The arguments specific to it, in addition to those of every rule.
    fn own_arguments(self) -> &'static [&'static str] {
        match self {
            Rule::CudaApiSync => &["process=ID", "thread=ID"],
            Rule::GpuGaps => &["gap=MILLISECONDS"],
            Rule::GpuTimeUtil => &["threshold=PERCENT", "chunks=1…1000"],
            Rule::CudaMemcpyAsync | Rule::CudaMemcpySync | Rule::CudaMemsetSync => &[],
        }
    }
}

impl FromStr for AppliedRule {
    type Err = InvalidRule;

    fn from_str(text: &str) -> Result<AppliedRule, InvalidRule> {
        let mut parts = text.split(':');
        let mut applied = AppliedRule::from(parts.next().unwrap_or_default().parse::<Rule>()?);
        let rule = applied.rule;
        for argument in parts {
            applied.options.set(rule, argument).ok_or_else(|| InvalidRule::Argument {
                rule,
                argument: argument.to_owned(),
                known: [
                    &["rows=N (-1: all)", "start=NS", "end=NS", "nvtx=RANGE[@DOMAIN][/INDEX]"],
                    rule.own_arguments(),
                ]
                .concat()
                .join(", "),
            })?;
        }
        let options = &applied.options;
        if options.nvtx.is_some() && (options.process.is_some() || options.thread.is_some()) {
            return Err(InvalidRule::RangeAndThread { rule });
        }
        Ok(applied)
    }
}

impl RuleOptions {
    fn set(&mut self, rule: Rule, argument: &str) -> Option<()> {
        let (name, value) = argument.split_once('=')?;
        let own = || rule.own_arguments().iter().any(|own| own.split('=').next() == Some(name));
        let number = || value.parse::<i64>().ok();
        // nsys takes a negative id for none.
        let id = || Some(number()?).map(|id| (id >= 0).then_some(id));
        match name {
            "rows" => self.rows = usize::try_from(number()?).ok(),
            "start" => self.start = Some(number()?),
            "end" => self.end = Some(number()?),
            "nvtx" if !value.is_empty() => self.nvtx = Some(value.to_owned()),
            "process" if own() => self.process = id()?,
            "thread" if own() => self.thread = id()?,
            "gap" if own() => self.gap = number()?,
            "threshold" if own() => self.threshold = number()?,
            "chunks" if own() => {
                self.chunks = value.parse().ok().filter(|chunks| (1..=1000).contains(chunks))?;
            }
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_back_as_they_are_written() {
        for text in [
            "cuda_api_sync",
            "cuda_api_sync:rows=3:start=-5:end=10:process=7:thread=9",
            "gpu_gaps:rows=-1:gap=0",
            "gpu_time_util:threshold=70:chunks=1000:nvtx=step@model/2",
        ] {
            assert_eq!(text.parse::<AppliedRule>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn arguments_of_other_rules_and_bad_values_are_refused() {
        for text in [
            "gpu_gaps:threshold=5",
            "gpu_gaps:gap=long",
            "gpu_gaps:gap",
            "gpu_time_util:chunks=0",
            "gpu_time_util:chunks=1001",
            "cuda_memcpy_sync:process=5",
            "gpu_gaps:nvtx=",
        ] {
            let refused = text.parse::<AppliedRule>().unwrap_err();
            assert!(matches!(refused, InvalidRule::Argument { .. }), "{text}: {refused}");
        }
        let refused = "gpu_gaps:gap=long".parse::<AppliedRule>().unwrap_err().to_string();
        assert!(
            refused.starts_with("gpu_gaps: unknown argument `gap=long`; it takes rows=N (-1: all), start=NS"),
            "{refused}"
        );
        assert!(refused.ends_with("gap=MILLISECONDS"), "{refused}");
        assert!(matches!("speed".parse::<AppliedRule>(), Err(InvalidRule::Unknown(_))));
        let both = "cuda_api_sync:nvtx=a:thread=5".parse::<AppliedRule>();
        assert!(matches!(both, Err(InvalidRule::RangeAndThread { .. })));
    }
}
