//! NVTX ranges and marks with their names, streamed.

use std::fmt;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::row::Row;
use crate::rows::Rows;
use crate::strings::Strings;
use crate::tables::{Column, NVTX, need, want};
use crate::{Error, GlobalId, NvtxKind, Trace};

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
    pub row: i64,
    /// What it is.
    pub kind: AnnotationKind,
    /// When it was or began, in nanoseconds since the recording began.
    pub start: i64,
    /// When it ended; none for a mark, and for a range that was open at the end of the recording.
    pub end: Option<i64>,
    /// The thread.
    pub thread: Option<GlobalId>,
    /// The thread that ended it, when that is another.
    pub end_thread: Option<GlobalId>,
    /// The name of its domain; none in the default domain.
    pub domain: Option<Arc<str>>,
    /// The number of its category within the domain.
    pub category: Option<i64>,
    /// Its text.
    pub text: Arc<str>,
}

/// The ranges and marks of a trace, in the order of the file, one when it is asked for: see [`Trace::annotation_rows`].
pub struct Annotations {
    rows: Rows,
    strings: Strings<Trace>,
    domains: FxHashMap<(GlobalId, i64), Arc<str>>,
    failed: bool,
}

impl fmt::Debug for Annotations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Annotations").field("domains", &self.domains).finish_non_exhaustive()
    }
}

/// The text of a row: of its id, or as it is written out there.
fn text_of(strings: &mut Strings<Trace>, id: Option<i64>, text: Option<&str>) -> Result<Arc<str>, Error> {
    id.map_or_else(|| Ok(text.unwrap_or_default().into()), |id| strings.get(id))
}

const DOMAIN_COLUMNS: [Column; 5] =
    [need("eventType"), want("text"), want("textId"), want("globalTid"), want("domainId")];

const COLUMNS: [Column; 9] = [
    need("start"),
    want("end"),
    need("eventType"),
    want("text"),
    want("textId"),
    want("globalTid"),
    want("endGlobalTid"),
    want("domainId"),
    want("category"),
];

impl Annotations {
    /// What a row is; nothing for rows that only name something.
    fn read(
        row: &Row<'_>,
        strings: &mut Strings<Trace>,
        domains: &FxHashMap<(GlobalId, i64), Arc<str>>,
    ) -> Option<Result<Option<Annotation>, Error>> {
        let (start, kind) = (row.int(0)?, NvtxKind::of(row.int(2)?));
        let Some(kind) = AnnotationKind::of(kind) else { return Some(Ok(None)) };
        let thread = row.int(5).map(GlobalId);
        let process = thread.unwrap_or(GlobalId(0)).process();
        let annotation = text_of(strings, row.int(4), row.text(3)).map(|text| {
            Some(Annotation {
                row: row.id(),
                kind,
                start,
                end: row.int(1).filter(|_| kind != AnnotationKind::Mark),
                thread,
                end_thread: row.int(6).map(GlobalId),
                domain: domains.get(&(process, row.int(7).unwrap_or_default())).cloned(),
                category: row.int(8),
                text,
            })
        });
        Some(annotation)
    }
}

impl Iterator for Annotations {
    type Item = Result<Annotation, Error>;

    fn next(&mut self) -> Option<Result<Annotation, Error>> {
        while !self.failed {
            let Annotations { rows, strings, domains, .. } = self;
            let next = rows.next(|row| Annotations::read(row, strings, domains));
            match next.and_then(Option::transpose) {
                Ok(None) => return None,
                Ok(Some(None)) => {}
                Ok(Some(Some(annotation))) => return Some(Ok(annotation)),
                Err(error) => {
                    self.failed = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

impl Trace {
    /// Every range and mark with its texts, in the order of the file, one when it is asked for.
    ///
    /// [`Trace::nvtx_ranges`] has the ranges alone, all at once, for what is asked of them together.
    ///
    /// # Errors
    /// As [`Trace::kernel_rows`].
    pub fn annotation_rows(&self) -> Result<Annotations, Error> {
        let mut strings = Strings::new(self.with_filter(self.filter()));
        // Domains may be created on a later row than the first range that uses them.
        let mut domains: FxHashMap<(GlobalId, i64), Arc<str>> = FxHashMap::default();
        let mut failure = None;
        self.scan(&NVTX, &DOMAIN_COLUMNS, |row| {
            if row.int(0).map(NvtxKind::of) == Some(NvtxKind::DomainCreate) {
                let process = GlobalId(row.int(3).unwrap_or_default()).process();
                match text_of(&mut strings, row.int(2), row.text(1)) {
                    Ok(name) => {
                        domains.entry((process, row.int(4).unwrap_or_default())).or_insert(name);
                    }
                    Err(error) => failure = failure.take().or(Some(error)),
                }
            }
            Some(())
        })?;
        if let Some(error) = failure {
            return Err(error);
        }
        Ok(Annotations { rows: self.rows(&NVTX, &COLUMNS)?, strings, domains, failed: false })
    }

    /// Calls `visit` with every range and mark, in the order of the file.
    pub(crate) fn annotations(&self, mut visit: impl FnMut(Annotation)) -> Result<(), Error> {
        for annotation in self.annotation_rows()? {
            visit(annotation?);
        }
        Ok(())
    }
}
