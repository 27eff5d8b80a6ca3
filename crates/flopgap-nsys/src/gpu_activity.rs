//! What each GPU did.

use flopgap_trace::Activities;

use crate::gpu_work::Backward;
use crate::{Attribution, Error, GpuActivity, Trace};

impl Trace {
    /// What each GPU did for each process, by process and device.
    ///
    /// # Errors
    /// [`Error::NoTable`] without any GPU work.
    pub fn gpu_activity(&self, attribution: Attribution) -> Result<Vec<GpuActivity>, Error> {
        let mut devices = Activities::default();
        if let Some(launched) = self.memory().any_launched(attribution.whole_graphs) {
            launched.each(|process, device, piece| {
                devices.add(process, device, launched.kind(piece), piece.start, piece.end);
            });
        } else {
            self.gpu_work(attribution.whole_graphs, Backward::LeftOut, |work| {
                devices.add(work.process, work.device, work.kind, work.start, work.end);
            })?;
        }
        Ok(devices.finish())
    }
}
