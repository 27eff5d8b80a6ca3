//! NVTX ranges and marks with their names, streamed.

use std::fmt;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::strings::Strings;
use crate::tables::nvtx::{NvtxRow, NvtxRows};
use crate::{DomainId, Error, NvtxKind, ProcessId, RangeId, ThreadId, Trace};

/// What an annotation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AnnotationKind {
    /// A range that was pushed and popped.
    PushPop,
    /// A range that was started and ended.
    StartEnd,
    /// A moment.
    Mark,
}

impl AnnotationKind {
    fn of(kind: NvtxKind) -> Option<AnnotationKind> {
        match kind {
            NvtxKind::PushPop => Some(AnnotationKind::PushPop),
            NvtxKind::StartEnd => Some(AnnotationKind::StartEnd),
            NvtxKind::Mark => Some(AnnotationKind::Mark),
            _ => None,
        }
    }

    /// As nsys spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            AnnotationKind::PushPop => "PushPop",
            AnnotationKind::StartEnd => "StartEnd",
            AnnotationKind::Mark => "Mark",
        }
    }
}

/// A range or a mark, with the texts that its row refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotation {
    /// Its row in `NVTX_EVENTS`, nsys's `RangeId`.
    pub row: RangeId,
    /// What it is.
    pub kind: AnnotationKind,
    /// When it was or began, in nanoseconds since the recording began.
    pub start: i64,
    /// When it ended; `None` for a mark, and for a range that was open at the end of the recording.
    pub end: Option<i64>,
    /// The thread.
    pub thread: Option<ThreadId>,
    /// The thread that ended it, when that is another.
    pub end_thread: Option<ThreadId>,
    /// The name of its domain; none in the default domain.
    pub domain: Option<Arc<str>>,
    /// The number of its category within the domain.
    pub category: Option<i64>,
    /// Its text.
    pub text: Arc<str>,
}

/// The names of domains by process and number.
type Domains = FxHashMap<(ProcessId, DomainId), Arc<str>>;

/// The ranges and marks of a trace, in the order of the file, read on demand: see
/// [`Trace::annotations`].
pub struct Annotations {
    rows: NvtxRows<Annotation>,
    strings: Strings<Trace>,
    domains: Domains,
}

impl fmt::Debug for Annotations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Annotations").field("domains", &self.domains).finish_non_exhaustive()
    }
}

/// The text of a row: of its id, or as it is written out there.
fn text_of(strings: &mut Strings<Trace>, row: &NvtxRow<'_>) -> Result<Arc<str>, Error> {
    row.text_id().map_or_else(|| Ok(row.text().unwrap_or_default().into()), |id| strings.get(id))
}

/// The annotation that a row is; `None` for rows that only name something.
fn annotation(
    row: &NvtxRow<'_>,
    strings: &mut Strings<Trace>,
    domains: &Domains,
) -> Result<Option<Annotation>, Error> {
    let Some(kind) = AnnotationKind::of(row.kind) else { return Ok(None) };
    let domain = (row.process(), row.domain());
    Ok(Some(Annotation {
        row: row.id(),
        kind,
        start: row.start,
        end: row.end().filter(|_| kind != AnnotationKind::Mark),
        thread: row.thread(),
        end_thread: row.end_thread(),
        domain: domains.get(&domain).cloned(),
        category: row.category(),
        text: text_of(strings, row)?,
    }))
}

impl Iterator for Annotations {
    type Item = Result<Annotation, Error>;

    fn next(&mut self) -> Option<Result<Annotation, Error>> {
        let Annotations { rows, strings, domains } = self;
        rows.next(|row, annotations| {
            annotations.extend(annotation(&row, strings, domains)?);
            Ok(())
        })
    }
}

impl Trace {
    /// Every range and mark with its texts, in the order of the file.
    ///
    /// [`Trace::nvtx_ranges`] has the ranges alone, all at once, for questions about them
    /// together.
    ///
    /// # Errors
    /// As [`Trace::kernels`].
    pub fn annotations(&self) -> Result<Annotations, Error> {
        let mut strings = Strings::new(self.with_filter(self.filter()));
        // Domains may be created on a later row than the first range that uses them.
        let mut domains = Domains::default();
        let mut rows = NvtxRows::open(self)?;
        while let Some(domain) = rows.next(|row, created| {
            if row.kind == NvtxKind::DomainCreate {
                created.push(((row.process(), row.domain()), text_of(&mut strings, &row)?));
            }
            Ok(())
        }) {
            let (domain, name) = domain?;
            domains.entry(domain).or_insert(name);
        }
        Ok(Annotations { rows: NvtxRows::open(self)?, strings, domains })
    }
}
