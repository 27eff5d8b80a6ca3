//! `nvtx_kern_sum`: kernels by the NVTX ranges that launched them.
//!
//! A kernel counts for every range around its launch. Pairs of kernel and range are never listed:
//! durations are kept once, for the *path* of range names around the launch, and a row collects
//! those of the paths that its range is on.

use std::cmp::Reverse;
use std::sync::Arc;

use flopgap_trace::Nesting;
use flopgap_trace::Values;
use rustc_hash::{FxHashMap, FxHashSet};

use super::ReportOptions;
use super::table::{Columns, Sink, Value};
use crate::KernelName;
use crate::gpu_work::Backward;
use crate::launched::nesting;
use crate::ranges::RangeTable;
use crate::tables::gpu::KERNEL;
use crate::{Error, Name, RangeStyle, Summary, ThreadId, Trace};

static COLUMNS: Columns = Columns::new(
    "NVTX Range,Style,PID,TID,NVTX Inst,Kern Inst,Total Time (ns),Avg (ns),Med (ns),Min (ns),\
     Max (ns),StdDev (ns),Kernel Name",
);
/// What ranges of one name and style have in common.
type Group = (Name, RangeStyle);

/// The rows by range, launching thread and kernel.
type Places = FxHashMap<(Option<Group>, u32, Name), u32>;

/// No path, no thread, no node.
const NONE: u32 = u32::MAX;

/// `nvtx_kern_sum`: a kernel counts for every range that contains its launch, and without a range
/// when none does.
pub(super) fn kernels(
    trace: &Trace,
    names: KernelName,
    options: ReportOptions,
    sink: &mut dyn Sink,
) -> Result<(), Error> {
    if !options.attribution.whole_graphs {
        trace.require(&KERNEL)?;
    }
    let mut table = trace.range_table()?;
    let ranges = table.printed(options.fold_names);
    let RangeTable { owners, names: range_names, styles, .. } = table;
    let nesting = nesting(trace, &owners, options.attribution.by)?;
    drop(owners);
    let mut kernels = Kernels::default();
    let texts =
        trace.named_kernels(names, options.attribution.whole_graphs, Backward::AsNsys, |work, name| {
            kernels.add(nesting.node(work.process, work.correlation), name, work.duration());
        })?;
    let paths = Paths::new(&nesting, |range| (range_names[range], styles[range]));
    let repeated = repeated_ranges(&nesting, styles.len());
    drop((range_names, styles));
    let table = Table::of(&nesting, &repeated, &paths, kernels);
    let rows = table.rows(&paths, |range| ranges.text(range), |kernel| texts.text(kernel));
    trace.writing(|| {
        sink.columns(&COLUMNS)?;
        for row in rows {
            let Printed { range, thread, kernel, ranges, kernels, times } = row;
            sink.row(&[
                range.map(|(name, _)| name.clone()).into(),
                range.map_or(Value::Absent, |(_, style)| Value::text(style.as_str())),
                thread.map(ThreadId::pid).into(),
                thread.map(ThreadId::tid).into(),
                ranges.into(),
                kernels.into(),
                Value::Int(times.total),
                Value::Real(times.mean),
                Value::Real(times.median),
                times.min.into(),
                times.max.into(),
                Value::Real(times.stddev),
                kernel.clone().into(),
            ])?;
        }
        Ok(())
    })
}

/// Kernels, until they are grouped.
#[derive(Default)]
struct Kernels {
    kernels: Vec<Kernel>,
    /// Durations that 32 bits do not hold.
    long: FxHashMap<(u32, Name), Vec<i64>>,
}

/// A kernel.
#[derive(Clone, Copy)]
struct Kernel {
    /// Where its launch was, or `NONE` when that was not recorded.
    node: u32,
    name: Name,
    /// In nanoseconds, or [`Kernel::LONG`].
    duration: u32,
}

impl Kernel {
    const LONG: u32 = u32::MAX;
}

impl Kernels {
    fn add(&mut self, node: Option<usize>, name: Name, duration: i64) {
        // There are fewer than 2^31 nodes.
        let node = node.and_then(|node| u32::try_from(node).ok()).unwrap_or(NONE);
        let short = u32::try_from(duration).ok().filter(|duration| *duration != Kernel::LONG);
        if short.is_none() {
            self.long.entry((node, name)).or_default().push(duration);
        }
        self.kernels.push(Kernel { node, name, duration: short.unwrap_or(Kernel::LONG) });
    }
}

/// The range names around launches: a tree.
struct Paths {
    of_node: Vec<u32>,
    all: Vec<Path>,
    threads: Vec<ThreadId>,
}

/// What is around a launch: a range name, and the path of what is around that.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Path {
    parent: u32,
    range: Option<Group>,
    /// The place of the launching thread in `Paths::threads`, or `NONE` when the launch was not
    /// recorded.
    thread: u32,
}

impl Paths {
    /// The path of launches that were not recorded.
    const UNKNOWN: u32 = 0;

    fn new(nesting: &Nesting, name_of: impl Fn(usize) -> (Name, RangeStyle)) -> Paths {
        let unknown = Path { parent: NONE, range: None, thread: NONE };
        let mut paths =
            Paths { of_node: Vec::with_capacity(nesting.len()), all: vec![unknown], threads: Vec::new() };
        let mut known: FxHashMap<Path, u32> = FxHashMap::default();
        for node in 0..nesting.len() {
            let path = match nesting.range_and_parent(node) {
                Some((range, parent)) => {
                    let parent = paths.of_node[parent];
                    let thread = paths.all[parent as usize].thread;
                    Path { parent, range: Some(name_of(range)), thread }
                }
                None => Path { parent: NONE, range: None, thread: paths.thread(nesting.thread(node)) },
            };
            let at = *known.entry(path).or_insert_with(|| {
                paths.all.push(path);
                // There are no more paths than nodes, which are fewer than 2^31, and the unknown
                // one.
                u32::try_from(paths.all.len() - 1).unwrap_or(NONE)
            });
            paths.of_node.push(at);
        }
        paths
    }

    fn thread(&mut self, thread: ThreadId) -> u32 {
        let at = self.threads.iter().position(|known| *known == thread).unwrap_or_else(|| {
            self.threads.push(thread);
            self.threads.len() - 1
        });
        u32::try_from(at).unwrap_or(NONE)
    }

    fn get(&self, path: u32) -> Path {
        self.all[path as usize]
    }

    /// The range names on a path with the launching thread, innermost first; for a path without
    /// ranges the thread alone.
    fn owners(&self, path: u32) -> impl Iterator<Item = (Option<Group>, u32)> + '_ {
        let mut next = Some(path);
        std::iter::from_fn(move || {
            let at = next?;
            let Path { parent, range, thread } = self.get(at);
            next = (parent != NONE).then_some(parent);
            (range.is_some() || at == path).then_some((range, thread))
        })
    }
}

/// What a row is about.
struct Row {
    range: Option<Group>,
    thread: u32,
    kernel: Name,
    /// How many instances of the range launched it.
    ranges: u64,
    /// The last node with such a kernel, or `NONE`.
    last: u32,
}

/// The kernels of one name on one path.
struct Bucket {
    durations: Values,
    /// The rows of its owners begin here in `Table::owners`.
    owners: usize,
    /// How many they are.
    depth: usize,
}

#[derive(Default)]
struct Table {
    rows: Vec<Row>,
    buckets: Vec<Bucket>,
    owners: Vec<u32>,
}

/// A row with its texts.
struct Printed<'a> {
    range: Option<(&'a Arc<str>, RangeStyle)>,
    thread: Option<ThreadId>,
    kernel: &'a Arc<str>,
    ranges: u64,
    kernels: u64,
    times: Summary,
}

impl Table {
    fn of(nesting: &Nesting, repeated: &[bool], paths: &Paths, kernels: Kernels) -> Table {
        let Kernels { mut kernels, mut long } = kernels;
        kernels.sort_unstable_by_key(|kernel| (kernel.node, kernel.name));
        let mut counted: FxHashSet<(u32, usize)> = FxHashSet::default();
        let mut table = Table::default();
        let mut rows: Places = FxHashMap::default();
        let mut buckets: FxHashMap<(u32, Name), usize> = FxHashMap::default();
        for same in kernels.chunk_by(|one, other| (one.node, one.name) == (other.node, other.name)) {
            let Kernel { node, name, .. } = same[0];
            let path = if node == NONE { Paths::UNKNOWN } else { paths.of_node[node as usize] };
            let at =
                *buckets.entry((path, name)).or_insert_with(|| table.bucket(paths, path, name, &mut rows));
            let Bucket { durations, owners, depth } = &mut table.buckets[at];
            for kernel in same {
                if kernel.duration != Kernel::LONG {
                    durations.add(kernel.duration.into());
                } else if let Some(duration) = long.get_mut(&(node, name)).and_then(Vec::pop) {
                    durations.add(duration);
                }
            }
            if node == NONE {
                continue;
            }
            // An instance counts once. The nodes within that of a range follow it without a gap:
            // when the last node that had such a kernel is one of them, the instance is counted.
            let owners = &table.owners[*owners..][..*depth];
            let mut around = node as usize;
            for &row in owners {
                let Some((range, parent)) = nesting.range_and_parent(around) else { break };
                let known = &mut table.rows[row as usize];
                let new = if repeated[range] {
                    counted.insert((row, range))
                } else {
                    known.last == NONE || (known.last as usize) < around
                };
                known.ranges += u64::from(new);
                around = parent;
            }
            for &row in owners {
                table.rows[row as usize].last = node;
            }
        }
        table
    }

    /// Makes an empty bucket.
    fn bucket(&mut self, paths: &Paths, path: u32, name: Name, rows: &mut Places) -> usize {
        let owners = self.owners.len();
        for (range, thread) in paths.owners(path) {
            let row = *rows.entry((range, thread, name)).or_insert_with(|| {
                self.rows.push(Row { range, thread, kernel: name, ranges: 0, last: NONE });
                u32::try_from(self.rows.len() - 1).expect("fewer than 2^32 rows")
            });
            self.owners.push(row);
        }
        self.buckets.push(Bucket { durations: Values::default(), owners, depth: self.owners.len() - owners });
        self.buckets.len() - 1
    }

    /// The rows in nsys's order: by range, process and thread, then by largest total.
    fn rows<'a>(
        &self,
        paths: &Paths,
        range_text: impl Fn(Name) -> &'a Arc<str>,
        kernel_text: impl Fn(Name) -> &'a Arc<str>,
    ) -> Vec<Printed<'a>> {
        // Ranges of one name within each other count a kernel once, but its duration once each, as
        // nsys does: a bucket may then belong to a row several times.
        let mut parts: Vec<(u32, u32)> = Vec::with_capacity(self.owners.len());
        for (at, bucket) in (0..).zip(&self.buckets) {
            parts.extend(self.owners[bucket.owners..][..bucket.depth].iter().map(|row| (*row, at)));
        }
        parts.sort_unstable();
        let mut rows: Vec<Printed<'a>> = Vec::with_capacity(self.rows.len());
        for parts in parts.chunk_by(|one, other| one.0 == other.0) {
            let row = &self.rows[parts[0].0 as usize];
            let mut durations = Values::default();
            let mut kernels = 0;
            for same in parts.chunk_by(|one, other| one.1 == other.1) {
                let bucket = &self.buckets[same[0].1 as usize].durations;
                kernels += bucket.len();
                for _ in same {
                    durations.extend_from(bucket);
                }
            }
            let Some(times) = durations.summary() else { continue };
            rows.push(Printed {
                range: row.range.map(|(name, style)| (range_text(name), style)),
                thread: (row.thread != NONE).then(|| paths.threads[row.thread as usize]),
                kernel: kernel_text(row.kernel),
                ranges: row.ranges,
                kernels,
                times,
            });
        }
        let key = |row: &Printed<'a>| {
            let thread = row.thread.map(|thread| (thread.pid(), thread.tid()));
            (
                row.range.map(|(name, _)| name),
                thread,
                Reverse(row.times.total),
                row.kernel,
                row.range.map(|(_, style)| style),
            )
        };
        rows.sort_unstable_by(|one, other| key(one).cmp(&key(other)));
        rows
    }
}

/// For each of the first `ranges` ranges whether it has several nodes.
fn repeated_ranges(nesting: &Nesting, ranges: usize) -> Vec<bool> {
    let (mut seen, mut repeated) = (vec![false; ranges], vec![false; ranges]);
    for node in 0..nesting.len() {
        if let Some((range, _)) = nesting.range_and_parent(node) {
            repeated[range] |= std::mem::replace(&mut seen[range], true);
        }
    }
    repeated
}
