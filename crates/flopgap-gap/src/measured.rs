//! What is measured of all steps on all GPUs.

use std::collections::BTreeMap;

use flopgap_trace::{ProcessId, ThreadId};

use crate::cause::Cause;
use crate::floor::Floors;
use crate::frequency::Frequencies;
use crate::intervals::interval_at;
use crate::operation::Lane;
use crate::partition::{Context, Folded, Key, Sum, Total};
use crate::parts::Step;
use crate::patterns::Patterns;
use crate::pieces::{Last, Pieces};
use crate::steps::{FoundBy, HostStep, HostSteps};
use crate::{Pauses, Place, Unmarked, executed};

/// All steps taken apart, and what is found in the measured ones.
pub(crate) struct Measured<'a> {
    pub(crate) context: &'a Context<'a>,
    pub(crate) folded: Folded,
    pub(crate) floors: Floors,
    pub(crate) total: Total,
    pub(crate) patterns: Patterns,
    pub(crate) frequencies: Frequencies,
    pub(crate) intervals: Vec<executed::Measured>,
    /// How many steps are measured of a process on a GPU and a thread.
    pub(crate) counts: Vec<(Option<ProcessId>, u64)>,
    pub(crate) steps: Vec<Step>,
    pub(crate) between: Vec<Step>,
    pub(crate) places: u64,
    pub(crate) pauses: Pauses,
    pub(crate) unmarked: Unmarked,
    /// For how long others waited for the place that arrived last, and how often.
    pub(crate) late: BTreeMap<Place, Sum>,
    /// For how long collectives waited for the last rank.
    pub(crate) waited_ns: i64,
    /// The longest time that one place waited for others that work.
    longest_wait_ns: i64,
    /// How many pieces to keep of each thread on each GPU.
    most_pieces: usize,
    pub(crate) pieces: Vec<Pieces>,
}

impl<'a> Measured<'a> {
    pub(crate) fn new(
        context: &'a Context<'a>,
        frequencies: Frequencies,
        most_pieces: usize,
    ) -> Measured<'a> {
        Measured {
            context,
            folded: Folded::new(),
            floors: Floors::new(context.host.works.len()),
            total: Total::default(),
            patterns: Patterns::default(),
            frequencies,
            intervals: Vec::new(),
            counts: Vec::new(),
            steps: Vec::new(),
            between: Vec::new(),
            places: 0,
            pauses: Pauses::default(),
            unmarked: Unmarked::default(),
            late: BTreeMap::new(),
            waited_ns: 0,
            longest_wait_ns: 0,
            most_pieces,
            pieces: Vec::new(),
        }
    }

    /// The longest time that one place waited for others that work, for each place.
    pub(crate) fn longest_wait_ns(&self) -> i64 {
        self.longest_wait_ns.saturating_mul(i64::try_from(self.places).unwrap_or(i64::MAX))
    }

    /// Takes the steps of a lane apart.
    pub(crate) fn add(&mut self, lane: &Lane, place: Place, found: &HostSteps) {
        let whole = if found.found == FoundBy::None { whole(lane) } else { None };
        let mut threads: BTreeMap<Option<ThreadId>, Vec<&HostStep>> = BTreeMap::new();
        let own = found.steps.iter().filter(|step| step.is_of(lane));
        for step in own.chain(&whole) {
            let list = threads.entry(step.thread).or_default();
            // Steps of one thread that overlap cannot both be all of its time.
            if list.last().is_none_or(|last| last.end <= step.start) {
                list.push(step);
            }
        }
        if threads.is_empty() {
            self.unmarked.places += 1;
            self.unmarked.operations += lane.operations.len() as u64;
        }
        for list in threads.values() {
            self.thread(lane, place, list);
        }
    }

    /// Takes the steps of one thread apart on one GPU.
    fn thread(&mut self, lane: &Lane, place: Place, steps: &[&HostStep]) {
        let context = self.context;
        let mut last = Last::new(self.most_pieces);
        let apart = context.apart(lane, place, steps, &mut self.folded, &mut self.floors, &mut last);
        self.pieces.extend(last.finish(place));
        let measured = apart.steps.iter().chain(&apart.between).filter(|step| !step.warm_up);
        let mut measured: Vec<(i64, i64)> =
            measured.map(|step| (step.start_ns, step.start_ns + step.wall_ns)).collect();
        measured.sort_unstable();
        self.patterns.add(context.timeline, context.host, lane, &measured);
        self.frequencies.add(context.timeline, lane, place, &measured);
        let of_late = |(key, sum): (&Key, &Sum)| if key.0 == Cause::LateRank { sum.ns } else { 0 };
        let waited = apart.total.sums.iter().map(of_late).sum::<i64>();
        self.longest_wait_ns = self.longest_wait_ns.max(waited);
        self.waits(place, &measured);
        self.intervals.push(((lane.process, lane.device), measured));
        self.counts.push((lane.process, apart.total.steps));
        self.places += u64::from(apart.total.steps > 0);
        self.pauses.count += apart.pauses.count;
        self.pauses.ns += apart.pauses.ns;
        self.total.add(apart.total);
        self.steps.extend(apart.steps);
        self.between.extend(apart.between);
    }

    /// Adds for how long a place waited for others in measured time.
    fn waits(&mut self, place: Place, measured: &[(i64, i64)]) {
        let late = &self.context.timeline.arrivals;
        let waiting = late.iter().filter(|own| own.place == place && own.arrived > own.start);
        for own in waiting.filter(|own| interval_at(measured, own.start).is_some()) {
            let mut ns = 0;
            self.context.each_of_last(own.last, (own.start, own.arrived), |start, end, works| {
                ns += if works { end - start } else { 0 };
            });
            self.waited_ns += own.arrived - own.start;
            *self.late.entry(own.last).or_default() += Sum { ns, pieces: 1 };
        }
    }
}

/// All work of a lane as one step.
fn whole(lane: &Lane) -> Option<HostStep> {
    let start = lane.operations.iter().map(|op| op.start).min()?;
    let end = lane.operations.iter().map(|op| op.end).max()?;
    let name = "recording".to_owned();
    Some(HostStep { name, process: lane.process, thread: None, start, end, warm_up: false })
}
