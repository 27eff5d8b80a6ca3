//! Synchronization.

use super::TableSpec;
use super::codes::SyncKind;
use super::placement::{Placement, placement};
use crate::{Error, EventId, RowsOf, Trace};

const SYNC: TableSpec = TableSpec::new("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "CUDA synchronization");

/// The event id that stands for "no event".
const NO_EVENT: EventId = EventId(0xffff_ffff);

/// A wait for GPU work, as the driver saw it. The stream of a wait for a whole context means
/// nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Synchronization {
    /// When and where; the correlation is that of the call that waited.
    pub at: Placement,
    /// What was waited for.
    pub kind: SyncKind,
    /// The event that was waited for, when it was one.
    pub event: Option<EventId>,
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
}
