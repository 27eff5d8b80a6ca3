//! Ranges of the host and what they are called.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::{Name, RangeId, ThreadId};

/// How a range was marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RangeStyle {
    /// `nvtxRangePush` and `nvtxRangePop`: nested within one thread.
    PushPop,
    /// `nvtxRangeStart` and `nvtxRangeEnd`: may overlap others, and may end on another thread.
    StartEnd,
    /// An operator of a framework, which its profiler records as it runs. It marks no pass,
    /// whatever its name: `forward` is that of a scripted module.
    Operator,
    /// Not marked by anybody, but derived from what ran: the forward pass that operators make.
    Derived,
}

impl RangeStyle {
    /// As nsys spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            RangeStyle::PushPop => "PushPop",
            RangeStyle::StartEnd => "StartEnd",
            RangeStyle::Operator => "Operator",
            RangeStyle::Derived => "Derived",
        }
    }
}

/// An NVTX range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Its row in `NVTX_EVENTS`, nsys's `RangeId`.
    pub id: RangeId,
    /// When it began, in nanoseconds since the recording began.
    pub start: i64,
    /// When it ended; `None` when it was still open at the end of the recording.
    pub end: Option<i64>,
    /// The thread that opened it.
    pub thread: ThreadId,
    /// Its domain and text, for [`Ranges::names`].
    pub name: Name,
    /// How it was marked.
    pub style: RangeStyle,
    /// Whether another thread ended it than began it.
    pub crosses_threads: bool,
}

/// What a range is called.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RangeName {
    /// The name of its domain; none in the default domain.
    pub domain: Option<Arc<str>>,
    /// Its text.
    pub text: Arc<str>,
}

impl RangeName {
    /// Whether `wanted` names it: as it was marked (`forward`) where it is in the default domain,
    /// or with its domain (`model:forward`, `:forward`).
    pub fn is(&self, wanted: &str) -> bool {
        let domain = self.domain.as_deref().unwrap_or_default();
        let with_domain = wanted.strip_prefix(domain).and_then(|rest| rest.strip_prefix(':'));
        with_domain == Some(&*self.text) || (self.domain.is_none() && wanted == &*self.text)
    }
}

impl RangeName {
    /// As answers show it: `domain:text`, or the text alone in the default domain.
    pub fn shown(&self) -> Cow<'_, str> {
        match &self.domain {
            Some(domain) if !domain.is_empty() => Cow::Owned(format!("{domain}:{}", self.text)),
            _ => Cow::Borrowed(&self.text),
        }
    }
}

impl fmt::Display for RangeName {
    /// As nsys prints it: `domain:text`, or `:text` in the default domain.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.domain.as_deref().unwrap_or_default(), self.text)
    }
}

/// The distinct names of ranges.
#[derive(Clone, Debug, Default)]
pub struct RangeNames(Vec<RangeName>);

impl RangeNames {
    /// The domain and text of a name of this collection.
    pub fn get(&self, name: Name) -> &RangeName {
        &self.0[name.index()]
    }

    /// Adds a name that is new, and returns its place.
    pub fn push(&mut self, name: RangeName) -> Name {
        self.0.push(name);
        Name::at(self.0.len() - 1)
    }

    /// The place of a name, which is added when it is new.
    pub fn intern(&mut self, name: RangeName) -> Name {
        let known = self.0.iter().position(|known| *known == name);
        Name::at(known.unwrap_or_else(|| {
            self.0.push(name);
            self.0.len() - 1
        }))
    }

    /// All names, in the order in which ranges first had them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Name, &RangeName)> {
        self.0.iter().enumerate().map(|(at, name)| (Name::at(at), name))
    }
}

/// All NVTX ranges of a trace.
#[derive(Clone, Debug, Default)]
pub struct Ranges {
    /// The ranges, in the order of the file.
    pub ranges: Vec<Range>,
    /// What they are called.
    pub names: RangeNames,
    /// When the last NVTX event of any kind began or ended: where nsys's summaries end open
    /// ranges.
    pub last_event: i64,
    /// When the last range began or ended: where nsys's projections end open ranges.
    pub last_range: i64,
    /// When the last push/pop range began or ended: where nsys's list of these ends open ones.
    pub last_push_pop: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_with_its_domain_and_in_the_default_domain_without() {
        let name =
            |domain: Option<&str>, text: &str| RangeName { domain: domain.map(Arc::from), text: text.into() };
        let of_model = name(Some("model"), "a:b");
        assert!(
            of_model.is("model:a:b")
                && !of_model.is("a:b")
                && !of_model.is(":a:b")
                && !of_model.is("model:a")
        );
        let plain = name(None, "forward");
        assert!(plain.is("forward") && plain.is(":forward") && !plain.is("model:forward"));
        assert_eq!([of_model.to_string(), plain.to_string()], ["model:a:b", ":forward"]);
        let nameless = name(Some(""), "forward");
        assert_eq!([of_model.shown(), plain.shown(), nameless.shown()], ["model:a:b", "forward", "forward"]);
    }
}
