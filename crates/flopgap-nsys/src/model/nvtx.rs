//! Everything that was annotated, row by row.
//!
//! [`Trace::nvtx_ranges`](crate::Trace::nvtx_ranges) has the ranges with their full names; this is the table itself.

use crate::row::Row;
use crate::tables::{Column, NVTX, need, want};
use crate::{Error, GlobalId, Trace};

/// What a row of the annotations is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NvtxKind {
    /// A moment (`nvtxMark`).
    Mark,
    /// A range that was pushed and popped.
    PushPop,
    /// A range that was started and ended.
    StartEnd,
    /// The name of a category: [`NvtxEvent::category`] has its number.
    Category,
    /// The name of a thread.
    ThreadName,
    /// A domain came to be: [`NvtxEvent::domain`] has its number.
    DomainCreate,
    /// A domain was given up.
    DomainDestroy,
    /// The name of a CUDA device.
    DeviceName,
    /// The name of a CUDA context.
    ContextName,
    /// The name of a CUDA stream.
    StreamName,
    /// Another kind, by nsys's number of it.
    Other(i64),
}

impl NvtxKind {
    /// Whether it only names something, or ends a name: such rows have a time but nothing happened at it.
    pub(crate) fn is_name(self) -> bool {
        !matches!(self, NvtxKind::Mark | NvtxKind::PushPop | NvtxKind::StartEnd | NvtxKind::Other(_))
    }

    /// The kind of a row of `NVTX_EVENTS` by its `eventType`; the one place that knows these numbers.
    pub fn of(number: i64) -> NvtxKind {
        // The higher numbers of the first four are those of imported annotations (NVTXT).
        match number {
            34 | 65 => NvtxKind::Mark,
            59 | 70 => NvtxKind::PushPop,
            60 | 71 => NvtxKind::StartEnd,
            33 | 64 => NvtxKind::Category,
            39 | 72 => NvtxKind::ThreadName,
            75 => NvtxKind::DomainCreate,
            76 => NvtxKind::DomainDestroy,
            97 => NvtxKind::DeviceName,
            98 => NvtxKind::ContextName,
            99 => NvtxKind::StreamName,
            other => NvtxKind::Other(other),
        }
    }
}

/// A text of the export: written out in the row, or an id for [`Trace::string`](crate::Trace::string).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NvtxText<'a> {
    /// A registered string, or one that nsys keeps once.
    Id(i64),
    /// The text.
    Text(&'a str),
}

/// The value that a program attached to an annotation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NvtxPayload<'a> {
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
    Json(NvtxText<'a>),
    /// A structure as nsys writes its bytes (exports since 2026).
    Binary(&'a str),
}

/// A row of the annotations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NvtxEvent<'a> {
    /// Its row, nsys's `RangeId`.
    pub row: i64,
    /// When it was or began, in nanoseconds since the recording began.
    pub start: i64,
    /// When it ended; only ranges end, and not all of them.
    pub end: Option<i64>,
    /// What it is.
    pub kind: NvtxKind,
    /// The thread.
    pub thread: Option<GlobalId>,
    /// The thread that ended it, when it was another.
    pub end_thread: Option<GlobalId>,
    /// The number of its domain within the process; 0 or absent: the default domain.
    pub domain: Option<i64>,
    /// The number of its category within the domain.
    pub category: Option<i64>,
    /// Its colour, as ARGB.
    pub color: Option<u32>,
    /// Its text.
    pub text: Option<NvtxText<'a>>,
    /// The value attached to it.
    pub payload: Option<NvtxPayload<'a>>,
}

const COLUMNS: [Column; 19] = [
    need("start"),
    want("end"),
    need("eventType"),
    want("globalTid"),
    want("endGlobalTid"),
    want("domainId"),
    want("category"),
    want("color"),
    want("textId"),
    want("text"),
    want("uint64Value"),
    want("int64Value"),
    want("doubleValue"),
    want("uint32Value"),
    want("int32Value"),
    want("floatValue"),
    want("jsonTextId"),
    want("jsonText"),
    want("binaryData"),
];

fn payload<'a>(row: &'a Row<'_>) -> Option<NvtxPayload<'a>> {
    #[expect(clippy::cast_sign_loss, reason = "SQLite has no unsigned numbers: the export keeps the bits")]
    let unsigned = row.int(10).map(|value| NvtxPayload::U64(value as u64));
    #[expect(clippy::cast_possible_truncation, reason = "the program gave a number of single precision")]
    let single = |value: f64| NvtxPayload::F32(value as f32);
    unsigned
        .or_else(|| row.int(11).map(NvtxPayload::I64))
        .or_else(|| row.real(12).map(NvtxPayload::F64))
        .or_else(|| row.int(13).and_then(|value| u32::try_from(value).ok()).map(NvtxPayload::U32))
        .or_else(|| row.int(14).and_then(|value| i32::try_from(value).ok()).map(NvtxPayload::I32))
        .or_else(|| row.real(15).map(single))
        .or_else(|| row.int(16).map(|id| NvtxPayload::Json(NvtxText::Id(id))))
        .or_else(|| row.text(17).map(|text| NvtxPayload::Json(NvtxText::Text(text))))
        .or_else(|| row.text(18).map(NvtxPayload::Binary))
}

impl Trace {
    /// Calls `visit` with every annotation, in the order of the file.
    ///
    /// # Errors
    /// [`Error::NoTable`] when nothing was annotated.
    pub fn nvtx_events(&self, mut visit: impl FnMut(NvtxEvent<'_>)) -> Result<(), Error> {
        self.scan(&NVTX, &COLUMNS, |row| {
            let text = row.int(8).map(NvtxText::Id).or_else(|| row.text(9).map(NvtxText::Text));
            visit(NvtxEvent {
                row: row.id(),
                start: row.int(0)?,
                end: row.int(1),
                kind: NvtxKind::of(row.int(2)?),
                thread: row.int(3).map(GlobalId),
                end_thread: row.int(4).map(GlobalId),
                domain: row.int(5),
                category: row.int(6),
                // Exports write the 32 bits as a signed or an unsigned number.
                color: row.int(7).and_then(|color| u32::try_from(color & 0xffff_ffff).ok()),
                text,
                payload: payload(row),
            });
            Some(())
        })
    }
}
