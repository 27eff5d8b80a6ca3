//! Synchronization, and CUDA events.

use super::TableSpec;
use super::codes::SyncKind;
use super::placement::{Placement, placement};
use crate::{ContextId, CorrelationId, DeviceId, Error, EventId, ProcessId, RowsOf, StreamId, Trace};

const SYNC: TableSpec = TableSpec::new("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "CUDA synchronization");
const CUDA_EVENT: TableSpec = TableSpec::new("CUPTI_ACTIVITY_KIND_CUDA_EVENT", "CUDA events");

/// The event id that stands for "no event".
const NO_EVENT: EventId = EventId(0xffff_ffff);

/// A wait for GPU work, as the driver saw it. The stream of a wait for a whole context means
/// nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Synchronization {
    /// When and where; the correlation is that of the call that waited.
    pub at: Placement,
    /// What was waited for.
    pub kind: SyncKind,
    /// The event that was waited for, when it was one.
    pub event: Option<EventId>,
}

/// A CUDA event that was recorded into a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CudaEvent {
    /// When the GPU reached it; absent in exports before 2026, and where the event takes no time
    /// (0).
    pub timestamp: Option<i64>,
    /// Which GPU, as the process numbers them.
    pub device: DeviceId,
    /// The CUDA context.
    pub context: ContextId,
    /// The stream.
    pub stream: StreamId,
    /// Ties it to the call that recorded it, within its process.
    pub correlation: Option<CorrelationId>,
    /// The process.
    pub process: Option<ProcessId>,
    /// The event's id.
    pub event: EventId,
}

impl Trace {
    /// Every synchronization, in the order of the file.
    ///
    /// # Errors
    /// As [`Trace::kernels`].
    pub fn synchronizations(&self) -> Result<RowsOf<Synchronization>, Error> {
        let mut select = self.select(&SYNC);
        let at = placement(&mut select);
        let (kind, event) = (select.need("syncType"), select.want("eventId"));
        let rows = select.rows(move |row| {
            let event = row.int(event).map(EventId).filter(|event| *event != NO_EVENT);
            Some(Synchronization { at: at(row)?, kind: SyncKind::of(row.int(kind)?), event })
        })?;
        Ok(RowsOf::new(self, rows))
    }

    /// Every record of a CUDA event, in the order of the file.
    ///
    /// # Errors
    /// As [`Trace::kernels`].
    pub fn cuda_events(&self) -> Result<RowsOf<CudaEvent>, Error> {
        let mut select = self.select(&CUDA_EVENT);
        let (timestamp, device) = (select.want("timestamp"), select.need("deviceId"));
        let (context, stream) = (select.need("contextId"), select.need("streamId"));
        let (correlation, process) = (select.want("correlationId"), select.want("globalPid"));
        let event = select.need("eventId");
        let rows = select.rows(move |row| {
            Some(CudaEvent {
                timestamp: row.int(timestamp).filter(|time| *time != 0),
                device: DeviceId(row.int(device)?),
                context: ContextId(row.int(context)?),
                stream: StreamId(row.int(stream)?),
                correlation: row.int(correlation).map(CorrelationId),
                process: row.int(process).map(ProcessId),
                event: EventId(row.int(event)?),
            })
        })?;
        Ok(RowsOf::new(self, rows))
    }
}
