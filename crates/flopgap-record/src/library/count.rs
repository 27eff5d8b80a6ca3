//! Counting, before the recording: each launch that is unlike the others is counted a few times.
//!
//! Counters and times of kernels exclude each other: while CUPTI records kernels, it patches them
//! and counts wrong. So counting comes first, and the recording begins when launches bring nothing
//! new any more. Only launches that are needed are counted, each on its own; all others run as
//! usual. What counts as *alike* is the kernel, its sizes, and the launches before it on its
//! stream: the same kernel multiplies factors of other lengths with the same grid.

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, ptr};

use super::c;
use super::cupti::{Cupti, DRIVER};
use super::format::{COUNTERS, STEPS, counted, event, severity};
use super::launch::{Call, FOLLOWED, Function, Launch, Work};
use super::plan::{Plan, TIMES, not_counted};
use super::profiler::{Counter, Functions, ROOM};
use super::recorder::Recorder;
use super::step::Steps;

/// Counts of this process.
pub(super) struct Counting {
    plan: Plan,
    turn: Turn,
    state: Mutex<State>,
    /// Whether counting is to end.
    stops: AtomicBool,
    /// Whether no launches are counted any more.
    launches_ended: AtomicBool,
    /// Whole steps, which are counted after the launches.
    steps: Option<Steps>,
}

/// The work of a launch, after the works that were launched before it on its stream: numbers.
type Key = [u32; counted::WORKS];

#[derive(Default)]
struct State {
    /// The only context that is counted: CUPTI crashes with counters of two GPUs.
    context: usize,
    works: HashMap<Work, u32>,
    /// The last works of each stream.
    streams: HashMap<usize, Key>,
    keys: HashMap<Key, Seen>,
    launches: u64,
    /// After how many launches at most one was seen again.
    period: u64,
    captures: u32,
    group: usize,
    counter: Option<Counter>,
    rows: Vec<Key>,
    /// Rows of all counters.
    all_rows: usize,
    /// Groups in a row that had nothing to count.
    idle_groups: usize,
    /// When something was counted last, and how many launches ago.
    last: Option<(Instant, u64)>,
    current: Option<Current>,
}

/// A launch between its two callbacks.
struct Current {
    key: Key,
    stream: usize,
    is_counted: bool,
}

#[derive(Default)]
struct Seen {
    launch: u64,
    /// How often it was counted, by group.
    times: Vec<u8>,
}

/// A group is done after so many launches without anything to count, or as many as make two steps.
const QUIET: u64 = 1000;
const QUIET_AT_MOST: u64 = 20_000;
/// Or after so much time.
const QUIET_TIME: Duration = Duration::from_secs(2);
/// Programs whose launches never repeat are counted up to here.
const ROWS: usize = 20_000;
/// Marks a call whose thread has the turn.
const TAKEN: u64 = 0x666c_6f70;
/// Marks a call within a whole step, which any thread makes at any time.
const IN_STEPS: u64 = 0x7374_6570;

thread_local! {
    /// Where this thread launched last, of the context that is counted.
    static CONTEXT: Cell<*mut c_void> = const { Cell::new(ptr::null_mut()) };
}

/// One thread launches at a time, so that nothing else runs between the two ends of a count.
struct Turn {
    holder: Mutex<Option<u32>>,
    free: Condvar,
}

impl Turn {
    /// Waits for the turn. A call within another one does not get it.
    fn take(&self) -> bool {
        let me = c::thread();
        let mut holder = self.holder.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match *holder {
                Some(thread) if thread == me => return false,
                Some(_) => holder = self.free.wait(holder).unwrap_or_else(PoisonError::into_inner),
                None => {
                    *holder = Some(me);
                    return true;
                }
            }
        }
    }

    fn give(&self) {
        *self.holder.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.free.notify_one();
    }
}

impl Counting {
    /// What the directory asks for, if it does.
    pub(super) fn asked(recorder: &Recorder, cupti: &Cupti) -> Option<Counting> {
        let file = fs::read_to_string(recorder.directory.join(COUNTERS)).ok()?;
        let functions = Functions::new(cupti.library);
        let functions = functions.inspect_err(|reason| not_counted(recorder, reason)).ok()?;
        let mut lines = file.lines();
        let (chip, what) = lines.next()?.split_once(' ')?;
        let chip = CString::new(chip).ok()?;
        let mut groups: Vec<Vec<CString>> = Vec::new();
        for (number, metrics) in (0_u32..).zip(lines) {
            recorder.definition(event::METRICS, &[&number.to_le_bytes(), metrics.as_bytes()]);
            groups.push(metrics.split(' ').filter_map(|metric| CString::new(metric).ok()).collect());
        }
        if groups.is_empty() {
            not_counted(recorder, "this GPU counts nothing in one pass");
            return None;
        }
        Some(Counting {
            plan: Plan { functions, chip, groups },
            turn: Turn { holder: Mutex::new(None), free: Condvar::new() },
            state: Mutex::default(),
            stops: AtomicBool::new(false),
            launches_ended: AtomicBool::new(what == STEPS),
            steps: recorder.wanted.is_some().then(Steps::default),
        })
    }

    /// Whether there is nothing to count any more.
    pub(super) fn has_ended(&self) -> bool {
        self.launches_ended() && self.steps.as_ref().is_none_or(Steps::have_ended)
    }

    fn launches_ended(&self) -> bool {
        self.launches_ended.load(Ordering::Acquire)
    }

    /// Asks CUPTI to call before and after launches, or not to any more.
    pub(super) fn follow(cupti: &Cupti, subscriber: *mut c_void, on: bool) {
        for (number, _) in FOLLOWED {
            // SAFETY: what the caller subscribed. Older versions do not know all numbers.
            unsafe { (cupti.enable_callback)(u32::from(on), subscriber, DRIVER, number) };
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No launches are counted any more.
    fn end(&self) {
        self.launches_ended.store(true, Ordering::Release);
    }

    fn fail(&self, recorder: &Recorder, cupti: &Cupti, state: &mut State, reason: &str) {
        not_counted(recorder, reason);
        if let Some(mut counter) = state.counter.take() {
            counter.end(cupti, &self.plan.functions);
        }
        self.end();
        // What fails for a launch fails for a step.
        self.steps.iter().for_each(Steps::end);
    }

    /// Ends counting, with the next launch where a counter is at work.
    pub(super) fn stop(&self) {
        self.stops.store(true, Ordering::Release);
        if self.state().counter.is_none() {
            self.end();
        }
        self.steps.iter().for_each(Steps::stop);
    }

    /// The range that is recorded alone begins on this thread.
    pub(super) fn step_begins(&self, recorder: &Recorder, cupti: &Cupti) {
        let Some(steps) = self.steps.as_ref().filter(|_| self.launches_ended()) else { return };
        // While launches are captured, counters may neither begin nor end.
        let context = CONTEXT.try_with(Cell::get).unwrap_or(ptr::null_mut());
        let is_free = self.state().captures == 0;
        steps.begins(recorder, cupti, &self.plan, context, is_free && !context.is_null());
    }

    /// And ends.
    pub(super) fn step_ends(&self, recorder: &Recorder, cupti: &Cupti) {
        if let Some(steps) = &self.steps {
            steps.ends(recorder, cupti, &self.plan);
        }
    }

    /// A function of the driver begins or ends.
    ///
    /// # Safety
    /// CUPTI passed this call for the function of this number.
    pub(super) unsafe fn called(&self, recorder: &Recorder, cupti: &Cupti, number: u32, call: &Call) {
        let Some(&(_, function)) = FOLLOWED.iter().find(|(followed, _)| *followed == number) else { return };
        if call.word.is_null() {
            return;
        }
        if call.begins() {
            if self.has_ended() {
                return;
            }
            if self.launches_ended() {
                // SAFETY: not null; CUPTI gives each call a word of its own.
                unsafe { *call.word = IN_STEPS };
                return self.called_in_steps(recorder, cupti, function, call);
            }
            if !self.turn.take() {
                return;
            }
            // SAFETY: as above.
            unsafe { *call.word = TAKEN };
            // SAFETY: as the caller says.
            let launch = unsafe { call.launch(function, |graph| cupti.graph(graph)) };
            let mut state = self.state();
            match launch {
                Some(launch) => self.launches(recorder, cupti, &mut state, launch, call.context),
                None if function == Function::BeginCapture => {
                    // While launches are captured, counters may neither begin nor end.
                    if state.counter.is_some() {
                        self.close(recorder, cupti, &mut state);
                    }
                    state.captures += 1;
                }
                None => {}
            }
            return;
        }
        // SAFETY: as above.
        let word = unsafe { call.word.replace(0) };
        if word == IN_STEPS {
            captured(&mut self.state(), function, call);
        } else if word == TAKEN {
            self.launched(recorder, cupti, &mut self.state(), function, call);
            self.turn.give();
        }
    }

    /// Something is about to be launched or captured, while whole steps are counted.
    fn called_in_steps(&self, recorder: &Recorder, cupti: &Cupti, function: Function, call: &Call) {
        match function {
            Function::BeginCapture => {
                if let Some(steps) = &self.steps {
                    steps.captures(recorder, cupti, &self.plan);
                }
                return self.state().captures += 1;
            }
            Function::EndCapture => return,
            Function::Graph => self.steps.iter().for_each(Steps::launches_graph),
            Function::Kernel | Function::KernelEx | Function::Cooperative => {}
        }
        let mut state = self.state();
        if state.context == 0 {
            state.context = call.context.addr();
        }
        // CUPTI crashes with counters of two GPUs.
        if state.context == call.context.addr() {
            let _ = CONTEXT.try_with(|context| context.set(call.context));
        }
    }

    /// Something is about to be launched.
    fn launches(
        &self,
        recorder: &Recorder,
        cupti: &Cupti,
        state: &mut State,
        launch: Launch,
        context: *mut c_void,
    ) {
        if state.context == 0 {
            state.context = context.addr();
        }
        if state.context != context.addr() {
            return;
        }
        let runs_alone = launch.work.runs_alone();
        let is_graph = matches!(launch.work, Work::Graph(_));
        let stream = launch.stream;
        let key = state.key(recorder, launch);
        state.current = Some(Current { key, stream, is_counted: false });
        if state.captures > 0 {
            return;
        }
        let quiet = (2 * state.period).clamp(QUIET, QUIET_AT_MOST);
        let (since, at) = *state.last.get_or_insert((Instant::now(), state.launches));
        let is_quiet = state.launches - at > quiet || since.elapsed() > QUIET_TIME;
        let stops = self.stops.load(Ordering::Acquire);
        if state.rows.len() == ROOM || is_quiet || stops {
            self.close(recorder, cupti, state);
            if stops || state.idle_groups >= self.plan.groups.len() {
                return self.end();
            }
            if state.all_rows >= ROWS {
                let text =
                    "counting ended early, because launches keep changing: not all kernels are counted";
                recorder.message(severity::WARNING, text);
                return self.end();
            }
        }
        let group = state.group;
        let is_counted = !(is_graph && self.plan.is_of_shader_cores(group));
        let groups = self.plan.groups.len();
        let times = &mut state.keys.entry(key).or_default().times;
        times.resize(groups, 0);
        if !runs_alone || !is_counted || times[group] >= TIMES {
            return;
        }
        // What a counter does to begin is in its first row, which counts for nothing.
        let is_first = state.counter.is_none();
        if !is_first {
            times[group] += 1;
        }
        if is_first {
            match self.plan.begin(cupti, group, context) {
                Ok(counter) => state.counter = Some(counter),
                Err(reason) => return self.fail(recorder, cupti, state, &reason),
            }
        }
        let Some(counter) = &state.counter else { return };
        match counter.push(cupti, &self.plan.functions, state.rows.len()) {
            Ok(()) => {
                state.rows.push(if is_first { [0; counted::WORKS] } else { key });
                state.last = Some((Instant::now(), state.launches));
                state.current.iter_mut().for_each(|current| current.is_counted = true);
            }
            Err(reason) => self.fail(recorder, cupti, state, &reason),
        }
    }

    /// A followed function has returned.
    fn launched(
        &self,
        recorder: &Recorder,
        cupti: &Cupti,
        state: &mut State,
        function: Function,
        call: &Call,
    ) {
        captured(state, function, call);
        let Some(Current { key, stream, is_counted }) = state.current.take() else { return };
        if is_counted
            && let Some(counter) = &state.counter
            && let Err(reason) = counter.pop(cupti, &self.plan.functions)
        {
            self.fail(recorder, cupti, state, &reason);
        }
        if call.succeeded() {
            state.streams.insert(stream, key);
        } else if is_counted && let Some(row) = state.rows.last_mut() {
            // Nothing ran: the row has nothing.
            *row = [0; counted::WORKS];
        }
    }

    /// Ends the counter of a group, if there is one, and goes on to the next group.
    fn close(&self, recorder: &Recorder, cupti: &Cupti, state: &mut State) {
        let rows = std::mem::take(&mut state.rows);
        state.idle_groups = if rows.is_empty() { state.idle_groups + 1 } else { 0 };
        state.all_rows += rows.len();
        state.last = None;
        let group = u32::try_from(state.group).unwrap_or(0);
        state.group = (state.group + 1) % self.plan.groups.len().max(1);
        let Some(counter) = state.counter.take() else { return };
        let read = counter.finish(cupti, &self.plan.functions, rows.len(), |row, values| {
            let key = rows[row];
            if key[counted::WORKS - 1] == 0 {
                return;
            }
            let mut bytes = group.to_le_bytes().to_vec();
            bytes.extend(key.iter().flat_map(|work| work.to_le_bytes()));
            bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            recorder.definition(event::COUNTED, &[&bytes]);
        });
        if let Err(reason) = read {
            self.fail(recorder, cupti, state, &reason);
        }
    }
}

impl State {
    /// The key of a launch, which counts it.
    fn key(&mut self, recorder: &Recorder, launch: Launch) -> Key {
        let next = u32::try_from(self.works.len()).unwrap_or(u32::MAX) + 1;
        let Launch { work, stream } = launch;
        let number = *self.works.entry(work).or_insert_with_key(|work| {
            define(recorder, next, work);
            next
        });
        let before = self.streams.get(&stream).copied().unwrap_or_default();
        let mut key = [0; counted::WORKS];
        key[..counted::WORKS - 1].copy_from_slice(&before[1..]);
        key[counted::WORKS - 1] = number;
        self.launches += 1;
        let seen = self.keys.entry(key).or_default();
        if seen.launch > 0 {
            self.period = self.period.max(self.launches - seen.launch);
        }
        seen.launch = self.launches;
        key
    }
}

/// A followed function has returned: whether launches are captured from now on.
fn captured(state: &mut State, function: Function, call: &Call) {
    let ends = match function {
        Function::BeginCapture => !call.succeeded(),
        function => function == Function::EndCapture,
    };
    state.captures = state.captures.saturating_sub(u32::from(ends));
}

/// Writes what a number means.
fn define(recorder: &Recorder, number: u32, work: &Work) {
    let (graph, name, [x, y, z], [width, height, depth], shared) = match work {
        Work::Kernel { name, grid, block, shared } => (0, &name[..], *grid, *block, *shared),
        Work::Graph(graph) => (*graph, &[][..], [0; 3], [0; 3], 0),
    };
    let words = [number, graph, x, y, z, width, height, depth, shared];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    recorder.definition(event::WORK, &[&bytes, name]);
}
