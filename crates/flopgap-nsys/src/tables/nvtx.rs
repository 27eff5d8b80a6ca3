//! Everything that was annotated, row by row.
//!
//! [`Trace::nvtx_ranges`] has the ranges with their names; this is the table itself.

use std::iter;
use std::sync::Arc;

use super::nvtx_kind::{NVTX, NvtxKind};
use crate::row::{Field, Row};
use crate::rows::{Ahead, Scan, Select};
use crate::{DomainId, Error, ProcessId, RangeId, RowsOf, StringId, ThreadId, Trace};

/// A text of the export: written out in the row, or the id of one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub enum NvtxText {
    /// A registered string, or one that nsys keeps once.
    Id(StringId),
    /// The text.
    Text(Arc<str>),
}

/// The value that a program attached to an annotation.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum NvtxPayload {
    /// An unsigned number of 64 bits.
    U64(u64),
    /// A signed number of 64 bits.
    I64(i64),
    /// A number of double precision.
    F64(f64),
    /// An unsigned number of 32 bits.
    U32(u32),
    /// A signed number of 32 bits.
    I32(i32),
    /// A number of single precision.
    F32(f32),
    /// A structure as JSON.
    Json(NvtxText),
    /// A structure as nsys writes its bytes (exports since 2026).
    Binary(Arc<str>),
}

/// A row of the annotations.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct NvtxEvent {
    /// Its row, nsys's `RangeId`.
    pub row: RangeId,
    /// When it was or began, in nanoseconds since the recording began.
    pub start: i64,
    /// When it ended; only ranges end, and not all of them.
    pub end: Option<i64>,
    /// What it is.
    pub kind: NvtxKind,
    /// The thread.
    pub thread: Option<ThreadId>,
    /// The thread that ended it, when it was another.
    pub end_thread: Option<ThreadId>,
    /// The number of its domain within the process; 0 or absent: the default domain.
    pub domain: Option<DomainId>,
    /// The number of its category within the domain.
    pub category: Option<i64>,
    /// Its color, as ARGB.
    pub color: Option<u32>,
    /// Its text.
    pub text: Option<NvtxText>,
    /// The value attached to it.
    pub payload: Option<NvtxPayload>,
}

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

/// Decodes the value that is attached to an annotation.
fn payload(select: &mut Select<'_>) -> impl Fn(&Row<'_>) -> Option<NvtxPayload> + Copy + Send + use<> {
    let (unsigned, signed) = (select.want("uint64Value"), select.want("int64Value"));
    let double = select.want("doubleValue");
    let (unsigned_32, signed_32) = (select.want("uint32Value"), select.want("int32Value"));
    let single = select.want("floatValue");
    let (json_id, json) = (select.want("jsonTextId"), select.want("jsonText"));
    let binary = select.want("binaryData");
    move |row| {
        let text = |field| row.text(field).map(Arc::from);
        #[expect(clippy::cast_possible_truncation, reason = "the program gave a number of single precision")]
        let narrow = |value: f64| NvtxPayload::F32(value as f32);
        // SQLite has no unsigned numbers: the export keeps the bits.
        let whole = row.int(unsigned).map(|value| NvtxPayload::U64(value.cast_unsigned()));
        whole
            .or_else(|| row.int(signed).map(NvtxPayload::I64))
            .or_else(|| row.real(double).map(NvtxPayload::F64))
            .or_else(|| row.int(unsigned_32).and_then(|value| value.try_into().ok()).map(NvtxPayload::U32))
            .or_else(|| row.int(signed_32).and_then(|value| value.try_into().ok()).map(NvtxPayload::I32))
            .or_else(|| row.real(single).map(narrow))
            .or_else(|| row.int(json_id).map(|id| NvtxPayload::Json(NvtxText::Id(StringId(id)))))
            .or_else(|| text(json).map(|text| NvtxPayload::Json(NvtxText::Text(text))))
            .or_else(|| text(binary).map(NvtxPayload::Binary))
    }
}

impl Trace {
    /// Every annotation, in the order of the file.
    ///
    /// # Errors
    /// [`Error::NoTable`] when nothing was annotated.
    pub fn nvtx_events(&self) -> Result<RowsOf<NvtxEvent>, Error> {
        let mut select = self.select(&NVTX);
        let columns = Columns::select(&mut select);
        let (color, payload) = (select.want("color"), payload(&mut select));
        let rows = select.rows(move |row| {
            let event = columns.decode(row)?;
            let text = event.text_id().map(NvtxText::Id);
            Some(NvtxEvent {
                row: event.id(),
                start: event.start,
                end: event.end(),
                kind: event.kind,
                thread: event.thread(),
                end_thread: event.end_thread(),
                domain: row.int(columns.domain).map(DomainId),
                category: event.category(),
                // Exports write the 32 bits as a signed or an unsigned number.
                color: row.int(color).and_then(|color| u32::try_from(color & 0xffff_ffff).ok()),
                text: text.or_else(|| event.text().map(|text| NvtxText::Text(text.into()))),
                payload: payload(row),
            })
        })?;
        Ok(RowsOf::new(self, rows))
    }
}
