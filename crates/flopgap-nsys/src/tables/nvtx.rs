//! Everything that was annotated, row by row. [`Trace::nvtx_ranges`] has the ranges with their
//! names.

use std::iter;

use super::nvtx_kind::{NVTX, NvtxKind};
use crate::row::{Field, Row};
use crate::rows::{Ahead, Scan, Select};
use crate::{DomainId, Error, ProcessId, RangeId, StringId, ThreadId, Trace};

/// An annotation of the current row. Fields that not every caller needs are decoded on demand.
pub(crate) struct NvtxRow<'r> {
    pub(crate) start: i64,
    pub(crate) kind: NvtxKind,
    row: &'r Row<'r>,
    columns: &'r Columns,
}

impl<'r> NvtxRow<'r> {
    #[inline]
    pub(crate) fn id(&self) -> RangeId {
        RangeId(self.row.id())
    }

    #[inline]
    pub(crate) fn end(&self) -> Option<i64> {
        self.row.int(self.columns.end)
    }

    #[inline]
    pub(crate) fn thread(&self) -> Option<ThreadId> {
        self.row.int(self.columns.thread).map(ThreadId)
    }

    /// The process, or 0 where the row names none.
    #[inline]
    pub(crate) fn process(&self) -> ProcessId {
        self.thread().unwrap_or(ThreadId(0)).process()
    }

    #[inline]
    pub(crate) fn end_thread(&self) -> Option<ThreadId> {
        self.row.int(self.columns.end_thread).map(ThreadId)
    }

    /// The number of its domain within the process; 0: the default domain.
    #[inline]
    pub(crate) fn domain(&self) -> DomainId {
        self.row.int(self.columns.domain).map_or(DomainId::DEFAULT, DomainId)
    }

    #[inline]
    pub(crate) fn category(&self) -> Option<i64> {
        self.row.int(self.columns.category)
    }

    /// The id of its text, for [`Trace::string`].
    #[inline]
    pub(crate) fn text_id(&self) -> Option<StringId> {
        self.row.int(self.columns.text_id).map(StringId)
    }

    /// Its text, where that has no id.
    #[inline]
    pub(crate) fn text(&self) -> Option<&'r str> {
        self.row.text(self.columns.text)
    }
}

/// The columns of an [`NvtxRow`].
#[derive(Clone, Copy)]
struct Columns {
    start: Field,
    end: Field,
    kind: Field,
    thread: Field,
    end_thread: Field,
    domain: Field,
    category: Field,
    text_id: Field,
    text: Field,
}

impl Columns {
    fn select(select: &mut Select<'_>) -> Columns {
        Columns {
            start: select.need("start"),
            end: select.want("end"),
            kind: select.need("eventType"),
            thread: select.want("globalTid"),
            end_thread: select.want("endGlobalTid"),
            domain: select.want("domainId"),
            category: select.want("category"),
            text_id: select.want("textId"),
            text: select.want("text"),
        }
    }

    #[inline]
    fn decode<'r>(&'r self, row: &'r Row<'r>) -> Option<NvtxRow<'r>> {
        let (start, kind) = (row.int(self.start)?, NvtxKind::of(row.int(self.kind)?));
        Some(NvtxRow { start, kind, row, columns: self })
    }
}

/// What is made of the annotations of a trace, in the order of the file.
pub(crate) struct NvtxRows<T> {
    scan: Scan,
    columns: Columns,
    ahead: Ahead<T>,
}

impl<T> NvtxRows<T> {
    pub(crate) fn open(trace: &Trace) -> Result<NvtxRows<T>, Error> {
        let mut select = trace.select(&NVTX);
        let columns = Columns::select(&mut select);
        Ok(NvtxRows { scan: select.scan()?, columns, ahead: Ahead::new() })
    }

    /// The next of what `take` makes of the rows; `None` after the last, and after an error.
    #[inline]
    pub(crate) fn next(
        &mut self,
        mut take: impl FnMut(NvtxRow<'_>, &mut Vec<T>) -> Result<(), Error>,
    ) -> Option<Result<T, Error>> {
        let NvtxRows { scan, columns, ahead } = self;
        ahead.next(scan, |row, rows| Some(take(columns.decode(row)?, rows)))
    }

    /// What `take` makes of those rows of which it makes something.
    pub(crate) fn filter_map(
        mut self,
        mut take: impl FnMut(NvtxRow<'_>) -> Option<T>,
    ) -> impl Iterator<Item = Result<T, Error>> {
        iter::from_fn(move || {
            self.next(|row, rows| {
                rows.extend(take(row));
                Ok(())
            })
        })
    }
}
