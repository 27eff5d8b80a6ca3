//! Finds the call that launched a piece of GPU work.

use flopgap_trace::{CorrelationIds as Ids, Correlations};
use rustc_hash::FxHashSet;

use crate::tables::host::api_calls;
use crate::{ApiCall, CorrelationId, Error, ProcessId, StringId, ThreadId, Trace};

/// The API calls of some GPU work, by process and correlation id.
#[derive(Debug, Default)]
pub(crate) struct Launches {
    places: Correlations,
    calls: Vec<Launch>,
}

/// A call that launched work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Launch {
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) thread: ThreadId,
    pub(crate) name: StringId,
    has_backtrace: bool,
}

/// The GPU work whose calls are looked for.
#[derive(Debug, Default)]
pub(crate) struct Work {
    ids: Ids,
    /// Ids of work that does not say whose it is.
    of_anyone: FxHashSet<CorrelationId>,
}

impl Work {
    /// Adds a piece of work.
    pub(crate) fn add(&mut self, process: Option<ProcessId>, correlation: Option<CorrelationId>) {
        match (process, correlation) {
            (Some(process), Some(correlation)) => {
                self.ids.insert((process, correlation));
            }
            (None, Some(correlation)) => {
                self.of_anyone.insert(correlation);
            }
            (_, None) => {}
        }
    }

    fn has(&self, process: ProcessId, correlation: CorrelationId) -> bool {
        self.ids.contains((process, correlation)) || self.of_anyone.contains(&correlation)
    }
}

impl Launches {
    /// Reads the calls of some work. A call that was recorded twice, once with its backtrace, is
    /// one call: nsys counts its kernels twice.
    pub(crate) fn of_work(trace: &Trace, work: &Work) -> Result<Launches, Error> {
        let mut launches = Launches::default();
        for call in api_calls(trace)? {
            launches.add(&call?, work);
        }
        Ok(launches)
    }

    fn add(&mut self, call: &ApiCall, work: &Work) {
        let (Some(thread), Some(correlation)) = (call.thread, call.correlation) else { return };
        let process = thread.process();
        if !work.has(process, correlation) {
            // Whether there is only one process is known by its calls.
            self.places.add_process(process);
            return;
        }
        let has_backtrace = call.has_backtrace();
        let launch = Launch { start: call.start, end: call.end, thread, name: call.name, has_backtrace };
        // `Correlations` holds numbers below 2^31; no trace of less than 80 GB has as many calls.
        let next = u32::try_from(self.calls.len()).expect("fewer than 2^31 launches");
        match self.places.insert(process, correlation, next) {
            None => self.calls.push(launch),
            Some(known) => {
                let known = &mut self.calls[known as usize];
                if known.has_backtrace && !has_backtrace {
                    *known = launch;
                }
            }
        }
    }

    /// The call that started a piece of GPU work; `None` when it was not recorded.
    pub(crate) fn find(
        &self,
        process: Option<ProcessId>,
        correlation: Option<CorrelationId>,
    ) -> Option<&Launch> {
        self.calls.get(self.places.get(process, correlation?)? as usize)
    }
}
