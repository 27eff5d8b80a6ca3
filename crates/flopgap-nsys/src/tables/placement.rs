//! When and where work ran on a GPU.

use crate::row::Row;
use crate::rows::Select;
use crate::{ContextId, CorrelationId, DeviceId, ProcessId, StreamId};

/// When and where a piece of work ran on a GPU, and for whom. Times are nanoseconds since the
/// recording began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Placement {
    /// When it began.
    pub start: i64,
    /// When it ended.
    pub end: i64,
    /// Which GPU, as the process numbers them.
    pub device: DeviceId,
    /// The CUDA context.
    pub context: ContextId,
    /// The green context; absent in exports before 2023.4, and 0 where there is none.
    pub green_context: Option<ContextId>,
    /// The stream.
    pub stream: StreamId,
    /// Ties it to the call that requested it, within its process.
    pub correlation: Option<CorrelationId>,
    /// The process; absent in trimmed exports.
    pub process: Option<ProcessId>,
}

impl Placement {
    /// From start to end, in nanoseconds; negative where the recording says that it ended before it
    /// began.
    pub fn duration(&self) -> i64 {
        self.end.saturating_sub(self.start)
    }
}

/// Decodes when and where a row ran.
pub(super) fn placement(
    select: &mut Select<'_>,
) -> impl Fn(&Row<'_>) -> Option<Placement> + Copy + Send + use<> {
    let (start, end) = (select.need("start"), select.need("end"));
    let (device, context) = (select.need("deviceId"), select.need("contextId"));
    let (green_context, stream) = (select.want("greenContextId"), select.need("streamId"));
    let (correlation, process) = (select.want("correlationId"), select.want("globalPid"));
    move |row| {
        Some(Placement {
            start: row.int(start)?,
            end: row.int(end)?,
            device: DeviceId(row.int(device)?),
            context: ContextId(row.int(context)?),
            green_context: row.int(green_context).map(ContextId),
            stream: StreamId(row.int(stream)?),
            correlation: row.int(correlation).map(CorrelationId),
            process: row.int(process).map(ProcessId),
        })
    }
}
