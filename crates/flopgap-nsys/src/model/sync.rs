//! Waiting, and the events that are waited for.

use super::operation::{MORE, Placement, placed, placement};
use crate::row::Row;
use crate::tables::{CUDA_EVENT, Column, SYNC, need, want};
use crate::{Error, GlobalId, RowsOf, Trace};

/// The event id of what is no event.
const NO_EVENT: i64 = 0xffff_ffff;

/// A wait for GPU work, as the driver saw it. The stream of a wait for a whole context means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Synchronization {
    /// When and where; the correlation is that of the call that waited.
    pub at: Placement,
    /// What was waited for: see [`sync_label`](crate::sync_label).
    pub kind: i64,
    /// The event that was waited for, when it was one.
    pub event: Option<i64>,
}

/// A CUDA event that was recorded into a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CudaEvent {
    /// When the GPU reached it; absent in exports before 2026, and where the event takes no time (0).
    pub timestamp: Option<i64>,
    /// Which GPU, as the process numbers them.
    pub device: i64,
    /// The CUDA context.
    pub context: i64,
    /// The stream.
    pub stream: i64,
    /// Ties it to the call that recorded it, within its process.
    pub correlation: Option<i64>,
    /// The process.
    pub process: Option<GlobalId>,
    /// The event's id.
    pub event: i64,
}

impl Synchronization {
    /// The columns that [`Synchronization::of`] reads.
    fn columns() -> Vec<Column> {
        placed([need("syncType"), want("eventId")])
    }

    fn of(row: &Row<'_>) -> Option<Synchronization> {
        let event = row.int(MORE + 1).filter(|event| *event != NO_EVENT);
        Some(Synchronization { at: placement(row)?, kind: row.int(MORE)?, event })
    }
}

impl Trace {
    /// Calls `visit` with every synchronization, in the order of the file.
    ///
    /// # Errors
    /// [`Error::NoTable`] when none were recorded.
    pub fn synchronizations(&self, mut visit: impl FnMut(Synchronization)) -> Result<(), Error> {
        self.scan(&SYNC, &Synchronization::columns(), |row| {
            visit(Synchronization::of(row)?);
            Some(())
        })
    }

    /// Every synchronization, in the order of the file, one when it is asked for.
    ///
    /// # Errors
    /// As [`Trace::kernel_rows`].
    pub fn synchronization_rows(&self) -> Result<RowsOf<Synchronization>, Error> {
        self.rows_of(&SYNC, &Synchronization::columns(), Synchronization::of)
    }

    /// Calls `visit` with every record of a CUDA event, in the order of the file.
    ///
    /// # Errors
    /// [`Error::NoTable`] when none were recorded.
    pub fn cuda_events(&self, mut visit: impl FnMut(CudaEvent)) -> Result<(), Error> {
        let columns = [
            want("timestamp"),
            need("deviceId"),
            need("contextId"),
            need("streamId"),
            want("correlationId"),
            want("globalPid"),
            need("eventId"),
        ];
        self.scan(&CUDA_EVENT, &columns, |row| {
            visit(CudaEvent {
                timestamp: row.int(0).filter(|time| *time != 0),
                device: row.int(1)?,
                context: row.int(2)?,
                stream: row.int(3)?,
                correlation: row.int(4),
                process: row.int(5).map(GlobalId),
                event: row.int(6)?,
            });
            Some(())
        })
    }
}
