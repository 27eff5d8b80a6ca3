//! The kinds of annotations, by nsys's numbers of them.

use super::TableSpec;

pub(crate) const NVTX: TableSpec = TableSpec::new("NVTX_EVENTS", "NVTX annotations");

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
    /// The name of a category: the column `category` has its number.
    Category,
    /// The name of a thread.
    ThreadName,
    /// A domain was created: the column `domainId` has its number.
    DomainCreate,
    /// A domain was destroyed.
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
    /// Whether it only names something, or ends a name: such rows have a time but nothing happened
    /// at it.
    pub(crate) fn is_name(self) -> bool {
        !matches!(self, NvtxKind::Mark | NvtxKind::PushPop | NvtxKind::StartEnd | NvtxKind::Other(_))
    }

    /// The kind of a row of `NVTX_EVENTS` by its `eventType`; the one place that knows these
    /// numbers.
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
