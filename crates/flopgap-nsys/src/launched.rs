//! Reads the GPU work of a trace with the ranges around its launches.

use std::sync::Arc;

use flopgap_trace::{Interval, LaunchCalls, Nesting, Owners};

use crate::tables::host::{TimedCall, timed_calls};
use crate::{AttributeBy, Attribution, CorrelationId, Error, Launched, ThreadId, Trace};

/// Calls `add` with every call of a trace that has a thread and a number, and whether it is one
/// that was recorded before without its backtrace.
pub(crate) fn add_calls(
    trace: &Trace,
    add: &mut dyn FnMut(ThreadId, Interval, CorrelationId, bool),
) -> Result<(), Error> {
    for call in timed_calls(trace)? {
        let TimedCall { start, end, id } = call?;
        let (Some(thread), Some(correlation)) = (id.thread, id.correlation) else { continue };
        add(thread, Interval { start, end }, correlation, id.has_backtrace);
    }
    Ok(())
}

/// Places every call of a trace. A call that was recorded twice, once with its backtrace, is one
/// call: nsys counts its kernels twice.
pub(crate) fn nesting(trace: &Trace, owners: &Owners, by: AttributeBy) -> Result<Nesting, Error> {
    let mut calls = LaunchCalls::default();
    add_calls(trace, &mut |thread, interval, correlation, is_second| {
        calls.add(thread, interval, correlation, is_second);
    })?;
    Ok(Nesting::new(calls, owners, by))
}

impl Trace {
    /// The GPU work of the trace and the ranges around its launches.
    ///
    /// Copies and memsets count as work like kernels. Work whose launch was not recorded belongs to
    /// no range. While a value that was read before is alive, it is that one.
    ///
    /// ```
    /// use flopgap_nsys::{AttributeBy, Attribution, Trace};
    ///
    /// # let database = zstd::decode_all(std::fs::File::open("../../fixtures/nsys/small_forward_backward.sqlite.zst")?)?;
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("small_forward_backward.sqlite");
    /// # std::fs::write(&path, database)?;
    /// let trace = Trace::open(&path)?;
    /// let nvtx = trace.nvtx_ranges()?;
    /// let is_backward = |&at: &usize| nvtx.names.get(nvtx.ranges[at].name).is("backward");
    /// let backward: Vec<usize> = (0..nvtx.ranges.len()).filter(is_backward).collect();
    /// let kernels = |by| -> Result<u64, flopgap_nsys::Error> {
    ///     let launched = trace.launched(Attribution { by, ..Attribution::default() })?;
    ///     Ok(launched.work_of(&backward).iter().flatten().map(|work| work.kernels).sum())
    /// };
    /// // Autograd launches the backward pass from a thread of its own.
    /// assert_eq!(kernels(AttributeBy::Thread)?, 3);
    /// assert_eq!(kernels(AttributeBy::Process)?, 1610);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoTable`] without annotations, API calls or any GPU work.
    pub fn launched(&self, attribution: Attribution) -> Result<Arc<Launched>, Error> {
        if let Some(launched) = self.memory().launched(attribution) {
            return Ok(launched);
        }
        let nvtx = self.nvtx_ranges()?;
        let nesting = nesting(self, &Owners::of(&nvtx), attribution.by)?;
        let mut launched = Launched::collect(nvtx, nesting);
        let kinds = self.identified_work(attribution.whole_graphs, |work, kind| launched.add(&work, kind))?;
        let launched = Arc::new(launched.finish(kinds));
        self.memory().keep_launched(attribution, &launched);
        Ok(launched)
    }
}
