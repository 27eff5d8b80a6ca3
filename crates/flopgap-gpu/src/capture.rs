//! Tracks stream captures.

use std::sync::atomic::{AtomicUsize, Ordering};

use cudarc::driver::sys;

use crate::error::{During as _, GpuError};

/// Open captures of this crate. While there are none, the driver need not be asked about its
/// streams.
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// An open capture, counted from before the driver begins it until after it has ended.
#[derive(Debug)]
pub(crate) struct Open(());

impl Open {
    pub(crate) fn new() -> Self {
        OPEN.fetch_add(1, Ordering::SeqCst);
        Open(())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Whether this crate is capturing any stream of this process.
pub(crate) fn is_any_open() -> bool {
    OPEN.load(Ordering::SeqCst) > 0
}

/// The driver's number of the capture that a stream belongs to, if any.
pub(crate) fn of(stream: sys::CUstream) -> Result<Option<u64>, GpuError> {
    use sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    let (mut status, mut id) = (CU_STREAM_CAPTURE_STATUS_NONE, 0);
    let none = std::ptr::null_mut;
    // SAFETY: the stream is alive; null pointers ask for nothing.
    let result = unsafe {
        sys::cuStreamGetCaptureInfo_v3(
            stream,
            &raw mut status,
            &raw mut id,
            none(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
        )
    };
    result.result().during("query the capture of a stream")?;
    Ok((status != CU_STREAM_CAPTURE_STATUS_NONE).then_some(id))
}
