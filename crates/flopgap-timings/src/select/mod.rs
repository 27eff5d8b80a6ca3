//! Selects instances of ranges.

use std::collections::BTreeMap;

use flopgap_trace::{
    Name, ProcessId, Range as NvtxRange, RangeName, RangeStyle, Ranges as NvtxRanges, ThreadId,
};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

use crate::fold::{fold_instances, fold_range};
use crate::intervals::Intervals;
use crate::kind::{Claim, PassKind};
use crate::pattern::RangePattern;
use crate::selection::{LeftOutFirst, Selection};

/// What counts as warm-up and is left out.
///
/// Ranges that mark warm-up, by their name ([`PassKind::WarmUp`]) or because it is one of `names`,
/// are left out with everything that lies in them. Of what is left, the first `skip` instances of
/// each pass in each process are left out, too.
///
/// Without a number, nothing more is left out of a trace that marks its warm-up. Of one that does
/// not, the first step of each process is left out if it has several, and with it all that lies
/// within it and the passes outside of any step. Only of a trace without steps is the first
/// instance of each pass left out, unless it is the only one, and with it all that lies within it.
/// The first call of a range that is neither in them nor a pass is never left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarmUp {
    /// More ranges that mark warm-up.
    pub names: Vec<RangePattern>,
    /// How many first instances of each pass to leave out.
    pub skip: Option<u64>,
    /// Leave nothing out.
    pub keep: bool,
}

/// Why instances of a pass were left out, and how many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// They lie in a range that marks warm-up, or in the first step, or outside of the steps.
    pub in_warm_up: u64,
    /// They are the first.
    pub first: u64,
    /// They lie in another instance of the same pass.
    pub nested: u64,
    /// They were still open at the end of the recording.
    pub open: u64,
}

impl LeftOut {
    /// All together.
    pub fn total(&self) -> u64 {
        self.in_warm_up + self.first + self.nested + self.open
    }
}

/// The instances of one pass that are examined.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// Folded, without the colon of the default domain: `step_*`, `model:forward`.
    pub(crate) name: String,
    pub(crate) kind: PassKind,
    /// The process, where instances of several are separated.
    pub(crate) process: Option<i64>,
    /// Its rank in its job.
    pub(crate) rank: Option<u64>,
    /// Its rank as a candidate for the step, if it is one.
    pub(crate) claim: Option<Claim>,
    /// Indices into [`NvtxRanges::ranges`], by time.
    pub(crate) instances: Vec<usize>,
    pub(crate) left_out: LeftOut,
}

/// How many ranges are named when none is a pass.
const LONGEST: usize = 5;

/// Ranges by name.
pub(crate) struct Named<'a> {
    nvtx: &'a NvtxRanges,
    /// Those that lie on one thread, in the order of their names.
    called: Vec<Called<'a>>,
}

/// Passes that nobody marked: those of a kind that somebody did are left out.
struct Derived {
    /// The kind of each name; empty where no range is derived.
    kinds: Vec<Option<PassKind>>,
    /// The kinds that were marked.
    marked: Vec<PassKind>,
}

impl Derived {
    fn new(nvtx: &NvtxRanges) -> Derived {
        let mut found = Derived { kinds: Vec::new(), marked: Vec::new() };
        if nvtx.ranges.iter().all(|range| range.style != RangeStyle::Derived) {
            return found;
        }
        found.kinds = nvtx.names.iter().map(|(_, name)| PassKind::of(&name.text)).collect();
        let marked = |range: &&NvtxRange| !matches!(range.style, RangeStyle::Derived | RangeStyle::Operator);
        for range in nvtx.ranges.iter().filter(marked) {
            let kind = found.kinds[range.name.index()];
            found.marked.extend(kind.filter(|kind| !found.marked.contains(kind)));
        }
        found
    }

    fn leaves_out(&self, range: &NvtxRange) -> bool {
        range.style == RangeStyle::Derived
            && self.kinds[range.name.index()].is_some_and(|kind| self.marked.contains(&kind))
    }
}

/// All ranges of one name.
struct Called<'a> {
    /// The NVTX domain; the default one has no name.
    domain: &'a str,
    text: &'a str,
    kind: Option<PassKind>,
    /// By time.
    instances: Vec<usize>,
}

impl Called<'_> {
    /// With its domain, unless that is the default one.
    fn prefixed(&self, text: &str) -> String {
        if self.domain.is_empty() { text.to_owned() } else { format!("{}:{text}", self.domain) }
    }

    /// As it was marked.
    fn shown(&self) -> String {
        self.prefixed(self.text)
    }

    /// With numbers of instances and layers folded.
    fn folded(&self) -> String {
        self.prefixed(&fold_range(self.text))
    }
}

impl<'a> Named<'a> {
    pub(crate) fn new(nvtx: &'a NvtxRanges) -> Named<'a> {
        let mut by_name: FxHashMap<(Name, bool), Vec<usize>> = FxHashMap::default();
        let derived = Derived::new(nvtx);
        for (at, range) in nvtx.ranges.iter().enumerate() {
            if derived.leaves_out(range) {
                continue;
            }
            // A range that ends before it starts has no usable duration; the trace's warnings count
            // it.
            let backward = range.end.is_some_and(|end| end < range.start);
            if !range.crosses_threads && !backward {
                let marks = range.style != RangeStyle::Operator;
                by_name.entry((range.name, marks)).or_default().push(at);
            }
        }
        let called = by_name.into_iter().map(|((name, marks), mut instances)| {
            let RangeName { domain, text } = nvtx.names.get(name);
            let domain = domain.as_deref().unwrap_or_default();
            let by_time = |at: &usize| (nvtx.ranges[*at].start, nvtx.ranges[*at].id);
            if !instances.is_sorted_by_key(by_time) {
                instances.sort_by_key(by_time);
            }
            Called { domain, text, kind: PassKind::of(text).filter(|_| marks), instances }
        });
        let mut called: Vec<Called<'_>> = called.collect();
        called.sort_unstable_by_key(|called| (called.domain, called.text, called.kind));
        Named { nvtx, called }
    }

    /// The steps and passes of the trace, whole steps first, then in the order in which they first
    /// begin.
    pub(crate) fn passes(&self, warm_up: &WarmUp) -> Vec<Group> {
        let passes =
            self.called.iter().filter(|called| called.kind.is_some_and(|kind| kind != PassKind::WarmUp));
        self.groups(warm_up, passes.map(|called| (called, called.folded())))
    }

    /// All ranges except those that mark warm-up; with the numbers of layers folded, or each by its
    /// own name.
    pub(crate) fn all(&self, warm_up: &WarmUp, fold_layers: bool) -> Vec<Group> {
        let all = self.called.iter().filter(|called| called.kind != Some(PassKind::WarmUp));
        let name = |called: &Called<'_>| {
            if fold_layers { called.folded() } else { called.prefixed(&fold_instances(called.text)) }
        };
        self.groups(warm_up, all.map(|called| (called, name(called))))
    }

    /// The names of the ranges that take most of the host's time, longest first.
    pub(crate) fn longest(&self, warm_up: &WarmUp) -> Vec<String> {
        let mut groups: Vec<(i128, String)> =
            self.all(warm_up, true).into_iter().map(|group| (self.host_ns(&group), group.name)).collect();
        groups.sort_by(|one, other| other.0.cmp(&one.0).then(one.1.cmp(&other.1)));
        groups.into_iter().take(LONGEST).map(|(_, name)| name).collect()
    }

    /// The sum of the lengths of a group's instances on the host.
    fn host_ns(&self, group: &Group) -> i128 {
        let length = |range: &NvtxRange| range.end.map_or(0, |end| i128::from(end) - i128::from(range.start));
        group.instances.iter().map(|&at| length(&self.nvtx.ranges[at])).sum()
    }

    /// All ranges of a kind, warm-up or not, by the name of their group.
    pub(crate) fn marked_as(&self, kind: PassKind) -> Vec<(String, usize)> {
        let marked = self.called.iter().filter(|called| called.kind == Some(kind));
        marked.flat_map(|called| called.instances.iter().map(|&at| (called.folded(), at))).collect()
    }

    /// Which instances of some groups are left out.
    pub(crate) fn selection(&self, warm_up: &WarmUp, groups: &[Group]) -> Selection {
        let marked: Vec<String> = self.marks(warm_up).map(Called::shown).collect();
        let is_any = |count: fn(&LeftOut) -> u64| groups.iter().any(|group| count(&group.left_out) > 0);
        let first = match (marked.is_empty(), warm_up.skip) {
            _ if warm_up.keep => None,
            (_, Some(0)) | (false, None) => None,
            (true, None) => match self.units(warm_up, &Intervals::default()) {
                Some(Units { steps: Some(steps), first, .. }) if !first.is_empty() => {
                    Some(LeftOutFirst::Step(steps))
                }
                // It is said only where it happened.
                _ if is_any(|left_out| left_out.first + left_out.in_warm_up) => {
                    Some(LeftOutFirst::Instances(1))
                }
                _ => None,
            },
            (_, Some(skip)) => Some(LeftOutFirst::Instances(skip)),
        };
        Selection { warm_up: marked, first, ..Selection::default() }
    }

    /// The ranges that a pattern means: all of one name, or those that it matches under their
    /// folded names.
    ///
    /// A pattern with a star means ranges that mark warm-up only when it matches no others.
    pub(crate) fn matching(&self, pattern: &RangePattern, warm_up: &WarmUp) -> Vec<Group> {
        let mut found: Vec<&Called<'_>> =
            self.called.iter().filter(|called| pattern.matches(called.domain, called.text)).collect();
        if !pattern.has_wildcard() {
            return self.groups(warm_up, found.into_iter().map(|called| (called, called.shown())));
        }
        let is_warm_up = |called: &&Called<'_>| called.kind == Some(PassKind::WarmUp);
        if !found.iter().all(is_warm_up) {
            found.retain(|called| !is_warm_up(called));
        }
        self.groups(warm_up, found.into_iter().map(|called| (called, called.folded())))
    }

    /// The group by which a trace is measured, and those of the same kind that are not a part of
    /// it.
    pub(crate) fn principal(&self, mut groups: Vec<Group>) -> Option<(Group, Vec<Group>)> {
        let best = (0..groups.len())
            .filter_map(|at| {
                let group = &groups[at];
                Some((at, (group.instances.is_empty(), group.claim?, std::cmp::Reverse(self.host_ns(group)))))
            })
            .min_by_key(|(_, key)| *key)?
            .0;
        let best = groups.swap_remove(best);
        let mut inside = Intervals::default();
        for &at in &best.instances {
            inside.add_range(&self.nvtx.ranges[at]);
        }
        inside.join();
        groups.retain(|group| {
            let same = group.kind == best.kind || best.kind != PassKind::Step;
            let outside = |at: &usize| !inside.contains(&self.nvtx.ranges[*at]);
            group.claim.is_some() && same && group.instances.iter().any(outside)
        });
        groups.sort_by(|one, other| one.name.cmp(&other.name));
        Some((best, groups))
    }

    fn groups<'b>(
        &self,
        warm_up: &WarmUp,
        ranges: impl Iterator<Item = (&'b Called<'b>, String)>,
    ) -> Vec<Group>
    where
        'a: 'b,
    {
        let (marked, nothing) = (self.marked(warm_up), Intervals::default());
        let units = self.units(warm_up, &marked);
        let mut groups: BTreeMap<(String, PassKind), Vec<&Called<'_>>> = BTreeMap::new();
        for (called, name) in ranges {
            groups.entry((name, called.kind.unwrap_or(PassKind::Named))).or_default().push(called);
        }
        let groups = groups.into_iter().map(|((name, kind), called)| {
            // What the user asks for by a name of warm-up is not left out for being it.
            let marked = if kind == PassKind::WarmUp { &nothing } else { &marked };
            self.without_warm_up(name, kind, &called, marked, units.as_ref(), warm_up)
        });
        let mut groups: Vec<Group> = groups.collect();
        let first = |group: &Group| group.instances.first().map(|&at| self.nvtx.ranges[at].start);
        let step = |group: &Group| group.claim.filter(|_| group.kind == PassKind::Step);
        groups.sort_by_key(|group| (group.kind != PassKind::Step, step(group), first(group)));
        groups
    }

    /// The ranges that mark warm-up.
    fn marks(&self, warm_up: &WarmUp) -> impl Iterator<Item = &Called<'a>> {
        let all = if warm_up.keep { &[] } else { self.called.as_slice() };
        all.iter().filter(|called| {
            let named = |wanted: &RangePattern| wanted.matches(called.domain, called.text);
            called.kind == Some(PassKind::WarmUp) || warm_up.names.iter().any(named)
        })
    }

    /// The intervals of each thread that are warm-up.
    fn marked(&self, warm_up: &WarmUp) -> Intervals {
        let mut marked = Intervals::default();
        for &at in self.marks(warm_up).flat_map(|called| &called.instances) {
            let range = self.nvtx.ranges[at];
            marked.add_range(&NvtxRange { end: range.end.or(Some(self.nvtx.last_range)), ..range });
        }
        marked.join();
        marked
    }

    /// Leaves the first instances of each name in each process out, and says how many. `name`
    /// distinguishes the names.
    fn skip(&self, instances: &mut Vec<usize>, skip: Skip, name: impl Fn(Name) -> usize) -> u64 {
        let key = |at: usize| (self.nvtx.ranges[at].thread.process(), name(self.nvtx.ranges[at].name));
        let mut counts: FxHashMap<(ProcessId, usize), u64> = FxHashMap::default();
        for &at in instances.iter() {
            *counts.entry(key(at)).or_default() += 1;
        }
        for count in counts.values_mut() {
            *count = match skip {
                Skip::Nothing => 0,
                Skip::First(skip) => skip.min(*count),
                Skip::FirstOfSeveral => u64::from(*count > 1),
            };
        }
        let skipped = counts.values().sum();
        instances.retain(|&at| match counts.get_mut(&key(at)) {
            Some(left @ 1..) => {
                *left -= 1;
                false
            }
            _ => true,
        });
        skipped
    }

    /// What the warm-up of a trace that does not mark it is the first of: its steps, or its passes
    /// where it has no steps.
    fn units(&self, warm_up: &WarmUp, marked: &Intervals) -> Option<Units> {
        if warm_up.keep || warm_up.skip.is_some() || !marked.is_empty() {
            return None;
        }
        let Some((name, instances)) = self.steps() else { return Some(self.first_passes()) };
        let mut units = Units { steps: Some(name), ..Units::default() };
        self.part(&mut units, instances);
        units.first.join();
        units.kept.join();
        Some(units)
    }

    /// Without steps, the passes of each name on its own.
    fn first_passes(&self) -> Units {
        let mut units = Units::default();
        let is_pass = |called: &&Called<'_>| {
            called.kind.is_some_and(|kind| !matches!(kind, PassKind::WarmUp | PassKind::Named))
        };
        let mut by_name: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for called in self.called.iter().filter(is_pass) {
            by_name.entry(called.folded()).or_default().extend(&called.instances);
        }
        for instances in by_name.into_values() {
            self.part(&mut units, instances);
        }
        units.first.join();
        units.kept.join();
        units
    }

    /// Adds instances of one name to those that are the first of their process, and the rest.
    fn part(&self, units: &mut Units, mut instances: Vec<usize>) {
        instances.sort_by_key(|&at| (self.nvtx.ranges[at].start, self.nvtx.ranges[at].id));
        let all = instances.clone();
        self.skip(&mut instances, Skip::FirstOfSeveral, |_| 0);
        let kept: FxHashSet<usize> = instances.into_iter().collect();
        for at in all {
            let side = if kept.contains(&at) { &mut units.kept } else { &mut units.first };
            let range = &self.nvtx.ranges[at];
            side.add_range(range);
            // For threads without any, such as that of autograd.
            side.add_range(&NvtxRange { thread: of_process(range), ..*range });
        }
    }

    /// The name and the instances of the steps by which the trace is measured.
    fn steps(&self) -> Option<(String, Vec<usize>)> {
        let mut by_name: BTreeMap<String, Group> = BTreeMap::new();
        for called in self.called.iter().filter(|called| called.kind == Some(PassKind::Step)) {
            let name = called.folded();
            let group = by_name.entry(name.clone()).or_insert_with(|| Group {
                name,
                kind: PassKind::Step,
                process: None,
                rank: None,
                claim: PassKind::claim(called.text),
                instances: Vec::new(),
                left_out: LeftOut::default(),
            });
            group.instances.extend(&called.instances);
        }
        let (Group { name, instances, .. }, _) = self.principal(by_name.into_values().collect())?;
        Some((name, instances))
    }

    fn without_warm_up(
        &self,
        name: String,
        kind: PassKind,
        called: &[&Called<'_>],
        marked: &Intervals,
        units: Option<&Units>,
        warm_up: &WarmUp,
    ) -> Group {
        let ranges = &self.nvtx.ranges;
        let mut instances: Vec<usize> =
            called.iter().flat_map(|called| called.instances.iter().copied()).collect();
        let mut left_out = LeftOut::default();
        let all = instances.len();
        instances.retain(|&at| ranges[at].end.is_some());
        left_out.open = (all - instances.len()) as u64;

        instances
            .sort_by_key(|&at| (ranges[at].thread, ranges[at].start, std::cmp::Reverse(ranges[at].end), at));
        let mut nested = FxHashSet::default();
        let mut outer: Option<&NvtxRange> = None;
        for &at in &instances {
            if outer.is_some_and(|outer| contains(outer, &ranges[at])) {
                nested.insert(at);
            } else {
                outer = Some(&ranges[at]);
            }
        }
        left_out.nested = nested.len() as u64;
        instances.retain(|at| !nested.contains(at));

        let before = instances.len();
        instances.retain(|&at| !marked.contains(&ranges[at]));
        left_out.in_warm_up = (before - instances.len()) as u64;

        let before = instances.len();
        let is_step = |units: &Units| {
            units.steps.as_ref().is_some_and(|steps| called.iter().all(|called| called.folded() == *steps))
        };
        let mut among = false;
        // The first of the units itself goes by its number.
        let is_pass = !matches!(kind, PassKind::Named | PassKind::WarmUp);
        let is_unit = units.is_some_and(|units| is_step(units) || (units.steps.is_none() && is_pass));
        if let Some(units) = units.filter(|_| kind != PassKind::WarmUp && !is_unit) {
            let has_first = !units.first.is_empty();
            let is_kept = |at: usize| units.holds(&units.kept, &ranges[at]);
            among = instances.iter().any(|&at| is_kept(at));
            let outside = |at: usize| is_pass && has_first && among && !is_kept(at);
            instances.retain(|&at| !units.holds(&units.first, &ranges[at]) && !outside(at));
        }
        left_out.in_warm_up += (before - instances.len()) as u64;

        instances.sort_by_key(|&at| (ranges[at].start, ranges[at].id));
        let skip = match warm_up.skip {
            _ if warm_up.keep => Skip::Nothing,
            Some(skip) => Skip::First(skip),
            None if is_unit => Skip::FirstOfSeveral,
            // Steps of another name beside those by which the trace is measured.
            None if units.is_some() && kind == PassKind::Step && !among => Skip::FirstOfSeveral,
            None => Skip::Nothing,
        };
        // Layers are combined, but each has its own first instance.
        let mut apart: FxHashMap<Name, usize> = FxHashMap::default();
        let mut known: BTreeMap<String, usize> = BTreeMap::new();
        for called in called {
            let Some(&at) = called.instances.first() else { continue };
            let next = known.len();
            let number = *known.entry(called.prefixed(&fold_instances(called.text))).or_insert(next);
            apart.insert(ranges[at].name, number);
        }
        left_out.first =
            self.skip(&mut instances, skip, |name| apart.get(&name).copied().unwrap_or_default());
        let claim = called.first().and_then(|called| PassKind::claim(called.text));
        Group { name, kind, process: None, rank: None, claim, instances, left_out }
    }
}

/// How many first instances are left out in each process.
#[derive(Clone, Copy)]
enum Skip {
    Nothing,
    First(u64),
    FirstOfSeveral,
}

/// The steps, or the passes, of a trace that does not mark its warm-up.
#[derive(Default)]
struct Units {
    /// The name of the steps; absent where there are none.
    steps: Option<String>,
    /// The first of each process, if it has several.
    first: Intervals,
    /// All others.
    kept: Intervals,
}

impl Units {
    /// Whether a range lies in some of them: in those of its own thread, or where that has none, in
    /// those of its process.
    fn holds(&self, some: &Intervals, range: &NvtxRange) -> bool {
        let thread = range.thread;
        let own = self.first.is_of(thread) || self.kept.is_of(thread);
        some.contains(&NvtxRange { thread: if own { thread } else { of_process(range) }, ..*range })
    }
}

/// Stands for all threads of a range's process.
fn of_process(range: &NvtxRange) -> ThreadId {
    ThreadId(range.thread.process().0)
}

/// Whether one range lies in another on the same thread.
fn contains(outer: &NvtxRange, inner: &NvtxRange) -> bool {
    outer.thread == inner.thread
        && outer.start <= inner.start
        && outer.end.is_some_and(|end| inner.end.is_some_and(|inner| inner <= end))
}

#[cfg(test)]
mod tests;
