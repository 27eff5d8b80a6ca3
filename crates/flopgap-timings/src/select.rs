//! Selects instances of ranges.

use std::collections::BTreeMap;

use flopgap_trace::{Name, ProcessId, Range as NvtxRange, RangeName, RangeStyle, Ranges as NvtxRanges};
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
/// not, the first step of each process is left out, and with it the passes within it and those
/// outside of any step; where there are no steps around a pass, its first instance in each process,
/// unless it is the only one.
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
    fn of(nvtx: &NvtxRanges) -> Derived {
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
        let derived = Derived::of(nvtx);
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

    /// Which instances are left out.
    pub(crate) fn selection(&self, warm_up: &WarmUp) -> Selection {
        let marked: Vec<String> = self.marks(warm_up).map(Called::shown).collect();
        let first = match (marked.is_empty(), warm_up.skip) {
            _ if warm_up.keep => None,
            (_, Some(0)) | (false, None) => None,
            (true, None) => Some(match self.steps(warm_up, &Intervals::default()) {
                Some(steps) => LeftOutFirst::Step(steps.name),
                None => LeftOutFirst::Instances(1),
            }),
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
        let steps = self.steps(warm_up, &marked);
        let mut groups: BTreeMap<(String, PassKind), Vec<&Called<'_>>> = BTreeMap::new();
        for (called, name) in ranges {
            groups.entry((name, called.kind.unwrap_or(PassKind::Named))).or_default().push(called);
        }
        let groups = groups.into_iter().map(|((name, kind), called)| {
            // What the user asks for by a name of warm-up is not left out for being it.
            let marked = if kind == PassKind::WarmUp { &nothing } else { &marked };
            self.without_warm_up(name, kind, &called, marked, steps.as_ref(), warm_up)
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

    /// The steps that stand for the warm-up of a trace that does not mark it: when some process has
    /// several of them.
    fn steps(&self, warm_up: &WarmUp, marked: &Intervals) -> Option<Steps> {
        if warm_up.keep || warm_up.skip.is_some() || !marked.is_empty() {
            return None;
        }
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
        let (Group { name, mut instances, .. }, _) = self.principal(by_name.into_values().collect())?;
        instances.sort_by_key(|&at| (self.nvtx.ranges[at].start, self.nvtx.ranges[at].id));
        let mut steps = Steps { name, first: Intervals::default(), kept: Intervals::default() };
        let all = instances.clone();
        if self.skip(&mut instances, Skip::FirstOfSeveral, |_| 0) == 0 {
            return None;
        }
        let kept: FxHashSet<usize> = instances.into_iter().collect();
        for at in all {
            let side = if kept.contains(&at) { &mut steps.kept } else { &mut steps.first };
            side.add_range(&self.nvtx.ranges[at]);
        }
        steps.first.join();
        steps.kept.join();
        Some(steps)
    }

    fn without_warm_up(
        &self,
        name: String,
        kind: PassKind,
        called: &[&Called<'_>],
        marked: &Intervals,
        steps: Option<&Steps>,
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
        let mut has_steps = false;
        if let Some(steps) = steps.filter(|steps| {
            kind != PassKind::WarmUp && called.iter().all(|called| called.folded() != steps.name)
        }) {
            let is_pass = kind != PassKind::Named;
            has_steps = instances.iter().any(|&at| steps.kept.contains(&ranges[at]));
            let outside = |at: usize| is_pass && has_steps && !steps.kept.contains(&ranges[at]);
            instances.retain(|&at| !steps.first.contains(&ranges[at]) && !outside(at));
        }
        left_out.in_warm_up += (before - instances.len()) as u64;

        instances.sort_by_key(|&at| (ranges[at].start, ranges[at].id));
        let skip = match warm_up.skip {
            _ if warm_up.keep => Skip::Nothing,
            Some(skip) => Skip::First(skip),
            None if marked.is_empty() && !has_steps && kind != PassKind::WarmUp => Skip::FirstOfSeveral,
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

/// The steps of a trace that does not mark its warm-up.
struct Steps {
    /// Of their group.
    name: String,
    /// The first of each process.
    first: Intervals,
    /// All others.
    kept: Intervals,
}

/// Whether one range lies in another on the same thread.
fn contains(outer: &NvtxRange, inner: &NvtxRange) -> bool {
    outer.thread == inner.thread
        && outer.start <= inner.start
        && outer.end.is_some_and(|end| inner.end.is_some_and(|inner| inner <= end))
}

#[cfg(test)]
mod tests {
    use flopgap_trace::{RangeId, ThreadId};

    use super::*;

    /// Ranges by name, start, end and thread.
    fn recorded(ranges: &[(&str, i64, i64, i64)]) -> NvtxRanges {
        let mut nvtx = NvtxRanges { last_event: 1000, last_range: 1000, ..NvtxRanges::default() };
        for (id, &(name, start, end, thread)) in (1..).zip(ranges) {
            let name = nvtx.names.intern(RangeName { domain: None, text: name.into() });
            nvtx.ranges.push(NvtxRange {
                id: RangeId(id),
                start,
                end: (end > 0).then_some(end),
                thread: ThreadId(thread),
                name,
                style: RangeStyle::PushPop,
                crosses_threads: false,
            });
        }
        nvtx
    }

    /// The starts of the instances of each pass.
    fn starts(nvtx: &NvtxRanges, warm_up: &WarmUp) -> Vec<(String, Vec<i64>)> {
        let groups = Named::new(nvtx).passes(warm_up).into_iter();
        let starts = |group: &Group| group.instances.iter().map(|&at| nvtx.ranges[at].start).collect();
        groups.map(|group| (group.name.clone(), starts(&group))).collect()
    }

    fn expected(groups: &[(&str, &[i64])]) -> Vec<(String, Vec<i64>)> {
        groups.iter().map(|(name, starts)| ((*name).to_owned(), starts.to_vec())).collect()
    }

    const MAIN: i64 = 0x100_0001;
    const OTHER: i64 = 0x200_0001;

    #[test]
    fn the_first_step_of_each_process_is_warming_up_and_what_lies_outside() {
        let nvtx = recorded(&[
            ("forward", 0, 5, MAIN),
            ("step_0", 10, 20, MAIN),
            ("forward", 11, 15, MAIN),
            ("step_1", 30, 40, MAIN),
            ("forward", 31, 35, MAIN),
            ("step_0", 12, 22, OTHER),
            ("forward", 13, 14, OTHER),
            ("step_1", 32, 42, OTHER),
            ("forward", 33, 34, OTHER),
        ]);
        let found = starts(&nvtx, &WarmUp::default());
        assert_eq!(found, expected(&[("step_*", &[30, 32]), ("forward", &[31, 33])]));
        let first = Named::new(&nvtx).selection(&WarmUp::default()).first;
        assert_eq!(first, Some(LeftOutFirst::Step("step_*".to_owned())));
        let two = WarmUp { skip: Some(1), ..WarmUp::default() };
        assert_eq!(starts(&nvtx, &two), expected(&[("step_*", &[30, 32]), ("forward", &[11, 31, 33])]));
        let all = WarmUp { keep: true, ..WarmUp::default() };
        assert_eq!(
            starts(&nvtx, &all),
            expected(&[("step_*", &[10, 12, 30, 32]), ("forward", &[0, 11, 13, 31, 33])])
        );
        assert_eq!(Named::new(&nvtx).selection(&all), Selection::default());
    }

    #[test]
    fn without_steps_the_first_instance_goes_unless_it_is_the_only_one() {
        let nvtx = recorded(&[("forward", 0, 5, MAIN), ("forward", 6, 9, MAIN), ("backward", 10, 12, MAIN)]);
        assert_eq!(starts(&nvtx, &WarmUp::default()), expected(&[("forward", &[6]), ("backward", &[10])]));
    }

    #[test]
    fn nested_and_open_instances_do_not_count() {
        let nvtx = recorded(&[
            ("warmup 1", 0, 5, MAIN),
            ("forward", 1, 4, MAIN),
            ("forward", 10, 20, MAIN),
            ("forward", 11, 19, MAIN),
            ("forward", 30, 0, MAIN),
        ]);
        let groups = Named::new(&nvtx).passes(&WarmUp::default());
        assert_eq!(starts(&nvtx, &WarmUp::default()), expected(&[("forward", &[10])]));
        assert_eq!(groups[0].left_out, LeftOut { in_warm_up: 1, first: 0, nested: 1, open: 1 });
    }

    /// A first step is warm-up with all within it, whatever is a step of its own there.
    #[test]
    fn parts_of_steps_and_checks_are_no_steps_of_their_own() {
        let nvtx = recorded(&[
            ("global_step_0", 0, 20, MAIN),
            ("micro_step", 1, 9, MAIN),
            ("micro_step", 10, 19, MAIN),
            ("global_step_1", 30, 50, MAIN),
            ("micro_step", 31, 39, MAIN),
            ("micro_step", 40, 49, MAIN),
            ("validation_step", 60, 65, MAIN),
            ("validation_step", 66, 69, MAIN),
        ]);
        let named = Named::new(&nvtx);
        let found = starts(&nvtx, &WarmUp::default());
        assert_eq!(
            found,
            expected(&[("global_step_*", &[30]), ("micro_step", &[31, 40]), ("validation_step", &[66])])
        );
        let (steps, others) = named.principal(named.passes(&WarmUp::default())).unwrap();
        assert_eq!(steps.name, "global_step_*");
        let others: Vec<&str> = others.iter().map(|group| group.name.as_str()).collect();
        assert_eq!(others, ["validation_step"]);
    }

    #[test]
    fn patterns_find_ranges_of_all_domains_and_layers_together() {
        let mut nvtx = recorded(&[
            ("blocks.0", 0, 5, MAIN),
            ("blocks.1", 6, 9, MAIN),
            ("blocks.0", 10, 15, MAIN),
            ("blocks.1", 16, 19, MAIN),
            ("a, b", 20, 21, MAIN),
            ("warmup_0", 22, 23, OTHER),
        ]);
        nvtx.ranges[4].name =
            nvtx.names.intern(RangeName { domain: Some("model".into()), text: "a, b".into() });
        let named = Named::new(&nvtx);
        let found = |pattern: &str, warm_up: &WarmUp| -> Vec<(String, Vec<usize>)> {
            let groups = named.matching(&pattern.parse().unwrap(), warm_up).into_iter();
            groups.map(|group| (group.name, group.instances)).collect()
        };
        let all = WarmUp { keep: true, ..WarmUp::default() };
        assert_eq!(found("blocks.*", &all), [("blocks.*".to_owned(), vec![0, 1, 2, 3])]);
        assert_eq!(found("blocks.1", &all), [("blocks.1".to_owned(), vec![1, 3])]);
        // Each layer has a first instance.
        let first = WarmUp { skip: Some(1), ..WarmUp::default() };
        assert_eq!(found("blocks.*", &first), [("blocks.*".to_owned(), vec![2, 3])]);
        for pattern in ["a, b", "model:a, b", "model:*", "*, b"] {
            assert_eq!(found(pattern, &all), [("model:a, b".to_owned(), vec![4])], "{pattern}");
        }
        for pattern in [":a, b", "a", "b", "blocks"] {
            assert_eq!(found(pattern, &all), [], "{pattern}");
        }
        assert_eq!(found("*", &all).len(), 2, "warming up is asked for by name alone");
        assert_eq!(found("warm*", &all).len(), 1);
    }
}
