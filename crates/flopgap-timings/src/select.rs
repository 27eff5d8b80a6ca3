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
/// that lies in them. Of what is left, the first `skip` instances of each pass are left out, too. Without a number that is none when the trace
/// marks its warming up, and else the first, unless it is the only one.
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
    /// They lie in a range that marks warming up.
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
            if !range.crosses_threads {
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
            (true, None) | (_, Some(1)) => Some("the first instance of each pass".to_owned()),
            (_, Some(skip)) => Some(format!("the first {skip} instances of each pass")),
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
        let mut groups: BTreeMap<(String, PassKind), Vec<usize>> = BTreeMap::new();
        for (name, instances) in &self.by_name {
            if let Some(kind) = kind(name) {
                groups.entry((folded(name), kind)).or_default().extend(instances);
            }
        }
        let groups = groups.into_iter().map(|((name, kind), instances)| {
            // What the user asks for by a name of warming up is not left out for being it.
            let marked = if kind == PassKind::WarmUp { &nothing } else { &marked };
            self.without_warm_up(name, kind, instances, marked, warm_up)
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
            let range = &self.nvtx.ranges[at];
            let end = range.end.unwrap_or(self.nvtx.last_range);
            marked.0.entry(range.thread).or_default().push((range.start, end));
        }
        for stretches in marked.0.values_mut() {
            merge(stretches);
        }
        marked
    }

    fn without_warm_up(
        &self,
        name: String,
        kind: PassKind,
        mut instances: Vec<usize>,
        marked: &Marked,
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

        instances.sort_by_key(|&at| (ranges[at].start, ranges[at].id));
        let unmarked = usize::from(marked.0.is_empty() && instances.len() > 1 && kind != PassKind::WarmUp);
        let unmarked = if warm_up.keep { 0 } else { unmarked };
        let skip = warm_up.skip.map_or(unmarked, |skip| usize::try_from(skip).unwrap_or(usize::MAX));
        let skip = skip.min(instances.len());
        instances.drain(..skip);
        left_out.first = skip as u64;
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

impl Marked {
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
