//! Which call launched which work, in one bit for each id.

use flopgap_trace::CorrelationIds as Ids;
use rustc_hash::{FxHashMap, FxHashSet};

use super::rows;
use crate::tables::gpu::{Kind, LaunchId, launch_ids};
use crate::tables::host::call_ids;
use crate::{ApiCall, CorrelationId, Error, ProcessId, ThreadId, Trace};

/// The links from calls to the GPU work that they launched.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// The process of all calls, if there is only one: work that names no process belongs to it.
    only: Option<ProcessId>,
    /// Calls with a row of their own in addition to the one with the backtrace.
    calls: Ids,
    /// Ids of GPU work.
    work: Ids,
    /// How much work has an id that several pieces share, such as the kernels of one graph launch.
    shared: FxHashMap<(ProcessId, CorrelationId), u64>,
    /// Ids whose call was written.
    written: Ids,
    numbers: FxHashMap<ProcessId, u64>,
}

impl Links {
    /// Reads the ids of all calls and all GPU work.
    pub(super) fn read(trace: &Trace) -> Result<Links, Error> {
        let mut links = Links::default();
        let mut processes = FxHashSet::default();
        for call in rows(call_ids(trace))? {
            let (call, _) = call?;
            let Some(process) = call.thread.map(ThreadId::process) else { continue };
            processes.insert(process);
            if let Some(id) = call.of_process().filter(|_| !call.has_backtrace) {
                links.calls.insert(id);
            }
        }
        links.only = (processes.len() == 1).then(|| processes.into_iter().next()).flatten();
        for kind in Kind::all(true) {
            for id in rows(launch_ids(trace, *kind))? {
                let LaunchId { process, correlation } = id?;
                links.add(process, correlation);
            }
        }
        Ok(links)
    }

    fn add(&mut self, process: Option<ProcessId>, correlation: Option<CorrelationId>) {
        let Some(id) = self.id(process, correlation) else { return };
        if !self.work.insert(id) {
            *self.shared.entry(id).or_insert(1) += 1;
        }
    }

    fn id(
        &self,
        process: Option<ProcessId>,
        correlation: Option<CorrelationId>,
    ) -> Option<(ProcessId, CorrelationId)> {
        Some((self.process(process)?, correlation?))
    }

    /// The process of a piece of GPU work.
    pub(super) fn process(&self, process: Option<ProcessId>) -> Option<ProcessId> {
        process.or(self.only)
    }

    /// Whether a row only repeats a call to add its backtrace.
    pub(super) fn repeats(&self, call: &ApiCall) -> bool {
        let call = call.id();
        call.has_backtrace && call.of_process().is_some_and(|id| self.calls.contains(id))
    }

    /// The flows that begin at a call: one for each piece of work that it launched. A call that was
    /// recorded twice begins them once.
    pub(super) fn begin(&mut self, thread: Option<ThreadId>, correlation: Option<CorrelationId>) -> Vec<u64> {
        let Some(id) = thread.map(ThreadId::process).zip(correlation) else { return Vec::new() };
        if !self.work.contains(id) || !self.written.insert(id) {
            return Vec::new();
        }
        let pieces = self.shared.get(&id).copied().unwrap_or(1);
        (0..pieces).filter_map(|piece| self.number(id, piece)).collect()
    }

    /// The flow that ends at a piece of work; `None` when its call was not recorded.
    pub(super) fn end(
        &mut self,
        process: Option<ProcessId>,
        correlation: Option<CorrelationId>,
    ) -> Option<u64> {
        let id = self.id(process, correlation)?;
        if !self.written.contains(id) {
            return None;
        }
        let piece = match self.shared.get_mut(&id) {
            Some(left) => {
                *left = left.checked_sub(1)?;
                *left
            }
            None => 0,
        };
        self.number(id, piece)
    }

    /// A number of its own for a flow: the process in the 8 high bits, the piece in the next 24,
    /// the correlation id below. `None` for what does not fit: CUDA's correlation ids have 32 bits.
    fn number(&mut self, (process, correlation): (ProcessId, CorrelationId), piece: u64) -> Option<u64> {
        let next = self.numbers.len() as u64;
        let process = *self.numbers.entry(process).or_insert(next);
        let correlation = u64::from(u32::try_from(correlation.0).ok()?);
        (process < 1 << 8 && piece < 1 << 24).then_some(process << 56 | piece << 32 | correlation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_of_many_begins_a_flow_for_each() {
        let mut links = Links::default();
        let thread = ThreadId(5 << 24 | 9);
        for _ in 0..3 {
            links.add(Some(thread.process()), Some(CorrelationId(40)));
        }
        links.add(Some(thread.process()), Some(CorrelationId(41)));
        let mut begun = links.begin(Some(thread), Some(CorrelationId(40)));
        assert_eq!(links.begin(Some(thread), Some(CorrelationId(40))), [0; 0], "recorded twice");
        let mut ended: Vec<u64> =
            (0..3).map(|_| links.end(Some(thread.process()), Some(CorrelationId(40))).unwrap()).collect();
        begun.sort_unstable();
        ended.sort_unstable();
        assert_eq!(begun, ended);
        begun.dedup();
        assert_eq!(begun.len(), 3);
        assert_eq!(
            links.end(Some(thread.process()), Some(CorrelationId(41))),
            None,
            "its call was not written"
        );
        assert_eq!(links.begin(Some(thread), Some(CorrelationId(42))), [0; 0], "nothing was launched");
    }
}
