//! Selects rows of a trace by time, range, process or thread.

use std::str::FromStr;

use flopgap_files::{ErrorKind, Hint};

use crate::{AnnotationKind, Error, ProcessId, ThreadId, Trace};

/// Which rows to look at. [`Trace::filtered`] applies it to everything that is read.
///
/// A row is examined when some of its time lies between the two times (the first included, the
/// second not), and when it belongs to the process and thread that are requested. Tables without
/// start and end, and columns that name no owner, are not filtered: so `nsys stats` does it with
/// `--filter-time` and `--filter-nvtx`. As there, a kernel whose launch lies before the time is not
/// attributed to anything. Unlike there, the names of domains and threads, which are given before
/// everything else, are kept.
///
/// ```
/// use flopgap_nsys::Filter;
///
/// let filter: Filter = "1s500ms/2e9".parse().unwrap();
/// assert_eq!(filter, Filter::time(Some(1_500_000_000), Some(2_000_000_000)).unwrap());
/// assert!("2s/1s".parse::<Filter>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter {
    start: i64,
    end: i64,
    owner: Owner,
}

/// Whose rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// Rows of the process and thread with these system ids, if given.
    Ids { pid: Option<i64>, tid: Option<i64> },
    /// Of this thread; of its process where rows have no thread.
    Thread(ThreadId),
    /// Of this process.
    Process(ProcessId),
}

/// An invalid time range, or one that ends before it starts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid time range `{text}`: {why}")]
pub struct InvalidTime {
    text: String,
    why: &'static str,
}

impl Hint for InvalidTime {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Usage
    }
}

impl Filter {
    /// Rows of any thread between two times, in nanoseconds since the recording began; nothing:
    /// without bound.
    ///
    /// # Errors
    /// When the end lies before the start.
    pub fn time(start: Option<i64>, end: Option<i64>) -> Result<Filter, InvalidTime> {
        let (start, end) = (start.unwrap_or(i64::MIN), end.unwrap_or(i64::MAX));
        if start > end {
            let text = format!("{start}/{end}");
            return Err(InvalidTime { text, why: "it ends before it starts" });
        }
        Ok(Filter { start, end, owner: Owner::Ids { pid: None, tid: None } })
    }

    /// The same, but only of the process and thread with these ids of the system. Rows that name no
    /// owner stay.
    #[must_use]
    pub fn owned_by(self, pid: Option<i64>, tid: Option<i64>) -> Filter {
        Filter { owner: Owner::Ids { pid, tid }, ..self }
    }

    /// The same rows between other times, where they are given.
    ///
    /// # Errors
    /// When the end lies before the start.
    pub(crate) fn between(self, start: Option<i64>, end: Option<i64>) -> Result<Filter, InvalidTime> {
        let time = Filter::time(Some(start.unwrap_or(self.start)), Some(end.unwrap_or(self.end)))?;
        Ok(Filter { owner: self.owner, ..time })
    }

    /// Whether some of the time of a row is between the two times.
    pub(crate) fn covers(&self, start: i64, end: Option<i64>) -> bool {
        let within = |time: i64| (self.start..self.end).contains(&time);
        within(start) || end.is_some_and(|end| within(end) || (start < self.start && end >= self.end))
    }

    /// Whether rows of all threads are examined.
    pub(crate) fn is_for_anyone(&self) -> bool {
        self.owner == Owner::Ids { pid: None, tid: None }
    }

    /// Whether rows of a thread or process are examined.
    pub(crate) fn owns(&self, owner: ThreadId, is_thread: bool) -> bool {
        match self.owner {
            Owner::Ids { pid, tid } => {
                pid.is_none_or(|pid| owner.pid() == pid)
                    && tid.is_none_or(|tid| !is_thread || owner.tid() == tid)
            }
            Owner::Thread(thread) if is_thread => owner == thread,
            Owner::Thread(thread) => owner.process() == thread.process(),
            Owner::Process(process) => owner.process() == process,
        }
    }
}

impl FromStr for Filter {
    type Err = InvalidTime;

    /// `START/END` as nsys writes it: either may be left out; numbers with `h`, `m`, `s`, `ms`,
    /// `us`, `ns` (without: ns), which add up.
    fn from_str(text: &str) -> Result<Filter, InvalidTime> {
        let invalid = |why| InvalidTime { text: text.to_owned(), why };
        let (start, end) = text.split_once('/').ok_or_else(|| invalid("write START/END"))?;
        if start.is_empty() && end.is_empty() {
            return Err(invalid("give a start or an end"));
        }
        let time = |text: &str| {
            if text.is_empty() {
                return Ok(None);
            }
            nanoseconds(text).map(Some).ok_or_else(|| invalid("write times such as 1500, 2.5ms or 1s200us"))
        };
        Filter::time(time(start)?, time(end)?).map_err(|error| invalid(error.why))
    }
}

/// Nanoseconds of a time such as `1s2ms3us4ns`, `2.5e3us` or `-7`.
fn nanoseconds(text: &str) -> Option<i64> {
    let mut rest = text;
    let mut sum = 0_i64;
    while !rest.is_empty() {
        let (number, after) = rest.split_at(number_length(rest));
        let unit_length = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, next) = after.split_at(unit_length);
        let scale: i64 = match unit {
            "" | "ns" | "nsec" => 1,
            "us" | "usec" => 1_000,
            "ms" | "msec" => 1_000_000,
            "s" | "sec" => 1_000_000_000,
            "m" | "min" => 60_000_000_000,
            "h" | "hour" => 3_600_000_000_000,
            _ => return None,
        };
        let part = match number.parse::<i64>() {
            Ok(whole) => whole.checked_mul(scale)?,
            Err(_) => whole_number(number.parse::<f64>().ok()? * scale as f64)?,
        };
        sum = sum.checked_add(part)?;
        rest = next;
    }
    (!text.is_empty()).then_some(sum)
}

/// How many bytes of a text are a number: sign, digits, point, and an exponent where digits follow
/// it.
fn number_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits = |from: usize| from + bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut at = digits(usize::from(text.starts_with(['+', '-'])));
    if bytes.get(at) == Some(&b'.') {
        at = digits(at + 1);
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let from = at + 1 + usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        if from <= bytes.len() && digits(from) > from {
            at = digits(from);
        }
    }
    at
}

fn whole_number(value: f64) -> Option<i64> {
    // 2^63 is the first double that does not fit.
    #[expect(clippy::cast_possible_truncation, reason = "within the range of i64, as is checked")]
    (value.abs() < 9_223_372_036_854_775_808.0).then_some(value as i64)
}

/// `NAME[@DOMAIN][/INDEX]`: the text of a range with its domain, and which of its instances.
fn selector(text: &str) -> (&str, usize) {
    let indexed = text.rsplit_once('/');
    let indexed = indexed.and_then(|(name, index)| Some((name, index.parse().ok()?)));
    indexed.unwrap_or((text, 0))
}

impl Trace {
    /// This trace as if it held only the rows of `filter`. The file is shared, not read again.
    ///
    /// A filter of a trace that is filtered already replaces the former.
    #[must_use]
    pub fn filtered(&self, filter: Filter) -> Trace {
        self.with_filter(Some(filter))
    }

    /// This trace with all its rows.
    pub(crate) fn unfiltered(&self) -> Trace {
        self.with_filter(None)
    }

    /// The filter of a range, written `NAME[@DOMAIN][/INDEX]` as in `nsys stats --filter-nvtx`: the
    /// rows of the range's time and thread.
    ///
    /// The domain must be given unless it is the default one; the index counts the instances by
    /// their start from 0, which is also what is meant without it. A range on the first thread of a
    /// process stands for the whole process, as with nsys. A range that was open when the recording
    /// ended lasts to its end.
    ///
    /// # Errors
    /// [`Error::NoTable`] when nothing was annotated, [`Error::NoRange`] when there is no such
    /// range, [`Error::NoInstance`] when it has fewer instances.
    pub fn filter_of_range(&self, range: &str) -> Result<Filter, Error> {
        let (wanted, index) = selector(range);
        let all = self.unfiltered();
        let mut candidates = Vec::new();
        for annotation in all.annotations()? {
            let annotation = annotation?;
            let (Some(thread), true) = (annotation.thread, annotation.kind != AnnotationKind::Mark) else {
                continue;
            };
            let rest = wanted.strip_prefix(&*annotation.text);
            let is_wanted = rest.is_some_and(|rest| match annotation.domain.as_deref() {
                Some(domain) => rest.strip_prefix('@') == Some(domain),
                None => rest.is_empty(),
            });
            if is_wanted {
                candidates.push((annotation.start, annotation.row, annotation.end, thread));
            }
        }
        candidates.sort_unstable_by_key(|(start, row, ..)| (*start, *row));
        let Some((start, _, end, thread)) = candidates.get(index) else {
            let (path, instances) = (self.path().to_owned(), candidates.len());
            return Err(if instances == 0 {
                Error::NoRange { path, range: range.to_owned() }
            } else {
                Error::NoInstance { path, range: wanted.to_owned(), index, instances }
            });
        };
        let owner = if thread.pid() == thread.tid() {
            Owner::Process(thread.process())
        } else {
            Owner::Thread(*thread)
        };
        Ok(Filter { start: *start, end: end.unwrap_or(i64::MAX).max(*start), owner })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_are_written_as_nsys_writes_them() {
        for (text, time) in [
            ("1s2ms3us4ns", 1_002_003_004),
            ("2ns5us2", 5004),
            ("2.5ms", 2_500_000),
            ("1e3us", 1_000_000),
            ("1E+2", 100),
            ("-7", -7),
            ("1m1sec", 61_000_000_000),
            ("1h", 3_600_000_000_000),
            ("9007199254740993", 9_007_199_254_740_993),
        ] {
            assert_eq!(nanoseconds(text), Some(time), "{text}");
        }
        for text in
            ["", "s", "1x", "1 s", "e5", "--1", "1e30", "9223372036854775808s", "inf", "nan", "1s-", "."]
        {
            assert_eq!(nanoseconds(text), None, "{text}");
        }
    }

    #[test]
    fn a_filter_has_at_least_one_bound_in_order() {
        assert_eq!("/5".parse(), Filter::time(None, Some(5)));
        assert_eq!("5/".parse(), Filter::time(Some(5), None));
        assert_eq!(
            "/".parse::<Filter>().unwrap_err().to_string(),
            "invalid time range `/`: give a start or an end"
        );
        assert!("5".parse::<Filter>().unwrap_err().to_string().ends_with("write START/END"));
        assert!("6/5".parse::<Filter>().unwrap_err().to_string().ends_with("ends before it starts"));
        assert!("5/5".parse::<Filter>().is_ok());
    }

    #[test]
    fn an_index_is_what_follows_the_last_slash() {
        assert_eq!(selector("step@model/3"), ("step@model", 3));
        assert_eq!(selector("fwd/bwd"), ("fwd/bwd", 0));
        assert_eq!(selector("fwd/bwd/0"), ("fwd/bwd", 0));
        assert_eq!(selector("a/-1"), ("a/-1", 0));
    }

    proptest! {
        /// What is written with units is read back.
        #[test]
        fn any_time_reads_back(time in any::<i64>()) {
            prop_assert_eq!(nanoseconds(&time.to_string()), Some(time));
        }

        #[test]
        fn no_text_panics(text in "[-+.0-9eEnumsh]{0,12}") {
            let _ = nanoseconds(&text);
        }

        /// A row is kept exactly when a moment of it is within; a row that ends where another
        /// begins belongs to the second.
        #[test]
        fn rows_that_overlap_are_kept(start in 0_i64..30, length in 0_i64..30, from in 0_i64..30, span in 1_i64..30) {
            let filter = Filter::time(Some(from), Some(from + span)).unwrap();
            let overlaps = (start..=start + length).any(|moment| (from..from + span).contains(&moment));
            prop_assert_eq!(filter.covers(start, Some(start + length)), overlaps);
        }
    }
}
