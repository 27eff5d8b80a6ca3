//! Calls that were recorded a second time to add their backtrace.

use crate::correlation::Ids;
use crate::tables::{BACKTRACE, RUNTIME, want};
use crate::trace::Tally;
use crate::{ApiCall, Error, GlobalId, Trace};

/// The calls that have a row of their own, so that a row of class [`BACKTRACE`] for one of them only repeats it. Such a row
/// without one is the call itself.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    calls: Ids,
}

impl Repeats {
    /// Reads the calls of a trace. Worth its time only where rows with backtraces were seen.
    pub(crate) fn read(trace: &Trace) -> Result<Repeats, Error> {
        let mut repeats = Repeats::default();
        trace.scan(&RUNTIME, &[want("eventClass"), want("globalTid"), want("correlationId")], |row| {
            repeats.add(row.int(0), row.int(1).map(GlobalId), row.int(2));
            Some(())
        })?;
        Ok(repeats)
    }

    /// The same from calls that were read already.
    pub(crate) fn among(calls: &[ApiCall]) -> Repeats {
        let mut repeats = Repeats::default();
        for call in calls {
            repeats.add(Some(call.class), call.thread, call.correlation);
        }
        repeats
    }

    fn add(&mut self, class: Option<i64>, thread: Option<GlobalId>, correlation: Option<i64>) {
        if let (Some(thread), Some(correlation)) = (thread, correlation)
            && class != Some(BACKTRACE)
        {
            self.calls.insert((thread.process(), correlation));
        }
    }

    /// Whether a row repeats a call.
    pub(crate) fn repeats(
        &self,
        class: Option<i64>,
        thread: Option<GlobalId>,
        correlation: Option<i64>,
    ) -> bool {
        class == Some(BACKTRACE)
            && thread.zip(correlation).is_some_and(|(thread, id)| self.calls.contains((thread.process(), id)))
    }

    /// Warns of the rows that repeat a call, in a report that counts them as nsys does.
    pub(crate) fn warn(&self, trace: &Trace) -> Result<(), Error> {
        let mut tally = Tally::default();
        trace.scan(&RUNTIME, &[want("eventClass"), want("globalTid"), want("correlationId")], |row| {
            if self.repeats(row.int(0), row.int(1).map(GlobalId), row.int(2)) {
                tally.add(row.id());
            }
            Some(())
        })?;
        trace.warn(
            RUNTIME.name,
            &tally,
            "repeating a call to add its backtrace: API reports count the call twice, as `nsys stats` does",
        );
        Ok(())
    }
}
