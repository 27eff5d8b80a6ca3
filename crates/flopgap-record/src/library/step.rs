//! Counting whole steps: each range of the user is counted with one group of metrics.
//!
//! Nothing runs alone for it, on any thread: a count begins before a step, ends when its work has
//! ended, and has what the whole process did meanwhile. It is what the kernels of a step add up to.

use std::ffi::c_void;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::cupti::Cupti;
use super::format::event;
use super::plan::{Plan, TIMES, not_counted};
use super::profiler::Counter;
use super::range::Wanted;
use super::recorder::Recorder;

/// Steps of this process.
#[derive(Default)]
pub(super) struct Steps {
    state: Mutex<State>,
    stops: AtomicBool,
    ended: AtomicBool,
}

#[derive(Default)]
struct State {
    group: usize,
    counter: Option<Counter>,
    /// Whether each row of the counter is that of a step.
    rows: Vec<bool>,
    /// A step is counted now.
    is_open: bool,
    /// It has launched graphs.
    has_graphs: bool,
    /// How many steps in a row could not be counted.
    missed: u32,
}

/// After so many of them, none will be: the recording has to begin some time.
const MISSED: u32 = 32;

impl Steps {
    pub(super) fn have_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Ends counting, with the next step where a counter is at work.
    pub(super) fn stop(&self) {
        self.stops.store(true, Ordering::Release);
        if self.state().counter.is_none() {
            self.end();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A graph is about to be launched.
    pub(super) fn launches_graph(&self) {
        self.state().has_graphs = true;
    }

    /// A step begins on a thread that launches in this context. It can be counted where that is
    /// known, and where no launches are captured.
    pub(super) fn begins(
        &self,
        recorder: &Recorder,
        cupti: &Cupti,
        plan: &Plan,
        context: *mut c_void,
        can_be_counted: bool,
    ) {
        let mut state = self.state();
        if self.have_ended() || state.is_open {
            return;
        }
        if !can_be_counted {
            return self.miss(recorder, cupti, plan, &mut state);
        }
        if state.counter.is_none() {
            match plan.begin(cupti, state.group, context) {
                Ok(counter) => state.counter = Some(counter),
                Err(reason) => return self.fail(recorder, cupti, plan, &mut state, &reason),
            }
        }
        let Some(counter) = &state.counter else { return };
        match counter.push(cupti, &plan.functions, state.rows.len()) {
            Ok(()) => (state.is_open, state.has_graphs) = (true, false),
            Err(reason) => self.fail(recorder, cupti, plan, &mut state, &reason),
        }
    }

    /// A graph is about to be captured: while it is, counters may neither begin nor end, nor change
    /// what is launched. The step is not counted, and the next one begins with its group again.
    pub(super) fn captures(&self, recorder: &Recorder, cupti: &Cupti, plan: &Plan) {
        let mut state = self.state();
        let Some(mut counter) = state.counter.take() else { return };
        if mem::take(&mut state.is_open) {
            // What was counted is dropped, and so is an error.
            let _ = counter.pop(cupti, &plan.functions);
        }
        counter.end(cupti, &plan.functions);
        state.rows.clear();
        self.miss(recorder, cupti, plan, &mut state);
    }

    /// A step is not counted.
    fn miss(&self, recorder: &Recorder, cupti: &Cupti, plan: &Plan, state: &mut State) {
        state.missed += 1;
        if state.missed == MISSED {
            let reason = "steps begin on threads that launch nothing, or capture graphs";
            self.fail(recorder, cupti, plan, state, reason);
        }
    }

    /// It ends.
    pub(super) fn ends(&self, recorder: &Recorder, cupti: &Cupti, plan: &Plan) {
        let mut state = self.state();
        if !mem::take(&mut state.is_open) {
            return;
        }
        let Some(counter) = &state.counter else { return };
        if let Err(reason) = counter.pop(cupti, &plan.functions) {
            return self.fail(recorder, cupti, plan, &mut state, &reason);
        }
        // What a counter does to begin is in its first row.
        let is_first = state.rows.is_empty();
        let lacks_graphs = state.has_graphs && plan.is_of_shader_cores(state.group);
        state.rows.push(!is_first && !lacks_graphs);
        state.missed = 0;
        let stops = self.stops.load(Ordering::Acquire);
        if stops || state.rows.len() > usize::from(TIMES) {
            self.close(recorder, cupti, plan, &mut state);
            if stops || state.group == plan.groups.len() {
                self.end();
            }
        }
    }

    /// Ends the counter of a group, and goes on to the next group.
    fn close(&self, recorder: &Recorder, cupti: &Cupti, plan: &Plan, state: &mut State) {
        let rows = mem::take(&mut state.rows);
        let group = u32::try_from(state.group).unwrap_or(0);
        state.group += 1;
        let Some(counter) = state.counter.take() else { return };
        let name = recorder.wanted.as_ref().map(Wanted::pattern).unwrap_or_default();
        let read = counter.finish(cupti, &plan.functions, rows.len(), |row, values| {
            if !rows[row] {
                return;
            }
            let mut bytes = group.to_le_bytes().to_vec();
            bytes.extend(u32::try_from(values.len()).unwrap_or(0).to_le_bytes());
            bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            recorder.definition(event::STEP, &[&bytes, name.as_bytes()]);
        });
        if let Err(reason) = read {
            self.fail(recorder, cupti, plan, state, &reason);
        }
    }

    fn fail(&self, recorder: &Recorder, cupti: &Cupti, plan: &Plan, state: &mut State, reason: &str) {
        not_counted(recorder, reason);
        if let Some(mut counter) = state.counter.take() {
            counter.end(cupti, &plan.functions);
        }
        self.end();
    }
}
