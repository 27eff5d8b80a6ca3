//! Events in a stream's queue, and the time between them.

use cudarc::driver::{CudaEvent, sys};

use crate::context::Context;
use crate::error::{During as _, GpuError};
use crate::stream::Stream;

/// A place in a stream's queue. Made with [`Stream::event`].
#[derive(Debug)]
pub struct Event {
    cuda: CudaEvent,
}

impl Event {
    /// An event that is not in any queue yet: [`Event::record`] puts it into one, as often as
    /// wanted.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn new(context: &Context) -> Result<Self, GpuError> {
        // cudarc's default flag turns timing off.
        let flags = Some(sys::CUevent_flags::CU_EVENT_DEFAULT);
        let cuda = context.cuda().new_event(flags).during("create an event")?;
        Ok(Event { cuda })
    }

    /// Puts the event at the end of a stream's queue; it was taken out of where it was before.
    ///
    /// # Errors
    /// When the stream is of another device.
    pub fn record(&self, stream: &Stream) -> Result<(), GpuError> {
        self.cuda.record(stream.queue().cuda()).during("record an event")
    }

    /// Nanoseconds from `start` to this event; waits for both. The driver resolves about 500 ns, so
    /// time many launches at once.
    ///
    /// # Errors
    /// When one of them was not recorded, or a kernel between them failed.
    pub fn nanoseconds_since(&self, start: &Event) -> Result<u64, GpuError> {
        let milliseconds = start.cuda.elapsed_ms(&self.cuda).during("time the GPU")?;
        Ok(nanoseconds(milliseconds))
    }

    /// Waits until the event is reached.
    ///
    /// # Errors
    /// The error of a kernel that failed before it.
    pub fn synchronize(&self) -> Result<(), GpuError> {
        self.cuda.synchronize().during("wait for an event")
    }

    /// The event of `cudarc`, for what this crate does not wrap.
    ///
    /// # Safety
    /// The caller must not record it on a stream that is captured by other means than
    /// [`Stream::capture`]: a stream that waits for it would join that capture unnoticed.
    pub unsafe fn cuda(&self) -> &CudaEvent {
        &self.cuda
    }
}

impl Stream {
    /// Marks this place in the queue.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn event(&self) -> Result<Event, GpuError> {
        let event = Event::new(self.context())?;
        event.record(self)?;
        Ok(event)
    }

    /// What is queued from here on waits for `event`, which may be of another stream. If that one
    /// is being captured, this stream is, too, from here on.
    ///
    /// # Errors
    /// When the event is of another device.
    pub fn wait(&self, event: &Event) -> Result<(), GpuError> {
        let _closed = self.queue().close();
        let waited = self.queue().cuda().wait(&event.cuda);
        waited.during("wait for an event")
    }
}

/// The driver's milliseconds in whole nanoseconds; an event recorded out of order gives 0.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded and clamped")]
fn nanoseconds(milliseconds: f32) -> u64 {
    (f64::from(milliseconds) * 1e6).round().max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::nanoseconds;

    #[test]
    fn milliseconds_become_whole_nanoseconds() {
        assert_eq!(nanoseconds(0.001_024), 1024);
        assert_eq!(nanoseconds(12.5), 12_500_000);
        assert_eq!(nanoseconds(-0.5), 0);
    }
}
