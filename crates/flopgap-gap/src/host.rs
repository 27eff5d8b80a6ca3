//! What each thread of the host did at any time: calls of the GPU's runtime, and ranges.

use std::sync::Arc;

use flopgap_files::present;
use flopgap_flops::torch::{Marker, OperatorWork};
use flopgap_timings::{Blocking, BlockingCalls, PassKind, without_version};
use flopgap_trace::{
    CorrelationId, Correlations, Frame, Name, Names, Overhead, ProcessId, RangeNames, RangeStyle, Ranges,
    ReadError, Recording, ThreadId,
};
use rustc_hash::FxHashMap;

/// No range, no call.
pub(crate) const NONE: u32 = u32::MAX;

/// A call of the GPU's runtime or driver.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) start: i64,
    pub(crate) end: i64,
    /// Among [`Host::call_names`].
    pub(crate) name: Name,
    /// Its thread's place.
    pub(crate) thread: u16,
    pub(crate) blocks: Option<Blocking>,
}

/// From here on this range is the innermost of its thread.
#[derive(Clone, Copy, Debug)]
struct Mark {
    start: i64,
    range: u32,
}

#[derive(Debug, Default)]
struct Thread {
    /// Its calls that lie in no other, by time; places in [`Host::calls`].
    calls: Vec<u32>,
    marks: Vec<Mark>,
    /// As marks, of a user's functions of Python.
    frames: Vec<Mark>,
}

/// What a thread did.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Activity {
    /// It was in a call.
    Call(Call),
    /// It was in a range, for so long without a call.
    Range(u32, i64),
    /// Nothing is recorded, for so long without a call.
    Nothing(i64),
}

/// What a range says of the work and the waiting in it, itself or one around it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about one range")]
pub(crate) struct Meaning {
    /// It fetches the next batch.
    pub(crate) is_input: bool,
    /// It is an optimizer's pass.
    pub(crate) is_optimizer: bool,
    /// It is an operator.
    pub(crate) is_operator: bool,
    /// It is within an operator that autograd runs backward and that has no Python of its own.
    is_backward: bool,
    /// It computes something forward within such an operator: what was not kept is computed again.
    pub(crate) is_recomputed: bool,
}

/// Calls and ranges of all threads.
#[derive(Debug, Default)]
pub(crate) struct Host {
    pub(crate) calls: Vec<Call>,
    pub(crate) call_names: Names,
    /// The innermost range of its thread when each call began.
    call_ranges: Vec<u32>,
    launches: Correlations,
    threads: Vec<Thread>,
    places: FxHashMap<ThreadId, u16>,
    /// Of each thread.
    processes: Vec<ProcessId>,
    /// Until they are forgotten.
    pub(crate) ranges: Option<Arc<Ranges>>,
    /// What each range is called, and what their names are.
    names_of_ranges: Vec<Name>,
    pub(crate) range_names: RangeNames,
    meanings: Vec<Meaning>,
    /// Of each range, the outermost operator around it, or else the innermost range.
    responsible: Vec<u32>,
    /// Of each range, the outermost operator around it whose work is known: its place among
    /// [`Host::works`].
    operators: Vec<u32>,
    /// What operators need, with the places of their ranges.
    pub(crate) works: Arc<[(usize, OperatorWork)]>,
    /// What functions of Python are called.
    pub(crate) frame_names: Names,
    overheads: Vec<Overhead>,
    /// The longest of them.
    longest_overhead: i64,
    recomputes: bool,
    has_calls: bool,
    has_ranges: bool,
}

/// A call while it is collected.
struct Collected {
    call: Call,
    correlation: Option<CorrelationId>,
}

impl Host {
    pub(crate) fn read(trace: &dyn Recording) -> Result<Host, ReadError> {
        let mut host = Host::default();
        host.read_calls(trace)?;
        host.overheads = trace.overheads()?;
        let lengths = host.overheads.iter().map(|own| own.end - own.start);
        host.longest_overhead = lengths.max().unwrap_or_default();
        host.add_frames(trace.frames()?);
        if let Some(ranges) = present(trace.ranges())? {
            host.works = trace.operator_work()?;
            host.add_ranges(ranges);
        }
        Ok(host)
    }

    fn read_calls(&mut self, trace: &dyn Recording) -> Result<(), ReadError> {
        let blocking = BlockingCalls::read(trace)?;
        let mut collected: Vec<Collected> = Vec::new();
        // By name: there are few.
        let mut may_block: Vec<bool> = Vec::new();
        let read = trace.each_call(&|_| true, &mut |call| {
            let Some(thread) = self.thread(call.thread) else { return };
            let name = self.call_names.intern(call.name);
            if name.index() == may_block.len() {
                may_block.push(BlockingCalls::may_block(call.name));
            }
            let blocks = if may_block[name.index()] { blocking.blocks(call) } else { None };
            let end = call.end.max(call.start);
            let call_of = Call { start: call.start, end, name, thread, blocks };
            push(&mut collected, Collected { call: call_of, correlation: call.correlation });
        });
        if present(read)?.is_none() {
            return Ok(());
        }
        self.has_calls = !collected.is_empty();
        collected.sort_unstable_by_key(|it| {
            (it.call.thread, it.call.start, std::cmp::Reverse(it.call.end), it.correlation)
        });
        let mut until = (0, i64::MIN);
        // Each call becomes smaller where it lies: there are millions.
        let calls = collected.into_iter().zip(0_u32..).map(|(Collected { call, correlation }, at)| {
            let process = self.processes[usize::from(call.thread)];
            // Calls by the driver lie in the runtime's.
            let is_outer = until.0 != call.thread || call.start >= until.1;
            if is_outer {
                until = (call.thread, call.end);
                self.threads[usize::from(call.thread)].calls.push(at);
            }
            if let Some(correlation) = correlation
                && (is_outer || self.launches.get(Some(process), correlation).is_none())
            {
                self.launches.insert(process, correlation, at);
            }
            call
        });
        self.calls = calls.collect();
        self.calls.shrink_to_fit();
        for thread in &mut self.threads {
            thread.calls.shrink_to_fit();
        }
        Ok(())
    }

    /// The place of a thread; none beyond the 65,536th.
    fn thread(&mut self, id: ThreadId) -> Option<u16> {
        if let Some(known) = self.places.get(&id) {
            return Some(*known);
        }
        let place = u16::try_from(self.threads.len()).ok()?;
        self.threads.push(Thread::default());
        self.processes.push(id.process());
        self.places.insert(id, place);
        Some(place)
    }

    /// The place of a thread that calls or has ranges.
    pub(crate) fn place(&self, id: ThreadId) -> Option<u16> {
        self.places.get(&id).copied()
    }

    fn add_frames(&mut self, mut frames: Vec<Frame>) {
        frames.sort_by_key(|own| (own.thread, own.start, std::cmp::Reverse(own.end)));
        for own in frames.chunk_by(|a, b| a.thread == b.thread) {
            let Some(thread) = self.thread(own[0].thread) else { continue };
            let marks = &mut self.threads[usize::from(thread)].frames;
            let end_of = |at: u32| own[at as usize].end;
            let mut open: Vec<u32> = Vec::new();
            for (at, frame) in (0_u32..).zip(own) {
                close(&mut open, marks, frame.start, end_of);
                mark(marks, frame.start, at);
                open.push(at);
            }
            close(&mut open, marks, i64::MAX, end_of);
            let names: Vec<Name> = own.iter().map(|frame| self.frame_names.intern(&frame.name)).collect();
            for mark in marks.iter_mut().filter(|mark| mark.range != NONE) {
                mark.range = u32::try_from(names[mark.range as usize].index()).unwrap_or(NONE);
            }
        }
    }

    fn add_ranges(&mut self, ranges: Arc<Ranges>) {
        let kinds: Vec<Said> = ranges.names.iter().map(|(_, name)| Said::by(&name.text)).collect();
        self.meanings = vec![Meaning::default(); ranges.ranges.len()];
        self.responsible = vec![NONE; ranges.ranges.len()];
        self.operators = vec![NONE; if self.works.is_empty() { 0 } else { ranges.ranges.len() }];
        for (work, (range, _)) in (0_u32..).zip(&*self.works) {
            self.operators[*range] = work;
        }
        let mut by_thread: FxHashMap<u16, Vec<u32>> = FxHashMap::default();
        for (at, range) in (0_u32..).zip(&ranges.ranges) {
            if !range.crosses_threads
                && range.end.is_none_or(|end| end > range.start)
                && let Some(thread) = self.thread(range.thread)
            {
                by_thread.entry(thread).or_default().push(at);
            }
        }
        let end_of = |at: u32| ranges.ranges[at as usize].end.unwrap_or(i64::MAX);
        for (thread, mut own) in by_thread {
            own.sort_by_key(|at| {
                let range = &ranges.ranges[*at as usize];
                // A pass that operators make is around those that begin with it.
                let derived = range.style != RangeStyle::Derived;
                (range.start, std::cmp::Reverse(end_of(*at)), derived, *at)
            });
            let mut open: Vec<u32> = Vec::new();
            let marks = &mut self.threads[usize::from(thread)].marks;
            for at in own {
                let range = &ranges.ranges[at as usize];
                close(&mut open, marks, range.start, end_of);
                let outer = open.last().copied();
                let said = kinds[range.name.index()];
                let around = outer.map_or(Meaning::default(), |outer| self.meanings[outer as usize]);
                let is_operator = range.style == RangeStyle::Operator || said.operator;
                self.meanings[at as usize] = Meaning {
                    is_input: around.is_input || said.input,
                    is_optimizer: around.is_optimizer || (said.optimizer && !is_operator),
                    is_operator,
                    is_backward: around.is_backward || said.backward,
                    is_recomputed: around.is_recomputed || (around.is_backward && said.forward),
                };
                self.responsible[at as usize] = match outer {
                    Some(outer) if is_operator && self.meanings[outer as usize].is_operator => {
                        self.responsible[outer as usize]
                    }
                    _ => at,
                };
                if let Some(outer) = outer.and_then(|outer| self.operators.get(outer as usize).copied())
                    && outer != NONE
                {
                    self.operators[at as usize] = outer;
                }
                mark(marks, range.start, at);
                open.push(at);
            }
            close(&mut open, marks, i64::MAX, end_of);
            marks.shrink_to_fit();
        }
        self.recomputes = self.meanings.iter().any(|own| own.is_recomputed);
        self.has_ranges = true;
        self.ranges = Some(ranges);
        self.call_ranges = self.ranges_of_calls();
    }

    /// Of each call, the innermost range of its thread; both lie by time.
    fn ranges_of_calls(&self) -> Vec<u32> {
        let mut of_calls: Vec<u32> = Vec::with_capacity(self.calls.len());
        for (at, call) in self.calls.iter().enumerate() {
            let marks = &self.threads[usize::from(call.thread)].marks;
            let is_first = at.checked_sub(1).is_none_or(|before| self.calls[before].thread != call.thread);
            let mut next = if is_first { 0 } else { of_calls[at - 1] };
            while marks.get(next as usize).is_some_and(|mark| mark.start <= call.start) {
                next += 1;
            }
            of_calls.push(next);
        }
        for (call, next) in self.calls.iter().zip(&mut of_calls) {
            let marks = &self.threads[usize::from(call.thread)].marks;
            *next = next.checked_sub(1).map_or(NONE, |at| marks[at as usize].range);
        }
        of_calls
    }

    /// Which names of calls satisfy a condition, by [`Name::index`]: many calls have few names.
    pub(crate) fn calls_named(&self, is: impl Fn(&str) -> bool) -> Vec<bool> {
        self.call_names.iter().map(|(_, text)| is(text)).collect()
    }

    /// Whether a call of a name with this end begins within an interval.
    pub(crate) fn calls_within(&self, end_of_name: &str, start: i64, end: i64) -> bool {
        let wanted = self.calls_named(|name| without_version(name).ends_with(end_of_name));
        wanted.contains(&true)
            && self.calls.iter().any(|call| wanted[call.name.index()] && (start..end).contains(&call.start))
    }

    /// Whether anything of the host is recorded.
    pub(crate) fn is_recorded(&self) -> bool {
        self.has_calls || self.has_ranges
    }

    /// Forgets when ranges began and ended, and keeps their names: marks say which is the innermost
    /// at any time, and ranges are what takes most memory.
    pub(crate) fn forget_ranges(&mut self) {
        let Some(ranges) = self.ranges.take() else { return };
        self.names_of_ranges = ranges.ranges.iter().map(|range| range.name).collect();
        self.range_names = match Arc::try_unwrap(ranges) {
            Ok(ranges) => ranges.names,
            Err(kept) => kept.names.clone(),
        };
    }

    /// What a range is called, once ranges are forgotten.
    pub(crate) fn name_of_range(&self, range: u32) -> Option<Name> {
        self.names_of_ranges.get(range as usize).copied()
    }

    /// Forgets which call launched what: all work is read, and there may be millions of calls.
    pub(crate) fn forget_launches(&mut self) {
        self.launches = Correlations::default();
    }

    /// The call that launched a piece of work.
    pub(crate) fn launch(&self, process: Option<ProcessId>, correlation: Option<CorrelationId>) -> u32 {
        correlation.and_then(|correlation| self.launches.get(process, correlation)).unwrap_or(NONE)
    }

    pub(crate) fn meaning(&self, range: u32) -> Meaning {
        self.meanings.get(range as usize).copied().unwrap_or_default()
    }

    /// Whether any range computes again what was not kept.
    pub(crate) const fn recomputes(&self) -> bool {
        self.recomputes
    }

    /// The outermost operator around a range and itself, or else the innermost range.
    pub(crate) fn responsible(&self, range: u32) -> u32 {
        self.responsible.get(range as usize).copied().unwrap_or(NONE)
    }

    /// The outermost operator around a range and itself whose work is known.
    pub(crate) fn operator_of(&self, range: u32) -> u32 {
        self.operators.get(range as usize).copied().unwrap_or(NONE)
    }

    /// The innermost range around a call: on its thread, or where that has none, on the main one.
    pub(crate) fn range_of(&self, call: u32, main: Option<u16>) -> u32 {
        // Without ranges there is none.
        let Some(own) = self.call_ranges.get(call as usize).copied() else { return NONE };
        let (NONE, Some(main)) = (own, main) else { return own };
        let call = &self.calls[call as usize];
        if main == call.thread { NONE } else { self.range_at(main, call.start) }
    }

    /// The calls of each thread that lie in no other, by time.
    pub(crate) fn outer_calls(&self) -> impl Iterator<Item = &[u32]> {
        self.threads.iter().map(|thread| &*thread.calls)
    }

    /// The innermost function of Python around a captured call, among [`Host::frame_names`].
    pub(crate) fn captured_frame(&self, captured: u32) -> u32 {
        let Some(call) = self.calls.get(captured as usize) else { return NONE };
        self.frame_at(call.thread, None, call.start).0
    }

    /// The innermost range of a thread at a time.
    pub(crate) fn range_at(&self, thread: u16, time: i64) -> u32 {
        let marks = &self.threads[usize::from(thread)].marks;
        let next = marks.partition_point(|mark| mark.start <= time);
        next.checked_sub(1).map_or(NONE, |at| marks[at].range)
    }

    /// The innermost function of Python at a time, of a thread or else of the main one: its place
    /// among [`Host::frame_names`], and until when that does not change.
    pub(crate) fn frame_at(&self, thread: u16, main: Option<u16>, time: i64) -> (u32, i64) {
        let of = |thread: u16| {
            let frames = &self.threads[usize::from(thread)].frames;
            let next = frames.partition_point(|mark| mark.start <= time);
            let until = frames.get(next).map_or(i64::MAX, |mark| mark.start);
            (next.checked_sub(1).map_or(NONE, |at| frames[at].range), until)
        };
        let (own, until) = of(thread);
        match main.filter(|main| own == NONE && *main != thread) {
            Some(main) => {
                let (of_main, until_main) = of(main);
                (of_main, until.min(until_main))
            }
            None => (own, until),
        }
    }

    /// When the profiler held up a thread within an interval, by start. Where it is not recorded
    /// which thread, those in calls are meant.
    pub(crate) fn held_up(
        &self,
        thread: u16,
        in_call: bool,
        start: i64,
        end: i64,
    ) -> impl Iterator<Item = &Overhead> {
        let first = self.overheads.partition_point(|own| own.start <= start - self.longest_overhead);
        let near = self.overheads[first..].iter().take_while(move |own| own.start < end);
        near.filter(move |own| {
            own.end > start
                && match own.thread {
                    Some(own) => self.place(own) == Some(thread),
                    None => in_call && self.processes.get(usize::from(thread)) == Some(&own.process),
                }
        })
    }

    /// For how long a thread was in calls that block it by some means within an interval.
    pub(crate) fn blocked(&self, thread: u16, start: i64, end: i64, by: impl Fn(Blocking) -> bool) -> i64 {
        let own = &self.threads[usize::from(thread)].calls;
        let first = own.partition_point(|at| self.calls[*at as usize].end <= start);
        let calls = own[first..].iter().map(|at| self.calls[*at as usize]);
        let calls = calls.take_while(|call| call.start < end);
        let blocking = calls.filter(|call| call.blocks.is_some_and(&by));
        blocking.map(|call| call.end.min(end) - call.start.max(start)).sum()
    }

    /// What a thread did between two times, in pieces without a gap.
    pub(crate) fn pieces(
        &self,
        thread: u16,
        start: i64,
        end: i64,
        mut visit: impl FnMut(i64, i64, Activity),
    ) {
        let own = &self.threads[usize::from(thread)];
        let call = |at: usize| own.calls.get(at).map(|at| self.calls[*at as usize]);
        let mut next = own.calls.partition_point(|at| self.calls[*at as usize].end <= start);
        let mut at = start;
        let mut mark = None;
        while at < end {
            let coming = call(next);
            if let Some(coming) = coming.filter(|coming| coming.start <= at) {
                let until = coming.end.min(end);
                visit(at, until, Activity::Call(coming));
                at = until;
                next += 1;
                continue;
            }
            let before = next.checked_sub(1).and_then(call).map_or(i64::MIN, |call| call.end);
            let after = coming.map_or(i64::MAX, |call| call.start);
            let quiet = after.saturating_sub(before);
            let until = after.min(end);
            let mark = mark.get_or_insert_with(|| own.marks.partition_point(|mark| mark.start <= at));
            while at < until {
                while own.marks.get(*mark).is_some_and(|mark| mark.start <= at) {
                    *mark += 1;
                }
                let range = mark.checked_sub(1).map_or(NONE, |at| own.marks[at].range);
                let piece_end = own.marks.get(*mark).map_or(until, |mark| mark.start.min(until));
                let activity =
                    if range == NONE { Activity::Nothing(quiet) } else { Activity::Range(range, quiet) };
                visit(at, piece_end, activity);
                at = piece_end;
            }
        }
    }
}

/// Adds to a list that is most of the memory: it grows by an eighth instead of twice.
pub(crate) fn push<T>(list: &mut Vec<T>, item: T) {
    if list.len() == list.capacity() {
        list.reserve_exact((list.len() / 8).max(64));
    }
    list.push(item);
}

/// Closes what ends until a time, from the innermost on; what remains is the innermost then.
fn close(open: &mut Vec<u32>, marks: &mut Vec<Mark>, time: i64, end_of: impl Fn(u32) -> i64) {
    while let Some(end) = open.iter().map(|at| end_of(*at)).min().filter(|end| *end <= time) {
        open.retain(|at| end_of(*at) > end);
        if end < i64::MAX {
            mark(marks, end, open.last().copied().unwrap_or(NONE));
        }
    }
}

/// From a time on, a range is the innermost.
fn mark(marks: &mut Vec<Mark>, start: i64, range: u32) {
    match marks.last_mut() {
        Some(last) if last.start == start => last.range = range,
        _ => marks.push(Mark { start, range }),
    }
}

/// What a name says.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about one name")]
struct Said {
    /// `PyTorch` marks an operator.
    operator: bool,
    input: bool,
    optimizer: bool,
    backward: bool,
    forward: bool,
}

impl Said {
    fn by(name: &str) -> Said {
        // Operators that only forward passes call: their gradients have formulas of their own.
        const FORWARD: [&str; 12] = [
            "aten::linear",
            "aten::conv1d",
            "aten::conv2d",
            "aten::conv3d",
            "aten::layer_norm",
            "aten::rms_norm",
            "aten::batch_norm",
            "aten::group_norm",
            "aten::scaled_dot_product_attention",
            "aten::embedding",
            "aten::gelu",
            "aten::silu",
        ];
        let marker = Marker::parse(name);
        let name = marker.map_or(name, |marker| marker.name);
        // Nodes of autograd's own end in a digit; those with Python of a user's may call anything.
        let node = name.strip_prefix("autograd::engine::evaluate_function: ");
        let node = node.or_else(|| marker.filter(|_| name.contains("Backward")).map(|marker| marker.name));
        let backward = node.is_some_and(|node| {
            node.ends_with(|last: char| last.is_ascii_digit())
                || node.starts_with("CheckpointFunctionBackward")
        });
        Said {
            operator: marker.is_some_and(|marker| marker.is_operator()),
            input: is_input(name),
            optimizer: PassKind::of(name) == Some(PassKind::Optimizer),
            backward,
            forward: FORWARD.contains(&name),
        }
    }
}

/// Whether a range of this name fetches the next batch: PyTorch's loader, or what users call it.
fn is_input(name: &str) -> bool {
    const INPUT: [&str; 9] = [
        "dataloader",
        "nextbatch",
        "getbatch",
        "loadbatch",
        "fetchbatch",
        "dataloading",
        "loaddata",
        "datawait",
        "fetchdata",
    ];
    let plain = name.bytes().filter(u8::is_ascii_alphanumeric).map(|byte| byte.to_ascii_lowercase() as char);
    let plain: String = plain.take(96).collect();
    INPUT.iter().any(|known| plain.contains(known))
}
