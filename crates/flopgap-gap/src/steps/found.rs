//! Which steps a trace has.

use std::collections::BTreeMap;

use flopgap_files::{Hint as _, present};
use flopgap_timings::{Ranges as Which, Scope, WarmUp, fold_range};
use flopgap_trace::{ProcessId, Recording, ThreadId};
use rustc_hash::FxHashSet;

use super::forwards::forwards;
use super::{FoundBy, HostStep, HostSteps};
use crate::error::Error;
use crate::host::{Host, NONE};
use crate::operation::Lane;

/// What may be the steps by the ranges of the host, best first: known before any work is.
#[derive(Debug)]
pub(crate) struct ByRanges {
    /// The first is what a user asks for.
    is_asked_for: bool,
    all: Vec<HostSteps>,
}

impl ByRanges {
    pub(crate) fn read(trace: &dyn Recording, which: &Which, host: &Host) -> Result<ByRanges, Error> {
        let mut all: Vec<HostSteps> = marked(trace, which, host)?.into_iter().collect();
        let is_asked_for = *which != Which::Steps && !all.is_empty();
        if !is_asked_for {
            all.extend(loaded(host));
            all.extend(optimized(host));
            all.extend(forwards(host));
        }
        Ok(ByRanges { is_asked_for, all })
    }

    /// The steps.
    pub(crate) fn choose(self, host: &Host, lanes: &[Lane]) -> HostSteps {
        let mut all = self.all.into_iter();
        // What a user asks for is taken apart, whatever it holds.
        let by_ranges =
            if self.is_asked_for { all.next() } else { all.find_map(|found| found.with_work(host, lanes)) };
        by_ranges.or_else(|| replayed(host, lanes)).or_else(|| repeated(lanes)).unwrap_or_else(|| HostSteps {
            found: FoundBy::None,
            name: "recording".to_owned(),
            steps: Vec::new(),
        })
    }
}

impl HostSteps {
    /// The steps, where any that is measured launches work. Where only those that warm up do, those
    /// are measured.
    fn with_work(mut self, host: &Host, lanes: &[Lane]) -> Option<HostSteps> {
        // Most often the first work of a measured step says it.
        if self.working(host, lanes).any(|at| !self.steps[at].warm_up) {
            return Some(self);
        }
        let working: FxHashSet<usize> = self.working(host, lanes).collect();
        let all = std::mem::take(&mut self.steps).into_iter().enumerate();
        let own = all.filter(|(at, _)| working.contains(at));
        self.steps = own.map(|(_, step)| HostStep { warm_up: false, ..step }).collect();
        (!self.steps.is_empty()).then_some(self)
    }

    /// The places of the steps that launch work, or in which work runs that nothing launched: once
    /// for each operation.
    fn working<'a>(&'a self, host: &'a Host, lanes: &'a [Lane]) -> impl Iterator<Item = usize> + 'a {
        lanes.iter().flat_map(move |lane| {
            let own: Vec<usize> = (0..self.steps.len()).filter(|at| self.steps[*at].is_of(lane)).collect();
            lane.operations.iter().filter_map(move |op| {
                let time = op.launch(host).map_or(op.start, |(_, time)| time);
                let next = own.partition_point(|at| self.steps[*at].start <= time);
                let at = own[next.checked_sub(1)?];
                (time < self.steps[at].end).then_some(at)
            })
        })
    }
}

/// The steps that ranges mark; the first of each process, and marked ones, warm up.
fn marked(trace: &dyn Recording, which: &Which, host: &Host) -> Result<Option<HostSteps>, Error> {
    let Some(ranges) = &host.ranges else { return Ok(None) };
    let chosen =
        |keep| Scope { ranges: which.clone(), warm_up: WarmUp { keep, ..WarmUp::default() }, ..Scope::all() };
    let all = match chosen(true).chosen(trace) {
        Ok(all) => all,
        Err(error) if error.is_absence() && *which == Which::Steps => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let measured = match present(chosen(false).chosen(trace))? {
        Some(measured) if measured.name == all.name => measured.instances,
        _ => all.instances.clone(),
    };
    let measured: FxHashSet<usize> = measured.into_iter().collect();
    let steps = all.instances.iter().map(|&at| {
        let range = &ranges.ranges[at];
        HostStep {
            name: ranges.names.get(range.name).shown().into_owned(),
            process: Some(range.thread.process()),
            thread: Some(range.thread),
            start: range.start,
            end: range.end.unwrap_or(ranges.last_range),
            warm_up: !measured.contains(&at),
        }
    });
    Ok(Some(HostSteps { found: FoundBy::Marked, name: all.name, steps: steps.collect() }))
}

/// When ranges began and ended.
type Instances = Vec<(i64, i64)>;

/// Ranges of a name by time: of each process, those on the thread that has the most of them.
fn instances(host: &Host, is: impl Fn(&str) -> bool) -> Vec<(ThreadId, Instances)> {
    let Some(ranges) = &host.ranges else { return Vec::new() };
    let wanted: Vec<bool> = ranges.names.iter().map(|(_, name)| is(&name.text)).collect();
    let mut threads: BTreeMap<ThreadId, Instances> = BTreeMap::new();
    for range in ranges.ranges.iter().filter(|range| wanted[range.name.index()]) {
        threads.entry(range.thread).or_default().extend(range.end.map(|end| (range.start, end)));
    }
    let mut processes: BTreeMap<ProcessId, (ThreadId, Instances)> = BTreeMap::new();
    for (thread, mut all) in threads {
        all.sort_unstable();
        all.dedup_by(|next, last| next.0 < last.1);
        let most = processes.get(&thread.process()).map_or(1, |(_, most)| most.len());
        if all.len() > most {
            processes.insert(thread.process(), (thread, all));
        }
    }
    processes.into_values().collect()
}

/// Steps of each process from one time of a thread to the next; none without any.
fn between(
    found: FoundBy,
    name: &str,
    threads: impl IntoIterator<Item = (ThreadId, Vec<i64>)>,
) -> Option<HostSteps> {
    let mut steps: Vec<HostStep> = Vec::new();
    for (thread, times) in threads {
        steps.extend(times.windows(2).enumerate().map(|(at, pair)| HostStep {
            name: format!("{name} {at}"),
            process: Some(thread.process()),
            thread: Some(thread),
            start: pair[0],
            end: pair[1],
            warm_up: at == 0 && times.len() > 2,
        }));
    }
    steps.sort_by_key(|step| step.start);
    let name = fold_range(&format!("{name} 0"));
    (!steps.is_empty()).then_some(HostSteps { found, name, steps })
}

fn loaded(host: &Host) -> Option<HostSteps> {
    let all = instances(host, |name| name.starts_with("enumerate(DataLoader)#"));
    let starts = |all: Instances| all.into_iter().map(|(start, _)| start).collect();
    between(FoundBy::DataLoader, "batch", all.into_iter().map(|(thread, all)| (thread, starts(all))))
}

fn optimized(host: &Host) -> Option<HostSteps> {
    let all = instances(host, |name| name.starts_with("Optimizer.step#"));
    let ends = |all: Instances| all.into_iter().map(|(_, end)| end).collect();
    between(FoundBy::Optimizer, "update", all.into_iter().map(|(thread, all)| (thread, ends(all))))
}

/// Of each process the work on the GPU that has the most.
fn busiest(lanes: &[Lane]) -> impl Iterator<Item = &Lane> {
    let mut busiest: BTreeMap<Option<ProcessId>, &Lane> = BTreeMap::new();
    for lane in lanes {
        let most = busiest.entry(lane.process).or_insert(lane);
        if lane.operations.len() > most.operations.len() {
            *most = lane;
        }
    }
    busiest.into_values()
}

/// From each launch of a CUDA graph to the next.
fn replayed(host: &Host, lanes: &[Lane]) -> Option<HostSteps> {
    let launches_graph = host.calls_named(|name| name.contains("GraphLaunch"));
    let starts = |lane: &Lane| {
        let mut starts: Vec<i64> = Vec::new();
        let (mut last, mut nodes) = (NONE, 0_usize);
        for op in lane.operations.iter().filter(|op| op.call != NONE) {
            if launches_graph[host.calls[op.call as usize].name.index()] {
                nodes += 1;
                if op.call != last {
                    last = op.call;
                    starts.push(op.launch(host)?.1);
                }
            }
        }
        starts.sort_unstable();
        // Most of the work is in replays, and they are the steps rather than pieces of them.
        let is_most = starts.len() >= 4 && nodes * 2 >= lane.operations.len();
        Some((ThreadId(lane.process?.0), starts)).filter(|_| is_most)
    };
    let mut steps = between(FoundBy::GraphReplays, "replay", busiest(lanes).filter_map(starts))?;
    for step in &mut steps.steps {
        step.thread = None;
    }
    Some(steps)
}

/// The sequences of kernels that the work of each process repeats to its end.
fn repeated(lanes: &[Lane]) -> Option<HostSteps> {
    let mut steps: Vec<HostStep> = busiest(lanes).flat_map(repetitions).collect();
    steps.sort_by_key(|step| step.start);
    let name = "repetition *".to_owned();
    (!steps.is_empty()).then_some(HostSteps { found: FoundBy::RepeatedKernels, name, steps })
}

/// The shortest sequence of kernels, of at least four, that is repeated to the end.
fn repetitions(lane: &Lane) -> Vec<HostStep> {
    const LONGEST: usize = 1 << 16;
    let all = &lane.operations[lane.operations.len().saturating_sub(LONGEST)..];
    let kinds: Vec<u32> = all.iter().rev().map(|op| op.kind).collect();
    // Of the sequence read backward, how much of it begins again at each place.
    let again = z_function(&kinds);
    let Some(period) = (4..=kinds.len() / 3).find(|period| again[*period] >= 2 * period) else {
        return Vec::new();
    };
    let whole = (again[period] + period) / period;
    // Equal kernels in a row are not a step.
    if kinds[..period].iter().collect::<FxHashSet<_>>().len() < 3 {
        return Vec::new();
    }
    let mut starts: Vec<i64> = (1..=whole).map(|at| all[all.len() - at * period].start).collect();
    starts.sort_unstable();
    starts.extend(all.iter().map(|op| op.end).max());
    let step = |(at, pair): (usize, &[i64])| HostStep {
        name: format!("repetition {at}"),
        process: lane.process,
        thread: None,
        start: pair[0],
        end: pair[1],
        warm_up: at == 0 && whole > 2,
    };
    starts.windows(2).enumerate().map(step).collect()
}

/// For each place the length of the longest common prefix of all and of what begins there.
fn z_function(all: &[u32]) -> Vec<usize> {
    let mut common = vec![0; all.len()];
    let (mut left, mut right) = (0, 0);
    for at in 1..all.len() {
        let mut length = if at < right { common[at - left].min(right - at) } else { 0 };
        while all.get(at + length).is_some_and(|kind| *kind == all[length]) {
            length += 1;
        }
        if at + length > right {
            (left, right) = (at, at + length);
        }
        common[at] = length;
    }
    common
}
