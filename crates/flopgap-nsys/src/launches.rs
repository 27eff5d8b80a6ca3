//! From GPU work to the call that launched it.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::hierarchy::Span;
use crate::tables::KERNEL;
use crate::trace::{need, want};
use crate::{ApiCall, Error, GlobalId, KernelName, Trace};

/// The class of rows that repeat a call to add its backtrace.
const BACKTRACE: i64 = 67;

/// The API calls of a trace by process and correlation id.
#[derive(Debug, Default)]
pub(crate) struct Launches {
    calls: FxHashMap<(GlobalId, i64), ApiCall>,
    /// The process of all calls, when there is only one: exports that lack the process of kernels mean this one.
    only: Option<GlobalId>,
}

impl Launches {
    /// Reads all calls. A call that was recorded twice, once with its backtrace, is one call: nsys counts its kernels twice.
    pub(crate) fn read(trace: &Trace) -> Result<Launches, Error> {
        let mut calls: FxHashMap<(GlobalId, i64), ApiCall> = FxHashMap::default();
        let mut processes = FxHashSet::default();
        trace.api_calls(|call| {
            let (Some(thread), Some(correlation)) = (call.thread, call.correlation) else {
                return;
            };
            processes.insert(thread.process());
            calls
                .entry((thread.process(), correlation))
                .and_modify(|known| {
                    if known.class == BACKTRACE && call.class != BACKTRACE {
                        *known = call;
                    }
                })
                .or_insert(call);
        })?;
        let only = (processes.len() == 1).then(|| processes.into_iter().next()).flatten();
        Ok(Launches { calls, only })
    }

    /// The call that started a piece of GPU work; nothing when it was not recorded.
    pub(crate) fn of(&self, process: Option<GlobalId>, correlation: Option<i64>) -> Option<&ApiCall> {
        self.calls.get(&(process.or(self.only)?, correlation?))
    }

    /// All kernels by the call that launched them; `orphan` gets the name and duration of those whose call is unknown.
    pub(crate) fn kernels(
        &self,
        trace: &Trace,
        names: KernelName,
        mut orphan: impl FnMut(i64, i64),
    ) -> Result<Vec<Launched>, Error> {
        let mut index: FxHashMap<(GlobalId, i64), usize> = FxHashMap::default();
        let mut work: Vec<Launched> = Vec::new();
        let [first, second] = names.columns();
        let columns = [need("start"), need("end"), want("correlationId"), want("globalPid"), first, second];
        trace.scan(&KERNEL, &columns, |row| {
            let name = row.int(4).or_else(|| row.int(5))?;
            let duration = row.int(1)?.saturating_sub(row.int(0)?);
            let call = self.of(row.int(3).map(GlobalId), row.int(2));
            let Some((call, thread)) = call.and_then(|call| Some((call, call.thread?))) else {
                orphan(name, duration);
                return Some(());
            };
            let key = (thread.process(), call.correlation?);
            let at = *index.entry(key).or_insert(work.len());
            if at == work.len() {
                work.push(Launched { span: span_of(call, thread), kernels: Vec::new() });
            }
            work[at].kernels.push((name, duration));
            Some(())
        })?;
        Ok(work)
    }
}

/// The kernels of one launch: one, or all those of a graph.
pub(crate) struct Launched {
    pub(crate) span: Span,
    /// Name ids and durations.
    pub(crate) kernels: Vec<(i64, i64)>,
}

/// What identifies a launch: its thread and when it was.
pub(crate) fn span_of(call: &ApiCall, thread: GlobalId) -> Span {
    Span { id: call.correlation.unwrap_or_default(), start: call.start, end: call.end, thread }
}
