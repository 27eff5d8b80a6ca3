//! Why a GPU did nothing: from what ended the gap, its launch, and what the host did until then.

use flopgap_timings::Blocking;
use flopgap_trace::Name;

use crate::cause::Cause;
use crate::host::{Activity, Call, Host, NONE};
use crate::sweep::Idle;

/// Launched in time, work that depends on what just ended begins within this time, in nanoseconds.
pub(crate) const DEPENDENT_NS: i64 = 10_000;
/// After the call that launches it returned, work begins on an idle GPU within this time.
const LATENCY_NS: i64 = 20_000;
/// A host that launches as fast as it can makes a call within this time, and returns from it;
/// without any for longer, it does something else.
const PACE_NS: i64 = 250_000;

/// What the host did while a GPU did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum What {
    Nothing,
    /// Among [`Host::call_names`].
    Call(Name),
    /// A range.
    Range(u32),
}

/// A piece of a gap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) cause: Cause,
    pub(crate) what: What,
    /// The innermost range around it.
    pub(crate) range: u32,
    /// The innermost function of Python that made the host late, among [`Host::frame_names`].
    pub(crate) frame: u32,
}

/// Explains gaps.
pub(crate) struct Explain<'a> {
    pub(crate) host: &'a Host,
    /// The thread whose steps these are: what it did counts where the launching thread did nothing.
    pub(crate) main: Option<u16>,
}

/// The cause of time in a call that does not block. Before a kernel's first run a long one loads
/// it, or prepares what it needs.
fn launching(call: &Call, is_first: bool) -> Cause {
    if is_first && call.end - call.start > PACE_NS { Cause::FirstLaunch } else { Cause::LaunchCalls }
}

impl Explain<'_> {
    /// Visits the pieces of a gap, which add up to it. Says whether the work that ends it was
    /// launched late.
    pub(crate) fn idle(&self, idle: &Idle<'_>, mut visit: impl FnMut(Piece)) -> bool {
        let Idle { start, end, before, after } = *idle;
        let whole = |cause| Piece { start, end, cause, what: What::Nothing, range: NONE, frame: NONE };
        if !self.host.is_recorded() {
            visit(whole(Cause::NothingRecorded));
            return false;
        }
        let Some(after) = after else {
            self.late(start, end, self.main, None, &mut visit);
            return true;
        };
        if after.call == NONE {
            visit(whole(Cause::NoLaunchRecord));
            return false;
        }
        if let Some(before) = before.filter(|before| before.call == after.call) {
            let name = self.host.calls[before.call as usize].name;
            let is_graph = self.host.call_names.text(name).contains("Graph");
            visit(whole(if is_graph { Cause::GraphNodes } else { Cause::DependentKernels }));
            return false;
        }
        let call = self.host.calls[after.call as usize];
        if after.start < call.start {
            visit(whole(Cause::Clocks));
            return false;
        }
        let launched = call.start.clamp(start, end);
        let returned = call.end.clamp(start, end);
        let range = self.host.range_of(after.call, self.main);
        let first = after.is_first().then(|| self.host.responsible(range));
        self.late(start, launched, Some(call.thread), first, &mut visit);
        let what = What::Call(call.name);
        let rest = |start, end, cause| Piece { start, end, cause, what, range, frame: NONE };
        if launched < returned {
            // A copy that blocks is part of what it does to the host.
            visit(rest(launched, returned, launching(&call, after.is_first())));
        }
        if returned < end {
            let waited = end - returned;
            let cause = if call.end > start {
                if waited <= LATENCY_NS { Cause::LaunchLatency } else { Cause::LaunchedInTime }
            } else if waited > DEPENDENT_NS {
                Cause::LaunchedInTime
            } else if before.is_some_and(|before| before.stream() != after.stream()) {
                Cause::OtherStream
            } else {
                Cause::DependentKernels
            };
            visit(rest(returned, end, cause));
        }
        call.start > start
    }

    /// What the host did instead of launching; `first` is the operator of what it launches for the
    /// first time.
    fn late(
        &self,
        start: i64,
        end: i64,
        thread: Option<u16>,
        first: Option<u32>,
        visit: &mut impl FnMut(Piece),
    ) {
        if start >= end {
            return;
        }
        let mut pieces: Vec<(i64, i64, Activity, u16)> = Vec::new();
        let own = thread.or(self.main);
        if let Some(own) = own {
            self.host.pieces(own, start, end, |start, end, activity| {
                let main = self.main.filter(|main| *main != own && matches!(activity, Activity::Nothing(_)));
                if let Some(main) = main {
                    self.host.pieces(main, start, end, |start, end, activity| {
                        pieces.push((start, end, activity, main));
                    });
                } else {
                    pieces.push((start, end, activity, own));
                }
            });
        } else {
            pieces.push((start, end, Activity::Nothing(i64::MAX), 0));
        }
        let frame = |thread, time| self.host.frame_at(thread, self.main, time).0;
        // The call that it waits in since before the GPU became idle.
        let waited = pieces.first().and_then(|(_, _, activity, thread)| match activity {
            Activity::Call(call) if call.start < start && call.blocks.is_some() => Some((*call, *thread)),
            _ => None,
        });
        let waited = waited.map(|(call, thread)| {
            let is_memory = call.blocks == Some(Blocking::Memory);
            let cause = if is_memory { Cause::Allocation } else { Cause::BlockingCall };
            (cause, What::Call(call.name), self.host.range_at(thread, call.start), frame(thread, call.start))
        });
        for (start, end, activity, thread) in pieces {
            let mut called = match activity {
                Activity::Call(call) => Some(frame(thread, call.start)),
                _ => None,
            };
            let mut refill = |cause, what, range| match waited {
                Some((cause, what, range, frame)) => {
                    called = Some(frame);
                    (cause, what, range)
                }
                None => (cause, what, range),
            };
            let (cause, what, range) = match activity {
                Activity::Call(call) => {
                    let range = self.host.range_at(thread, call.start);
                    let is_input = self.host.meaning(range).is_input;
                    match call.blocks {
                        _ if is_input => (Cause::Input, What::Range(range), range),
                        Some(Blocking::Memory) => (Cause::Allocation, What::Call(call.name), range),
                        Some(_) => (Cause::BlockingCall, What::Call(call.name), range),
                        None => match launching(&call, first.is_some()) {
                            Cause::LaunchCalls => refill(Cause::LaunchCalls, What::Call(call.name), range),
                            cause => (cause, What::Call(call.name), range),
                        },
                    }
                }
                Activity::Range(range, quiet) => {
                    let meaning = self.host.meaning(range);
                    let what = What::Range(range);
                    match (meaning.is_operator, quiet > PACE_NS) {
                        _ if meaning.is_input => (Cause::Input, what, range),
                        // It prepares what its kernel needs, such as a library.
                        (true, true) if first == Some(self.host.responsible(range)) => {
                            (Cause::FirstLaunch, what, range)
                        }
                        (true, true) => (Cause::HostOperators, what, range),
                        (false, true) => (Cause::HostCode, what, range),
                        (true, false) => refill(Cause::LaunchOperators, what, range),
                        (false, false) => refill(Cause::LaunchCode, what, range),
                    }
                }
                Activity::Nothing(quiet) if quiet > PACE_NS => (Cause::Outside, What::Nothing, NONE),
                Activity::Nothing(_) => refill(Cause::LaunchCode, What::Nothing, NONE),
            };
            let mut from = start;
            while from < end {
                // A call is of the function that made it, whatever that does afterward.
                let (frame, until) = match called {
                    Some(frame) => (frame, end),
                    None => self.host.frame_at(thread, self.main, from),
                };
                let piece = Piece { start: from, end: until.min(end), cause, what, range, frame };
                self.without_profiler(piece, activity, thread, visit);
                from = piece.end;
            }
        }
    }

    /// Cuts out of a piece what the profiler did meanwhile on its thread.
    fn without_profiler(&self, piece: Piece, activity: Activity, thread: u16, visit: &mut impl FnMut(Piece)) {
        let Piece { mut start, end, .. } = piece;
        let in_call = matches!(activity, Activity::Call(call) if call.blocks.is_none());
        for own in self.host.held_up(thread, in_call, start, end) {
            let (from, to) = (own.start.max(start), own.end.min(end));
            if from < to {
                if start < from {
                    visit(Piece { start, end: from, ..piece });
                }
                visit(Piece { start: from, end: to, cause: Cause::Profiler, what: What::Nothing, ..piece });
                start = to;
            }
        }
        if start < end {
            visit(Piece { start, ..piece });
        }
    }
}
