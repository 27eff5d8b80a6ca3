//! Steps taken apart.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::AddAssign;

use flopgap_flops::torch::Marker;
use flopgap_timings::{Blocking, fold_range, without_version};
use rustc_hash::FxHashMap;

use crate::cause::{Cause, Limit};
use crate::floor::Floors;
use crate::host::{Host, NONE};
use crate::late::{Explain, What};
use crate::operation::{Lane, Op};
use crate::parts::{Detail, Share, Step};
use crate::pieces::Last;
use crate::steps::{HostStep, Window, windows};
use crate::sweep::{Found, sweep};
use crate::timeline::Timeline;
use crate::{Pauses, Place};

/// What is collected of a window. Beside the causes of idle time, what else is of interest in it,
/// in nanoseconds.
#[derive(Clone, Debug, Default)]
struct Collected {
    sums: FxHashMap<Key, Sum>,
    /// Launched late at the host's own pace, before the queue was full again after a call that
    /// blocked.
    after_sync: i64,
    /// Within an optimizer's range.
    optimizer: i64,
}

/// What a detail is about, while sums are collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Thing {
    Kind(u32),
    Host(What),
}

/// A part while it is collected: the cause, the thing, and the folded name of the range around it.
pub(crate) type Key = (Cause, Thing, u32);

/// Nanoseconds and pieces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) ns: i64,
    pub(crate) pieces: u64,
}

impl AddAssign for Sum {
    fn add_assign(&mut self, other: Sum) {
        self.ns += other.ns;
        self.pieces += other.pieces;
    }
}

/// The measured windows of one lane together.
#[derive(Debug, Default)]
pub(crate) struct Total {
    pub(crate) sums: FxHashMap<Key, Sum>,
    pub(crate) wall_ns: i64,
    pub(crate) steps: u64,
    /// Of the time launched late at the host's own pace, what follows a blocking call before the
    /// queue was full again.
    pub(crate) after_sync_ns: i64,
    /// For how long threads that launch were in calls that wait for the GPU.
    pub(crate) blocked_ns: i64,
    /// For how long they allocated and freed memory.
    pub(crate) allocated_ns: i64,
    /// In which the GPU did nothing while an optimizer's range was launched late.
    pub(crate) optimizer_idle_ns: i64,
}

impl Total {
    pub(crate) fn add(&mut self, other: Total) {
        for (key, sum) in other.sums {
            *self.sums.entry(key).or_default() += sum;
        }
        self.wall_ns += other.wall_ns;
        self.steps += other.steps;
        self.after_sync_ns += other.after_sync_ns;
        self.blocked_ns += other.blocked_ns;
        self.allocated_ns += other.allocated_ns;
        self.optimizer_idle_ns += other.optimizer_idle_ns;
    }
}

/// What is around a piece of work or of idle time: the folded name of a range, and a function of
/// Python.
pub(crate) type Around = (Option<String>, Option<String>);

/// Names of ranges with their numbers folded, alone and with functions of Python.
pub(crate) struct Folded {
    /// By name; none where its name was not asked for.
    places: Vec<Option<u32>>,
    known: FxHashMap<Around, u32>,
    /// By range and function.
    pairs: FxHashMap<(u32, u32), u32>,
    pub(crate) names: Vec<Around>,
}

impl Folded {
    pub(crate) fn new() -> Folded {
        Folded {
            places: Vec::new(),
            known: FxHashMap::default(),
            pairs: FxHashMap::default(),
            names: Vec::new(),
        }
    }

    /// The place of a range's folded name.
    fn of(&mut self, host: &Host, range: u32) -> u32 {
        let Some(name) = host.name_of_range(range) else { return NONE };
        if self.places.len() <= name.index() {
            self.places.resize(host.range_names.iter().len(), None);
        }
        if let Some(place) = self.places[name.index()] {
            return place;
        }
        let text = &*host.range_names.get(name).text;
        // Operators of one name are one, whatever they were called with.
        let folded = fold_range(Marker::parse(text).map_or(text, |marker| marker.name));
        let place = self.place((Some(folded), None));
        self.places[name.index()] = Some(place);
        place
    }

    /// The place of a range's folded name with a function of Python.
    fn at(&mut self, host: &Host, range: u32, frame: u32) -> u32 {
        let by = self.of(host, range);
        if frame == NONE {
            return by;
        }
        if let Some(place) = self.pairs.get(&(by, frame)) {
            return *place;
        }
        let range = self.names.get(by as usize).and_then(|(range, _)| range.clone());
        let frames = host.frame_names.iter().nth(frame as usize);
        let place = self.place((range, frames.map(|(_, name)| name.to_string())));
        self.pairs.insert((by, frame), place);
        place
    }

    fn place(&mut self, around: Around) -> u32 {
        let next = u32::try_from(self.names.len()).unwrap_or(NONE);
        let place = *self.known.entry(around.clone()).or_insert(next);
        if place == next {
            self.names.push(around);
        }
        place
    }
}

/// All steps of a process taken apart on one GPU.
pub(crate) struct Apart {
    pub(crate) steps: Vec<Step>,
    pub(crate) between: Vec<Step>,
    pub(crate) total: Total,
    pub(crate) pauses: Pauses,
}

/// No more than so many operations of a rank run at the same time.
const OVERLAP: usize = 64;

/// What steps are taken apart with.
pub(crate) struct Context<'a> {
    pub(crate) timeline: &'a Timeline,
    pub(crate) host: &'a Host,
    /// When which rank arrived last at a collective, by the kernel that waits for it: where it ran,
    /// and from when to when.
    pub(crate) arrivals: &'a FxHashMap<(Place, i64, i64), (i64, Place)>,
    /// The lanes by their places.
    pub(crate) lanes: &'a FxHashMap<Place, &'a Lane>,
}

impl Context<'_> {
    /// Takes the steps of one thread apart on one GPU.
    pub(crate) fn apart(
        &self,
        lane: &Lane,
        place: Place,
        steps: &[&HostStep],
        folded: &mut Folded,
        floors: &mut Floors,
        pieces: &mut Last,
    ) -> Apart {
        let (clock, windows) = windows(steps, self.host, lane);
        let main = steps.iter().find_map(|step| self.host.place(step.thread?));
        self.launched(lane, main, &windows, floors);
        let collected = self.sum((lane, place), main, &windows, folded, floors, pieces);
        let mut apart = Apart {
            steps: Vec::new(),
            between: Vec::new(),
            total: Total::default(),
            pauses: Pauses::default(),
        };
        let launching = self.launching(lane);
        for (at, window) in windows.iter().enumerate() {
            let wall_ns = window.end - window.start;
            if !window.warm_up {
                let total = &mut apart.total;
                total.wall_ns += wall_ns;
                total.steps += u64::from(window.step.is_some());
                total.after_sync_ns += collected[at].after_sync;
                total.optimizer_idle_ns += collected[at].optimizer;
                let blocked = |by: fn(Blocking) -> bool| {
                    let own = launching
                        .iter()
                        .map(|thread| self.host.blocked(*thread, window.start, window.end, by));
                    own.sum::<i64>().min(wall_ns)
                };
                total.blocked_ns += blocked(|by| by != Blocking::Memory);
                total.allocated_ns += blocked(|by| by == Blocking::Memory);
                for (key, sum) in &collected[at].sums {
                    *total.sums.entry(*key).or_default() += *sum;
                }
            }
            // Beside steps that are measured, only a pause is left out.
            let beside =
                |at: Option<usize>| at.and_then(|at| windows.get(at)).is_none_or(|window| !window.warm_up);
            if window.step.is_none() && window.warm_up && beside(at.checked_sub(1)) && beside(Some(at + 1)) {
                apart.pauses.count += 1;
                apart.pauses.ns += wall_ns;
            }
            let name = |step: usize| steps[step].name.clone();
            let (name, list) = if let Some(step) = window.step {
                (name(step), &mut apart.steps)
            } else {
                let before = steps.iter().rposition(|step| step.end <= window.start);
                let before = before.map_or("steps".to_owned(), name);
                (format!("after {before}"), &mut apart.between)
            };
            list.push(Step {
                name,
                rank: place.rank,
                process: place.process,
                gpu: place.gpu,
                start_ns: window.start,
                wall_ns,
                clock,
                warm_up: window.warm_up,
                parts: shares(&collected[at].sums, |_| Vec::new()),
            });
        }
        apart
    }

    /// Visits the time that a kernel of a collective waits for the last rank, within an interval,
    /// and says when it ends.
    fn waiting(
        &self,
        place: Place,
        op: &Op,
        (start, end): (i64, i64),
        mut visit: impl FnMut(i64, i64, Cause),
    ) -> i64 {
        let Some((arrived, last)) = self.arrivals.get(&(place, op.start, op.end)) else { return start };
        let arrived = (*arrived).clamp(start, end);
        self.each_of_last(*last, (start, arrived), |start, end, works| {
            visit(start, end, if works { Cause::LateRank } else { Cause::IdleRank });
        });
        arrived
    }

    /// Visits an interval in pieces in which a rank that others wait for computes or copies, and in
    /// which it does not.
    pub(crate) fn each_of_last(
        &self,
        last: Place,
        (start, end): (i64, i64),
        mut visit: impl FnMut(i64, i64, bool),
    ) {
        let operations = self.lanes.get(&last).map_or(&[][..], |lane| &lane.operations);
        let first = operations.partition_point(|op| op.start < start).saturating_sub(OVERLAP);
        let mut at = start;
        for op in operations[first..].iter().take_while(|op| op.start < end) {
            if op.end > at && self.timeline.kind(op).cause != Cause::Communication {
                let (from, to) = (op.start.max(at), op.end.min(end));
                if at < from {
                    visit(at, from, false);
                }
                visit(from, to, true);
                at = to;
            }
        }
        if at < end {
            visit(at, end, false);
        }
    }

    /// The threads that launched work of a lane.
    fn launching(&self, lane: &Lane) -> Vec<u16> {
        let mut is_one = Vec::new();
        for op in lane.operations.iter().filter(|op| op.call != NONE) {
            let thread = usize::from(self.host.calls[op.call as usize].thread);
            if is_one.len() <= thread {
                is_one.resize(thread + 1, false);
            }
            is_one[thread] = true;
        }
        (0_u16..).zip(is_one).filter(|(_, is)| *is).map(|(thread, _)| thread).collect()
    }

    /// Notes the operators whose kernels begin in measured windows.
    fn launched(&self, lane: &Lane, main: Option<u16>, windows: &[Window], floors: &mut Floors) {
        if self.host.works.is_empty() {
            return;
        }
        let mut at = 0;
        for op in &lane.operations {
            while windows.get(at).is_some_and(|window| window.end <= op.start) {
                at += 1;
            }
            let is_measured =
                windows.get(at).is_some_and(|window| window.start <= op.start && !window.warm_up);
            let kind = self.timeline.kind(op);
            if is_measured && kind.rank() == 0 {
                let range = op.range(self.host, main);
                let is_repeated = self.host.meaning(range).is_recomputed;
                floors.launched(self.operator_of(op, range), kind.info.as_deref(), is_repeated, op.replay());
            }
        }
    }

    /// The operator around an operation whose work is known.
    fn operator_of(&self, op: &Op, range: u32) -> u32 {
        if self.timeline.graphs.is_sized(op) { self.host.operator_of(range) } else { NONE }
    }

    fn sum(
        &self,
        (lane, place): (&Lane, Place),
        main: Option<u16>,
        windows: &[Window],
        folded: &mut Folded,
        floors: &mut Floors,
        pieces: &mut Last,
    ) -> Vec<Collected> {
        let mut collected = vec![Collected::default(); windows.len()];
        let (Some(first), Some(last)) = (windows.first(), windows.last()) else { return collected };
        let explain = Explain { host: self.host, main };
        let mut at = 0;
        // Adds to the windows that an interval lies in, and says how much of it is measured.
        let mut add = |start: i64, end: i64, key: Key, [after_sync, optimizer]: [bool; 2]| {
            while windows.get(at).is_some_and(|window| window.end <= start) {
                at += 1;
            }
            let within = windows[at..].iter().enumerate().take_while(|(_, window)| window.start < end);
            let mut measured = 0;
            for (next, window) in within {
                let ns = end.min(window.end) - start.max(window.start);
                if ns > 0 {
                    let own = &mut collected[at + next];
                    *own.sums.entry(key).or_default() += Sum { ns, pieces: 1 };
                    own.after_sync += if after_sync { ns } else { 0 };
                    own.optimizer += if optimizer { ns } else { 0 };
                    if !window.warm_up {
                        measured += ns;
                        pieces.add(start.max(window.start), end.min(window.end), key.0);
                    }
                }
            }
            measured
        };
        // Whether the host has not been ahead of the GPU since it waited for it.
        let mut behind = false;
        sweep(self.timeline, &lane.operations, (first.start, last.end), |found| match found {
            Found::Followed => behind = false,
            Found::Ran(start, end, op) => {
                let kind = self.timeline.kind(op);
                let range = op.range(self.host, main);
                let is_optimizer = kind.rank() == 0 && self.host.meaning(range).is_optimizer;
                let cause = if is_optimizer { Cause::Optimizer } else { kind.cause };
                // Nodes of a graph have no place in Python's stack but that of their capture.
                let frame = self.host.captured_frame(op.captured);
                let by = folded.at(self.host, self.host.responsible(range), frame);
                let arrived = match cause {
                    Cause::Communication => self.waiting(place, op, (start, end), |start, end, cause| {
                        add(start, end, (cause, Thing::Kind(op.kind), by), [false; 2]);
                    }),
                    _ => start,
                };
                let measured = add(arrived, end, (cause, Thing::Kind(op.kind), by), [false; 2]);
                let owner = self.operator_of(op, range);
                if owner != NONE && kind.rank() == 0 && measured > 0 {
                    floors.ran(owner, cause, kind.info.as_deref(), measured);
                }
            }
            Found::Idle(idle) => {
                let mut waited = false;
                let is_late = explain.idle(&idle, |piece| {
                    waited |= matches!(piece.cause, Cause::BlockingCall | Cause::Allocation);
                    let after_sync = behind && piece.cause.limit() == Limit::Launch;
                    let in_optimizer = self.host.meaning(piece.range).is_optimizer;
                    let range = match piece.what {
                        What::Range(range) => range,
                        _ => self.host.responsible(piece.range),
                    };
                    // The host launches from everywhere; it is late somewhere.
                    let is_late = matches!(
                        piece.cause.limit(),
                        Limit::Sync | Limit::Allocation | Limit::Input | Limit::Host
                    );
                    let frame = if is_late { piece.frame } else { NONE };
                    let by = folded.at(self.host, range, frame);
                    let what = match piece.what {
                        What::Range(_) => What::Nothing,
                        other => other,
                    };
                    add(
                        piece.start,
                        piece.end,
                        (piece.cause, Thing::Host(what), by),
                        [after_sync, in_optimizer],
                    );
                });
                behind = waited || (behind && is_late);
            }
        });
        collected
    }

    /// What a detail is called.
    pub(crate) fn name(&self, thing: Thing) -> Option<String> {
        match thing {
            Thing::Kind(kind) => Some(self.timeline.kinds[kind as usize].name.to_string()),
            Thing::Host(What::Call(name)) => {
                Some(without_version(self.host.call_names.text(name)).to_owned())
            }
            Thing::Host(_) => None,
        }
    }

    /// The parts of a total with their details.
    pub(crate) fn details(&self, sums: &FxHashMap<Key, Sum>, folded: &Folded) -> Vec<Share> {
        shares(sums, |cause| {
            let mut details: BTreeMap<(Option<String>, Around), Sum> = BTreeMap::new();
            for ((_, thing, by), own) in sums.iter().filter(|((own, _, _), _)| *own == cause) {
                let around = folded.names.get(*by as usize).cloned().unwrap_or_default();
                *details.entry((self.name(*thing), around)).or_default() += *own;
            }
            let detail = |((what, (by, at)), sum): ((Option<String>, Around), Sum)| Detail {
                what,
                by,
                at,
                ns: sum.ns,
                pieces: sum.pieces,
            };
            let mut details: Vec<Detail> = details.into_iter().map(detail).collect();
            details.sort_by_key(|detail| Reverse(detail.ns));
            details
        })
    }
}

/// The parts in the order of [`Cause::ALL`].
fn shares(sums: &FxHashMap<Key, Sum>, details: impl Fn(Cause) -> Vec<Detail>) -> Vec<Share> {
    let mut causes: BTreeMap<Cause, Sum> = BTreeMap::new();
    for ((cause, _, _), own) in sums {
        *causes.entry(*cause).or_default() += *own;
    }
    let share = |(cause, sum): (Cause, Sum)| Share {
        part: cause.part(),
        cause,
        limit: cause.limit(),
        ns: sum.ns,
        pieces: sum.pieces,
        details: details(cause),
    };
    causes.into_iter().map(share).collect()
}
