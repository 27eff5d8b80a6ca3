//! NVTX ranges.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::owners::{Owners, Stretch, Threads};
use crate::tables::{NVTX, need, want};
use crate::{Error, GlobalId, Name, Names, NvtxKind, Trace, fold_name};

/// How a range was marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RangeStyle {
    /// `nvtxRangePush` and `nvtxRangePop`: nested within one thread.
    PushPop,
    /// `nvtxRangeStart` and `nvtxRangeEnd`: may overlap others, and may end on another thread.
    StartEnd,
}

impl RangeStyle {
    /// The style of the range that an annotation is; nothing for other annotations.
    pub fn of(kind: NvtxKind) -> Option<RangeStyle> {
        match kind {
            NvtxKind::PushPop => Some(RangeStyle::PushPop),
            NvtxKind::StartEnd => Some(RangeStyle::StartEnd),
            _ => None,
        }
    }

    /// As nsys spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            RangeStyle::PushPop => "PushPop",
            RangeStyle::StartEnd => "StartEnd",
        }
    }
}

/// An NVTX range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NvtxRange {
    /// Its row in `NVTX_EVENTS`, nsys's `RangeId`.
    pub id: i64,
    /// When it began, in nanoseconds since the recording began.
    pub start: i64,
    /// When it ended; none when it was still open at the end of the recording.
    pub end: Option<i64>,
    /// The thread that opened it.
    pub thread: GlobalId,
    /// `domain:text`, or `:text` in the default domain.
    pub name: Name,
    /// How it was marked.
    pub style: RangeStyle,
    /// Whether another thread ended it than began it.
    pub crosses_threads: bool,
}

/// All NVTX ranges of a trace.
#[derive(Clone, Debug, Default)]
pub struct NvtxRanges {
    /// The ranges, in the order of the file.
    pub ranges: Vec<NvtxRange>,
    /// Their names.
    pub names: Names,
    /// When the last NVTX event of any kind began or ended: where nsys's summaries end open ranges.
    pub last_event: i64,
    /// When the last range began or ended: where nsys's projections end open ranges.
    pub last_range: i64,
    /// When the last push/pop range began or ended: where nsys's list of these ends open ones.
    pub last_push_pop: i64,
}

/// The ranges that can own GPU work and what reports need of them, in half the memory of [`NvtxRanges`].
#[derive(Debug)]
pub(crate) struct RangeTable {
    /// All ranges by their place in the file.
    pub(crate) owners: Owners,
    /// The name of each range.
    pub(crate) names: Vec<Name>,
    /// How each was marked.
    pub(crate) styles: Vec<RangeStyle>,
    /// The texts of the names.
    pub(crate) texts: Names,
}

/// What is known once all rows were read: names of domains may come on a later row than the first range that uses them.
#[derive(Debug)]
pub(crate) struct NvtxNames {
    /// The texts of ranges and domains, and the names of ranges that were asked for.
    pub(crate) names: Names,
    by_id: FxHashMap<i64, Name>,
    domains: FxHashMap<(GlobalId, i64), Name>,
    full: FxHashMap<(Option<Name>, Name), Name>,
    /// As in [`NvtxRanges`].
    pub(crate) last_event: i64,
    last_range: i64,
    pub(crate) last_push_pop: i64,
}

impl NvtxNames {
    /// The name of the text of a row that was read before, which is a registered string or its own.
    pub(crate) fn known(&mut self, id: Option<i64>, text: Option<&str>) -> Name {
        let registered = id.and_then(|id| self.by_id.get(&id).copied());
        registered.unwrap_or_else(|| self.names.intern(text.unwrap_or_default()))
    }

    /// The name with its domain of a range of which `text` is the text.
    pub(crate) fn full(&mut self, process: GlobalId, domain: i64, text: Name) -> Name {
        let domain = self.domains.get(&(process, domain)).copied();
        *self.full.entry((domain, text)).or_insert_with(|| {
            let prefix = domain.map(|domain| self.names.text(domain).clone()).unwrap_or_default();
            let text = self.names.text(text).clone();
            self.names.intern(&format!("{prefix}:{text}"))
        })
    }
}

/// The ranges of one process, domain and text have one name, which is known when all rows were read. Few names stand for many ranges:
/// what each is called is found out once for each.
#[derive(Default)]
struct Provisional(FxHashMap<(GlobalId, i64, Name), Name>);

impl Provisional {
    /// A name that stands for the whole one until then.
    fn of(&mut self, process: GlobalId, domain: i64, text: Name) -> Name {
        let next = Name::at(self.0.len());
        *self.0.entry((process, domain, text)).or_insert(next)
    }

    /// What `make` makes of the whole name of each, by the places of those that stood for them.
    fn full(self, read: &mut NvtxNames, mut make: impl FnMut(Name, &mut Names) -> Name) -> Vec<Name> {
        let mut full = vec![Name::at(0); self.0.len()];
        for ((process, domain, text), name) in self.0 {
            let whole = read.full(process, domain, text);
            full[name.index()] = make(whole, &mut read.names);
        }
        full
    }
}

impl Trace {
    /// Reads all NVTX ranges.
    ///
    /// A domain that several threads of a process created is one domain: nsys counts every range of it once for each thread.
    ///
    /// # Errors
    /// [`Error::NoTable`] when nothing was annotated.
    pub fn nvtx_ranges(&self) -> Result<Arc<NvtxRanges>, Error> {
        if let Some(nvtx) = self.memory().nvtx() {
            return Ok(nvtx);
        }
        let mut ranges: Vec<NvtxRange> = Vec::new();
        let mut provisional = Provisional::default();
        let mut names = self.nvtx_rows(|mut range, domain| {
            range.name = provisional.of(range.thread.process(), domain, range.name);
            ranges.push(range);
        })?;
        let full = provisional.full(&mut names, |name, _| name);
        for range in &mut ranges {
            range.name = full[range.name.index()];
        }
        let NvtxNames { names, last_event, last_range, last_push_pop, .. } = names;
        let nvtx = Arc::new(NvtxRanges { ranges, names, last_event, last_range, last_push_pop });
        self.memory().keep_nvtx(&nvtx);
        Ok(nvtx)
    }

    /// The same ranges as [`Trace::nvtx_ranges`], in the same places, named without their domains.
    pub(crate) fn nvtx_texts(&self) -> Result<NvtxRanges, Error> {
        let mut ranges = Vec::new();
        let NvtxNames { names, last_event, last_range, last_push_pop, .. } =
            self.nvtx_rows(|range, _| ranges.push(range))?;
        Ok(NvtxRanges { ranges, names, last_event, last_range, last_push_pop })
    }

    /// The same ranges as [`Trace::nvtx_ranges`], in the same places; on request under folded names.
    pub(crate) fn range_table(&self, fold_names: bool) -> Result<RangeTable, Error> {
        let (mut stretches, mut names, mut styles) = (Vec::new(), Vec::new(), Vec::new());
        let mut open = Vec::new();
        let mut threads = Threads::default();
        let mut provisional = Provisional::default();
        let mut read = self.nvtx_rows(|range, domain| {
            if range.end.is_none() {
                open.push(stretches.len());
            }
            if !range.crosses_threads {
                threads.add(range.thread, stretches.len());
            }
            stretches.push(Stretch { start: range.start, end: range.end.unwrap_or(range.start) });
            names.push(provisional.of(range.thread.process(), domain, range.name));
            styles.push(range.style);
        })?;
        for range in open {
            stretches[range].end = read.last_range;
        }
        let full = provisional.full(&mut read, |whole, names| {
            let folded = fold_names.then(|| fold_name(names.text(whole)).into_owned());
            folded.map_or(whole, |folded| names.intern(&folded))
        });
        for name in &mut names {
            *name = full[name.index()];
        }
        Ok(RangeTable { owners: Owners::new(stretches, threads), names, styles, texts: read.names })
    }

    /// Calls `visit` with every NVTX range, named by its text alone, and its domain, in the order of the file.
    pub(crate) fn nvtx_rows(&self, mut visit: impl FnMut(NvtxRange, i64)) -> Result<NvtxNames, Error> {
        let columns = [
            need("start"),
            want("end"),
            need("eventType"),
            want("text"),
            want("textId"),
            want("globalTid"),
            want("endGlobalTid"),
            want("domainId"),
        ];
        let mut names = Names::default();
        let mut by_id: FxHashMap<i64, Name> = FxHashMap::default();
        let mut domains: FxHashMap<(GlobalId, i64), Name> = FxHashMap::default();
        let (mut last_event, mut last_range, mut last_push_pop) = (i64::MIN, i64::MIN, i64::MIN);
        let mut failure = None;
        self.scan(&NVTX, &columns, |row| {
            let (start, end, kind) = (row.int(0)?, row.int(1), row.int(2)?);
            let last = end.map_or(start, |end| end.max(start));
            last_event = last_event.max(last);
            let kind = NvtxKind::of(kind);
            let style = RangeStyle::of(kind);
            if style.is_none() && kind != NvtxKind::DomainCreate {
                return Some(());
            }
            let name = match row.int(4) {
                Some(id) => match by_id.get(&id) {
                    Some(&name) => name,
                    None => match self.string_or_id(id) {
                        Ok(text) => *by_id.entry(id).or_insert_with(|| names.intern(&text)),
                        Err(error) => {
                            failure.get_or_insert(error);
                            return Some(());
                        }
                    },
                },
                None => names.intern(row.text(3).unwrap_or_default()),
            };
            let thread = GlobalId(row.int(5).unwrap_or_default());
            let domain = row.int(7).unwrap_or_default();
            let Some(style) = style else {
                domains.entry((thread.process(), domain)).or_insert(name);
                return Some(());
            };
            last_range = last_range.max(last);
            if style == RangeStyle::PushPop {
                last_push_pop = last_push_pop.max(last);
            }
            let crosses_threads = row.int(6).is_some();
            let range = NvtxRange { id: row.id(), start, end, thread, name, style, crosses_threads };
            visit(range, domain);
            Some(())
        })?;
        if let Some(error) = failure {
            return Err(error);
        }
        let full = FxHashMap::default();
        Ok(NvtxNames { names, by_id, domains, full, last_event, last_range, last_push_pop })
    }
}
