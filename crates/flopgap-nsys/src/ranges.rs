//! NVTX ranges.

use std::sync::Arc;

use flopgap_trace::{Interval, Owners, OwnersByThread as Threads};
use rustc_hash::FxHashMap;

use crate::tables::nvtx::{NvtxRow, NvtxRows};
use crate::{
    DomainId, Error, Name, Names, NvtxKind, NvtxRange, NvtxRanges, ProcessId, RangeName, RangeNames,
    RangeStyle, StringId, ThreadId, Trace, fold_name,
};

/// The style of the range that an annotation is; `None` for other annotations.
fn style_of(kind: NvtxKind) -> Option<RangeStyle> {
    match kind {
        NvtxKind::PushPop => Some(RangeStyle::PushPop),
        NvtxKind::StartEnd => Some(RangeStyle::StartEnd),
        _ => None,
    }
}

/// The ranges that can own GPU work and what reports need of them, in half the memory of
/// [`NvtxRanges`].
#[derive(Debug)]
pub(crate) struct RangeTable {
    /// All ranges by their place in the file.
    pub(crate) owners: Owners,
    /// The name of each range.
    pub(crate) names: Vec<Name>,
    /// How each was marked.
    pub(crate) styles: Vec<RangeStyle>,
    /// The names.
    pub(crate) labels: RangeNames,
}

impl RangeTable {
    /// Names the ranges by what is printed of them, folded on request: names that print alike
    /// become one.
    pub(crate) fn printed(&mut self, fold_names: bool) -> Names {
        let mut texts = Names::default();
        let printed = self.labels.iter().map(|(_, label)| {
            let text = label.to_string();
            texts.intern(&if fold_names { fold_name(&text) } else { text.into() })
        });
        let printed: Vec<Name> = printed.collect();
        for name in &mut self.names {
            *name = printed[name.index()];
        }
        texts
    }
}

/// What is known once all rows were read: names of domains may come on a later row than the first
/// range that uses them.
#[derive(Debug)]
pub(crate) struct NvtxNames {
    /// The texts of ranges and domains.
    texts: Names,
    by_id: FxHashMap<StringId, Name>,
    domains: FxHashMap<(ProcessId, DomainId), Name>,
    /// As in [`NvtxRanges`].
    pub(crate) last_event: i64,
    last_range: i64,
    pub(crate) last_push_pop: i64,
}

impl NvtxNames {
    fn new() -> NvtxNames {
        NvtxNames {
            texts: Names::default(),
            by_id: FxHashMap::default(),
            domains: FxHashMap::default(),
            last_event: i64::MIN,
            last_range: i64::MIN,
            last_push_pop: i64::MIN,
        }
    }

    /// Takes notice of a row; when it is a range, adds it, named by its text, and the number of its
    /// domain.
    #[inline]
    fn add(
        &mut self,
        trace: &Trace,
        row: &NvtxRow<'_>,
        ranges: &mut Vec<(NvtxRange, DomainId)>,
    ) -> Result<(), Error> {
        let end = row.end();
        let last = end.map_or(row.start, |end| end.max(row.start));
        self.last_event = self.last_event.max(last);
        let style = style_of(row.kind);
        if style.is_none() && row.kind != NvtxKind::DomainCreate {
            return Ok(());
        }
        let name = match row.text_id() {
            None => self.texts.intern(row.text().unwrap_or_default()),
            Some(id) => self.registered(trace, id)?,
        };
        let (thread, domain) = (row.thread().unwrap_or(ThreadId(0)), row.domain());
        let Some(style) = style else {
            self.domains.entry((thread.process(), domain)).or_insert(name);
            return Ok(());
        };
        self.last_range = self.last_range.max(last);
        if style == RangeStyle::PushPop {
            self.last_push_pop = self.last_push_pop.max(last);
        }
        let (id, start, crosses_threads) = (row.id(), row.start, row.end_thread().is_some());
        ranges.push((NvtxRange { id, start, end, thread, name, style, crosses_threads }, domain));
        Ok(())
    }

    /// The name of a registered string.
    fn registered(&mut self, trace: &Trace, id: StringId) -> Result<Name, Error> {
        if let Some(name) = self.by_id.get(&id) {
            return Ok(*name);
        }
        let name = self.texts.intern(&trace.string_or_id(id)?);
        self.by_id.insert(id, name);
        Ok(name)
    }

    /// The text of a range that was read before.
    pub(crate) fn text_of(&self, row: &NvtxRow<'_>) -> Option<Name> {
        match row.text_id() {
            Some(id) => self.by_id.get(&id).copied(),
            None => self.texts.get(row.text().unwrap_or_default()),
        }
    }

    /// The domain of a process by its number, if it has a name.
    pub(crate) fn domain(&self, process: ProcessId, domain: DomainId) -> Option<Name> {
        self.domains.get(&(process, domain)).copied()
    }

    /// The name of ranges of a domain and a text.
    pub(crate) fn label(&self, domain: Option<Name>, text: Name) -> RangeName {
        let domain = domain.map(|domain| self.texts.text(domain).clone());
        RangeName { domain, text: self.texts.text(text).clone() }
    }
}

/// The NVTX ranges of a trace in the order of the file, each named by its text, with the number of
/// its domain.
pub(crate) struct RangeRows<'t> {
    trace: &'t Trace,
    rows: NvtxRows<(NvtxRange, DomainId)>,
    /// What was seen so far.
    pub(crate) names: NvtxNames,
}

impl Iterator for RangeRows<'_> {
    type Item = Result<(NvtxRange, DomainId), Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let RangeRows { trace, rows, names } = self;
        rows.next(|row, ranges| names.add(trace, &row, ranges))
    }
}

/// The ranges of one process, domain and text have one name, which is known when all rows were
/// read. Few names stand for many ranges: what each is called is found out once for each.
#[derive(Default)]
struct Provisional(FxHashMap<(ProcessId, DomainId, Name), Name>);

impl Provisional {
    /// A name that stands for the whole one until then.
    fn name(&mut self, process: ProcessId, domain: DomainId, text: Name) -> Name {
        let next = Name::at(self.0.len());
        *self.0.entry((process, domain, text)).or_insert(next)
    }

    /// The names, and which of them each provisional one stood for. Domains of several processes
    /// that are called alike are one.
    fn names(self, read: &NvtxNames) -> (RangeNames, Vec<Name>) {
        let mut provisional: Vec<_> = self.0.into_iter().collect();
        provisional.sort_unstable_by_key(|(_, name)| *name);
        let mut known: FxHashMap<(Option<Name>, Name), Name> = FxHashMap::default();
        let mut names = RangeNames::default();
        let whole = provisional.into_iter().map(|((process, domain, text), _)| {
            let domain = read.domain(process, domain);
            *known.entry((domain, text)).or_insert_with(|| names.push(read.label(domain, text)))
        });
        let whole = whole.collect();
        (names, whole)
    }
}

impl Trace {
    /// Reads all NVTX ranges.
    ///
    /// A domain that several threads of a process created is one domain: nsys counts every range of
    /// it once for each thread.
    ///
    /// # Errors
    /// [`Error::NoTable`] when nothing was annotated.
    pub fn nvtx_ranges(&self) -> Result<Arc<NvtxRanges>, Error> {
        if let Some(nvtx) = self.memory().nvtx() {
            return Ok(nvtx);
        }
        let mut ranges: Vec<NvtxRange> = Vec::new();
        let mut provisional = Provisional::default();
        let mut rows = self.range_rows()?;
        for row in rows.by_ref() {
            let (mut range, domain) = row?;
            range.name = provisional.name(range.thread.process(), domain, range.name);
            ranges.push(range);
        }
        // They are kept, and many.
        ranges.shrink_to_fit();
        let (names, whole) = provisional.names(&rows.names);
        for range in &mut ranges {
            range.name = whole[range.name.index()];
        }
        let NvtxNames { last_event, last_range, last_push_pop, .. } = rows.names;
        let nvtx = Arc::new(NvtxRanges { ranges, names, last_event, last_range, last_push_pop });
        self.memory().keep_nvtx(&nvtx);
        Ok(nvtx)
    }

    /// The same ranges as [`Trace::nvtx_ranges`], in the same places.
    pub(crate) fn range_table(&self) -> Result<RangeTable, Error> {
        let (mut intervals, mut names, mut styles) = (Vec::new(), Vec::new(), Vec::new());
        let mut open = Vec::new();
        let mut threads = Threads::default();
        let mut provisional = Provisional::default();
        let mut rows = self.range_rows()?;
        for row in rows.by_ref() {
            let (range, domain) = row?;
            if range.end.is_none() {
                open.push(intervals.len());
            }
            if !range.crosses_threads {
                threads.add(range.thread, intervals.len());
            }
            intervals.push(Interval { start: range.start, end: range.end.unwrap_or(range.start) });
            names.push(provisional.name(range.thread.process(), domain, range.name));
            styles.push(range.style);
        }
        for range in open {
            intervals[range].end = rows.names.last_range;
        }
        let (labels, whole) = provisional.names(&rows.names);
        for name in &mut names {
            *name = whole[name.index()];
        }
        Ok(RangeTable { owners: Owners::new(intervals, threads), names, styles, labels })
    }

    /// Every NVTX range, named by its text alone, and its domain, in the order of the file.
    pub(crate) fn range_rows(&self) -> Result<RangeRows<'_>, Error> {
        Ok(RangeRows { trace: self, rows: NvtxRows::open(self)?, names: NvtxNames::new() })
    }
}
