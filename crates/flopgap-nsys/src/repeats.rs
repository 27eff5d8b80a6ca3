//! Calls that were recorded a second time to add their backtrace.

use flopgap_trace::CorrelationIds as Ids;

use crate::tables::host::{CallId, RUNTIME, call_ids};
use crate::trace::Tally;
use crate::warning::Oddity;
use crate::{ApiCall, Error, Trace};

/// The calls that have a row of their own, so that a row with a backtrace for one of them only
/// repeats it. Such a row without one is the call itself.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    calls: Ids,
}

impl Repeats {
    /// Reads the calls of a trace. Worth its time only where rows with backtraces were seen.
    pub(crate) fn read(trace: &Trace) -> Result<Repeats, Error> {
        let mut repeats = Repeats::default();
        for call in call_ids(trace)? {
            repeats.add(call?.0);
        }
        Ok(repeats)
    }

    /// The same from calls that were read already.
    pub(crate) fn among(calls: &[ApiCall]) -> Repeats {
        let mut repeats = Repeats::default();
        for call in calls {
            repeats.add(call.id());
        }
        repeats
    }

    fn add(&mut self, call: CallId) {
        if let Some(id) = call.of_process().filter(|_| !call.has_backtrace) {
            self.calls.insert(id);
        }
    }

    /// Whether a row repeats a call.
    pub(crate) fn repeats(&self, call: CallId) -> bool {
        call.has_backtrace && call.of_process().is_some_and(|id| self.calls.contains(id))
    }

    /// Warns of the rows that repeat a call, in a report that counts them as nsys does.
    pub(crate) fn warn(&self, trace: &Trace) -> Result<(), Error> {
        let mut tally = Tally::default();
        for call in call_ids(trace)? {
            let (call, row) = call?;
            if self.repeats(call) {
                tally.add(row);
            }
        }
        trace.warn(RUNTIME.name, &tally, Oddity::Backtrace);
        Ok(())
    }
}
