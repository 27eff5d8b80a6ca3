//! From GPU work to the call that launched it.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::tables::BACKTRACE;
use crate::{ApiCall, Error, GlobalId, Trace};

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
}
