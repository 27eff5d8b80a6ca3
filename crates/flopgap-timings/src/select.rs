//! Which instances of which ranges are looked at.

use std::collections::BTreeMap;

use flopgap_nsys::{GlobalId, NvtxRange, NvtxRanges, fold_name};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

use crate::kind::PassKind;
use crate::waits::merge;

/// What counts as warming up and is left out.
///
/// Ranges that mark warming up, by their name ([`PassKind::WarmUp`]) or because it is one of `names`, are left out with everything
/// that lies in them. Of what is left, the first `skip` instances of each pass in each process are left out, too.
///
/// Without a number, nothing more is left out of a trace that marks its warming up. Of one that does not, the first step of each process is
/// left out, and with it the passes within it and those outside of any step; where there are no steps around a pass, its first instance in
/// each process, unless it is the only one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarmUp {
    /// More names of ranges that mark warming up.
    pub names: Vec<String>,
    /// How many first instances of each pass to leave out.
    pub skip: Option<u64>,
    /// Leave nothing out.
    pub keep: bool,
}

/// Why instances of a pass were left out, and how many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// They lie in a range that marks warming up, or in the first step, or outside of the steps.
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

/// The instances of one pass that are looked at.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// Folded, without the colon of the default domain: `step_*`, `model:forward`.
    pub(crate) name: String,
    pub(crate) kind: PassKind,
    /// Indices into [`NvtxRanges::ranges`], by time.
    pub(crate) instances: Vec<usize>,
    pub(crate) left_out: LeftOut,
}

/// Ranges by the name under which they are shown.
pub(crate) struct Named<'a> {
    nvtx: &'a NvtxRanges,
    /// By name: the indices of ranges that lie on one thread.
    by_name: BTreeMap<String, Vec<usize>>,
}

/// The name without the colon of the default domain.
fn bare(name: &str) -> &str {
    name.strip_prefix(':').unwrap_or(name)
}

impl<'a> Named<'a> {
    pub(crate) fn new(nvtx: &'a NvtxRanges) -> Named<'a> {
        let mut by_name: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (at, range) in nvtx.ranges.iter().enumerate() {
            // A range that ends before it starts has no duration to speak of; the trace's warnings count it.
            let backward = range.end.is_some_and(|end| end < range.start);
            if !range.crosses_threads && !backward {
                by_name.entry(bare(nvtx.names.text(range.name)).to_owned()).or_default().push(at);
            }
        }
        for instances in by_name.values_mut() {
            instances.sort_by_key(|&at| (nvtx.ranges[at].start, nvtx.ranges[at].id));
        }
        Named { nvtx, by_name }
    }

    /// The steps and passes of the trace, whole steps first, then in the order in which they first begin.
    pub(crate) fn passes(&self, warm_up: &WarmUp) -> Vec<Group> {
        self.groups(warm_up, |name| kind_of(name).filter(|kind| *kind != PassKind::WarmUp))
    }

    /// All ranges except those that mark warming up.
    pub(crate) fn all(&self, warm_up: &WarmUp) -> Vec<Group> {
        self.groups(warm_up, |name| match kind_of(name) {
            Some(PassKind::WarmUp) => None,
            kind => Some(kind.unwrap_or(PassKind::Named)),
        })
    }

    /// All ranges of a kind, warming up or not, by the name of their group.
    pub(crate) fn marked_as(&self, kind: PassKind) -> Vec<(String, usize)> {
        let named = self.by_name.iter().filter(|(name, _)| kind_of(name) == Some(kind));
        named.flat_map(|(name, instances)| instances.iter().map(|&at| (folded(name), at))).collect()
    }

    /// Which instances are left out, in a sentence.
    pub(crate) fn rule(&self, warm_up: &WarmUp) -> String {
        let mut marked: Vec<&str> = self.marks(warm_up).map(|(name, _)| name.as_str()).collect();
        marked.truncate(3);
        let first = match (marked.is_empty(), warm_up.skip) {
            _ if warm_up.keep => None,
            (_, Some(0)) | (false, None) => None,
            (true, None) => match self.steps(warm_up, &Marked::default()) {
                Some(steps) => Some(format!(
                    "the first `{}` of each process, and passes outside of the steps",
                    steps.names.join("`, `")
                )),
                None => Some("the first instance of each pass in each process".to_owned()),
            },
            (_, Some(1)) => Some("the first instance of each pass in each process".to_owned()),
            (_, Some(skip)) => Some(format!("the first {skip} instances of each pass in each process")),
        };
        let marked = (!marked.is_empty()).then(|| format!("what lies in `{}`", marked.join("`, `")));
        match (marked, first) {
            (Some(marked), Some(first)) => format!("Left out as warming up: {marked}, and {first} after it."),
            (Some(one), None) | (None, Some(one)) => format!("Left out as warming up: {one}."),
            (None, None) => "Nothing is left out as warming up.".to_owned(),
        }
    }

    /// The ranges of a name: exactly, without its domain's colon, or as all that fold to it (`step_*`).
    pub(crate) fn called(&self, wanted: &str, warm_up: &WarmUp) -> Vec<Group> {
        let wanted = bare(wanted);
        let exact = self.by_name.contains_key(wanted);
        let matches = |name: &str| if exact { name == wanted } else { folded(name) == wanted };
        let kind = |name: &str| matches(name).then(|| kind_of(name).unwrap_or(PassKind::Named));
        let mut groups = self.groups(warm_up, kind);
        if exact {
            for group in &mut groups {
                wanted.clone_into(&mut group.name);
            }
        }
        groups
    }

    fn groups(&self, warm_up: &WarmUp, kind: impl Fn(&str) -> Option<PassKind>) -> Vec<Group> {
        let (marked, nothing) = (self.marked(warm_up), Marked::default());
        let steps = self.steps(warm_up, &marked);
        let mut groups: BTreeMap<(String, PassKind), Vec<usize>> = BTreeMap::new();
        for (name, instances) in &self.by_name {
            if let Some(kind) = kind(name) {
                groups.entry((folded(name), kind)).or_default().extend(instances);
            }
        }
        let groups = groups.into_iter().map(|((name, kind), instances)| {
            // What the user asks for by a name of warming up is not left out for being it.
            let marked = if kind == PassKind::WarmUp { &nothing } else { &marked };
            self.without_warm_up(name, kind, instances, marked, steps.as_ref(), warm_up)
        });
        let mut groups: Vec<Group> = groups.collect();
        let first = |group: &Group| group.instances.first().map(|&at| self.nvtx.ranges[at].start);
        groups.sort_by_key(|group| (group.kind != PassKind::Step, first(group)));
        groups
    }

    /// The ranges that mark warming up.
    fn marks(&self, warm_up: &WarmUp) -> impl Iterator<Item = (&String, &Vec<usize>)> {
        let all = if warm_up.keep { None } else { Some(self.by_name.iter()) };
        all.into_iter().flatten().filter(|(name, _)| {
            let named = |wanted: &String| bare(wanted) == name.as_str() || bare(wanted) == folded(name);
            kind_of(name) == Some(PassKind::WarmUp) || warm_up.names.iter().any(named)
        })
    }

    /// The stretches of each thread that are warming up.
    fn marked(&self, warm_up: &WarmUp) -> Marked {
        let mut marked = Marked::default();
        for &at in self.marks(warm_up).flat_map(|(_, instances)| instances) {
            let range = self.nvtx.ranges[at];
            marked.add(&NvtxRange { end: range.end.or(Some(self.nvtx.last_range)), ..range });
        }
        marked.merge();
        marked
    }

    /// Leaves the first instances in each process out, and says how many.
    fn skip(&self, instances: &mut Vec<usize>, skip: Skip) -> u64 {
        let process = |at: usize| self.nvtx.ranges[at].thread.process();
        let mut counts: FxHashMap<GlobalId, u64> = FxHashMap::default();
        for &at in instances.iter() {
            *counts.entry(process(at)).or_default() += 1;
        }
        for count in counts.values_mut() {
            *count = match skip {
                Skip::Nothing => 0,
                Skip::First(skip) => skip.min(*count),
                Skip::FirstOfSeveral => u64::from(*count > 1),
            };
        }
        let skipped = counts.values().sum();
        instances.retain(|&at| match counts.get_mut(&process(at)) {
            Some(left @ 1..) => {
                *left -= 1;
                false
            }
            _ => true,
        });
        skipped
    }

    /// The steps by which the warming up of a trace is told that does not mark it: when some process has several of one name.
    fn steps(&self, warm_up: &WarmUp, marked: &Marked) -> Option<Steps> {
        if warm_up.keep || warm_up.skip.is_some() || !marked.0.is_empty() {
            return None;
        }
        let mut by_name: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (name, at) in self.marked_as(PassKind::Step) {
            by_name.entry(name).or_default().push(at);
        }
        let mut steps = Steps::default();
        for (name, mut instances) in by_name {
            instances.sort_by_key(|&at| (self.nvtx.ranges[at].start, self.nvtx.ranges[at].id));
            let all = instances.clone();
            if self.skip(&mut instances, Skip::FirstOfSeveral) == 0 {
                continue;
            }
            let kept: FxHashSet<usize> = instances.into_iter().collect();
            steps.names.push(name);
            for at in all {
                let side = if kept.contains(&at) { &mut steps.kept } else { &mut steps.first };
                side.add(&self.nvtx.ranges[at]);
            }
        }
        steps.first.merge();
        steps.kept.merge();
        (!steps.names.is_empty()).then_some(steps)
    }

    fn without_warm_up(
        &self,
        name: String,
        kind: PassKind,
        mut instances: Vec<usize>,
        marked: &Marked,
        steps: Option<&Steps>,
        warm_up: &WarmUp,
    ) -> Group {
        let ranges = &self.nvtx.ranges;
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
        let mut told_by_steps = false;
        if let Some(steps) = steps.filter(|_| !matches!(kind, PassKind::Step | PassKind::WarmUp)) {
            let is_pass = kind != PassKind::Named;
            told_by_steps = instances.iter().any(|&at| steps.kept.contains(&ranges[at]));
            let outside = |at: usize| is_pass && told_by_steps && !steps.kept.contains(&ranges[at]);
            instances.retain(|&at| !steps.first.contains(&ranges[at]) && !outside(at));
        }
        left_out.in_warm_up += (before - instances.len()) as u64;

        instances.sort_by_key(|&at| (ranges[at].start, ranges[at].id));
        let skip = match warm_up.skip {
            _ if warm_up.keep => Skip::Nothing,
            Some(skip) => Skip::First(skip),
            None if marked.0.is_empty() && !told_by_steps && kind != PassKind::WarmUp => Skip::FirstOfSeveral,
            None => Skip::Nothing,
        };
        left_out.first = self.skip(&mut instances, skip);
        Group { name, kind, instances, left_out }
    }
}

/// The name under which instances are put together. All numbers in the name of a pass count its instances: `warmup_3`.
fn folded(name: &str) -> String {
    let (domain, text) = match name.split_once(':') {
        Some((domain, text)) if PassKind::of(name).is_none() => (domain.len() + 1, text),
        _ => (0, name),
    };
    if PassKind::of(text).is_none() {
        return fold_name(name).into_owned();
    }
    let mut folded = name[..domain].to_owned();
    let mut in_number = false;
    for c in text.chars() {
        if !c.is_ascii_digit() {
            folded.push(c);
        } else if !in_number {
            folded.push('*');
        }
        in_number = c.is_ascii_digit();
    }
    folded
}

/// The kind of a range by its name, whatever its domain.
fn kind_of(name: &str) -> Option<PassKind> {
    PassKind::of(name).or_else(|| PassKind::of(name.split_once(':')?.1))
}

/// The stretches of each thread that are warming up, by time, none touching another.
#[derive(Default)]
struct Marked(FxHashMap<GlobalId, Vec<(i64, i64)>>);

/// How many first instances are left out in each process.
#[derive(Clone, Copy)]
enum Skip {
    Nothing,
    First(u64),
    FirstOfSeveral,
}

/// The steps of a trace that does not mark its warming up.
#[derive(Default)]
struct Steps {
    names: Vec<String>,
    /// The first of each process.
    first: Marked,
    /// All others.
    kept: Marked,
}

impl Marked {
    fn add(&mut self, range: &NvtxRange) {
        if let Some(end) = range.end {
            self.0.entry(range.thread).or_default().push((range.start, end));
        }
    }

    fn merge(&mut self) {
        self.0.values_mut().for_each(merge);
    }

    /// Whether a range lies in one of them, or is one.
    fn contains(&self, range: &NvtxRange) -> bool {
        let Some(stretches) = self.0.get(&range.thread) else { return false };
        let after = stretches.partition_point(|&(start, _)| start <= range.start);
        let around = after.checked_sub(1).map(|at| stretches[at].1);
        around.is_some_and(|warm| range.end.is_some_and(|end| end <= warm))
    }
}

/// Whether one range lies in another on the same thread.
fn contains(outer: &NvtxRange, inner: &NvtxRange) -> bool {
    outer.thread == inner.thread
        && outer.start <= inner.start
        && outer.end.is_some_and(|end| inner.end.is_some_and(|inner| inner <= end))
}

#[cfg(test)]
mod tests {
    use flopgap_nsys::RangeStyle;

    use super::*;

    /// Ranges by name, start, end and thread.
    fn recorded(ranges: &[(&str, i64, i64, i64)]) -> NvtxRanges {
        let mut nvtx = NvtxRanges { last_event: 1000, last_range: 1000, ..NvtxRanges::default() };
        for (id, &(name, start, end, thread)) in (1..).zip(ranges) {
            let name = nvtx.names.intern(&format!(":{name}"));
            nvtx.ranges.push(NvtxRange {
                id,
                start,
                end: (end > 0).then_some(end),
                thread: GlobalId(thread),
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
        assert_eq!(
            Named::new(&nvtx).rule(&WarmUp::default()),
            "Left out as warming up: the first `step_*` of each process, and passes outside of the steps."
        );
        let two = WarmUp { skip: Some(1), ..WarmUp::default() };
        assert_eq!(starts(&nvtx, &two), expected(&[("step_*", &[30, 32]), ("forward", &[11, 31, 33])]));
        let all = WarmUp { keep: true, ..WarmUp::default() };
        assert_eq!(
            starts(&nvtx, &all),
            expected(&[("step_*", &[10, 12, 30, 32]), ("forward", &[0, 11, 13, 31, 33])])
        );
        assert_eq!(Named::new(&nvtx).rule(&all), "Nothing is left out as warming up.");
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

    #[test]
    fn numbers_of_passes_fold_and_domains_stay() {
        assert_eq!(folded("forward_3"), "forward_*");
        assert_eq!(folded("gpu0:step_12"), "gpu0:step_*");
        assert_eq!(folded("aten::view, op_id = 7"), "aten::view, op_id = *");
        assert_eq!(folded("layer1"), "layer1");
    }
}
