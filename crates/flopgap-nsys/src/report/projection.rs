//! NVTX ranges projected onto the GPU: the work that was launched within them.

use std::cmp::Reverse;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::table::{Column, Sink, Unit, Value};
use super::{KernelName, ReportOptions};
use crate::hierarchy::{Hierarchy, Span};
use crate::nesting::{Nesting, Owners};
use crate::tables::KERNEL;
use crate::{Error, GlobalId, Name, NvtxRange, NvtxRanges, RangeStyle, Summary, Trace};

static KERNELS: [Column; 13] = [
    Column::new("NVTX Range", Unit::Plain),
    Column::new("Style", Unit::Plain),
    Column::new("PID", Unit::Plain),
    Column::new("TID", Unit::Plain),
    Column::new("NVTX Inst", Unit::Plain),
    Column::new("Kern Inst", Unit::Plain),
    Column::new("Total Time", Unit::Time),
    Column::new("Avg", Unit::Time),
    Column::new("Med", Unit::Time),
    Column::new("Min", Unit::Time),
    Column::new("Max", Unit::Time),
    Column::new("StdDev", Unit::Time),
    Column::new("Kernel Name", Unit::Plain),
];
static TRACE: [Column; 14] = [
    Column::new("Name", Unit::Plain),
    Column::new("Projected Start", Unit::Time),
    Column::new("Projected Duration", Unit::Time),
    Column::new("Orig Start", Unit::Time),
    Column::new("Orig Duration", Unit::Time),
    Column::new("Style", Unit::Plain),
    Column::new("PID", Unit::Plain),
    Column::new("TID", Unit::Plain),
    Column::new("NumGPUOps", Unit::Plain),
    Column::new("Lvl", Unit::Plain),
    Column::new("NumChild", Unit::Plain),
    Column::new("RangeId", Unit::Plain),
    Column::new("ParentId", Unit::Plain),
    Column::new("RangeStack", Unit::Plain),
];
static SUM: [Column; 14] = [
    Column::new("Range", Unit::Plain),
    Column::new("Style", Unit::Plain),
    Column::new("Total Proj Time", Unit::Time),
    Column::new("Total Range Time", Unit::Time),
    Column::new("Range Instances", Unit::Plain),
    Column::new("Proj Avg", Unit::Time),
    Column::new("Proj Med", Unit::Time),
    Column::new("Proj Min", Unit::Time),
    Column::new("Proj Max", Unit::Time),
    Column::new("Proj StdDev", Unit::Time),
    Column::new("Total GPU Ops", Unit::Plain),
    Column::new("Avg GPU Ops", Unit::Plain),
    Column::new("Avg Range Lvl", Unit::Plain),
    Column::new("Avg Num Child", Unit::Plain),
];

/// The places of the ranges that can own GPU work, those that began and ended on one thread, and the ranges as spans.
fn owners(nvtx: &NvtxRanges) -> (Vec<usize>, Vec<Span>) {
    let ranges: Vec<usize> =
        (0..nvtx.ranges.len()).filter(|range| !nvtx.ranges[*range].crosses_threads).collect();
    let span = |range: &usize| {
        let range = &nvtx.ranges[*range];
        let end = range.end.unwrap_or(nvtx.last_range);
        Span { id: range.id, start: range.start, end, thread: range.thread }
    };
    let spans = ranges.iter().map(span).collect();
    (ranges, spans)
}

/// All kernels of a row of `nvtx_kern_sum`.
#[derive(Default)]
struct Owned {
    ranges: FxHashSet<usize>,
    kernels: u64,
    durations: Vec<i64>,
}

/// What a row of `nvtx_kern_sum` is about: the range, the launching thread, the name of the kernel.
type Key = (Option<(Name, RangeStyle)>, Option<GlobalId>, Name);

/// `nvtx_kern_sum`: a kernel counts for every range that contains its launch, and without a range when none does.
pub(super) fn kernels(
    trace: &Trace,
    names: KernelName,
    options: ReportOptions,
    sink: &mut dyn Sink,
) -> Result<(), Error> {
    if !options.attribution.whole_graphs {
        trace.require(&KERNEL)?;
    }
    let nvtx = trace.nvtx_ranges_named(options)?;
    let nesting = Nesting::of(trace, &Owners::of(&nvtx), options.attribution.by)?;
    let mut groups: FxHashMap<Key, Owned> = FxHashMap::default();
    let texts = trace.named_kernels(names, options.attribution.whole_graphs, |work, name| {
        let node = nesting.node(work.process, work.correlation);
        let thread = node.map(|node| nesting.thread(node));
        let containing: Vec<usize> = node.map(|node| nesting.ranges(node).collect()).unwrap_or_default();
        if containing.is_empty() {
            let owned = groups.entry((None, thread, name)).or_default();
            owned.kernels += 1;
            owned.durations.push(work.duration());
        }
        for (before, &range) in containing.iter().enumerate() {
            let key = |range: usize| (nvtx.ranges[range].name, nvtx.ranges[range].style);
            let owned = groups.entry((Some(key(range)), thread, name)).or_default();
            owned.ranges.insert(range);
            // Ranges of one name within each other count the kernel once, but its duration once each, as nsys does.
            let again = containing[..before].iter().any(|&other| key(other) == key(range));
            owned.kernels += u64::from(!again);
            owned.durations.push(work.duration());
        }
    })?;
    let by_text = sorted(&nvtx, |kernel| texts.text(kernel).clone(), groups);
    trace.writing(|| {
        sink.columns(&KERNELS)?;
        for (key, ranges, kernels, summary) in by_text {
            let KernelRow { range, pid, tid, kernel, style } = key;
            sink.row(&[
                range.into(),
                style.map_or(Value::Absent, |style| Value::text(style.as_str())),
                pid.into(),
                tid.into(),
                ranges.into(),
                kernels.into(),
                Value::Int(summary.total),
                Value::Real(summary.mean),
                Value::Real(summary.median),
                summary.min.into(),
                summary.max.into(),
                Value::Real(summary.stddev),
                kernel.into(),
            ])?;
        }
        Ok(())
    })
}

/// What a row of `nvtx_kern_sum` is about, in texts; declared in the order in which rows are sorted.
#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
struct KernelRow {
    range: Option<Arc<str>>,
    pid: Option<i64>,
    tid: Option<i64>,
    kernel: Arc<str>,
    style: Option<RangeStyle>,
}

/// Sorts as nsys does: by range, process and thread, then by largest total.
fn sorted(
    nvtx: &NvtxRanges,
    text: impl Fn(Name) -> Arc<str>,
    groups: FxHashMap<Key, Owned>,
) -> Vec<(KernelRow, u64, u64, Summary)> {
    let rows = groups.into_iter().filter_map(|((range, thread, kernel), mut owned)| {
        let row = KernelRow {
            range: range.map(|(name, _)| nvtx.names.text(name).clone()),
            pid: thread.map(GlobalId::pid),
            tid: thread.map(GlobalId::tid),
            kernel: text(kernel),
            style: range.map(|(_, style)| style),
        };
        Some((row, owned.ranges.len() as u64, owned.kernels, Summary::of(&mut owned.durations)?))
    });
    let mut rows: Vec<_> = rows.collect();
    rows.sort_unstable_by(|(row, .., one), (other_row, .., other)| {
        let key = |row: &KernelRow| (row.range.clone(), row.pid, row.tid);
        key(row)
            .cmp(&key(other_row))
            .then_with(|| Reverse(one.total).cmp(&Reverse(other.total)))
            .then_with(|| row.cmp(other_row))
    });
    rows
}

/// The GPU work of one launch, or of all launches in a range.
#[derive(Clone, Copy)]
struct Extent {
    start: i64,
    end: i64,
    launches: u64,
}

impl Extent {
    fn join(&mut self, other: Extent) {
        self.start = self.start.min(other.start);
        self.end = self.end.max(other.end);
        self.launches += other.launches;
    }

    fn duration(&self) -> i64 {
        self.end.saturating_sub(self.start)
    }
}

/// A range with GPU work.
struct Projected {
    range: NvtxRange,
    span: Span,
    extent: Extent,
    level: usize,
    children: i64,
    parent: Option<i64>,
    path: String,
}

/// When the work of each range ran, over kernels, copies and sets.
fn extents(trace: &Trace, nvtx: &NvtxRanges, options: ReportOptions) -> Result<Vec<Option<Extent>>, Error> {
    let mut nesting = Nesting::of(trace, &Owners::of(nvtx), options.attribution.by)?;
    let mut by_node: Vec<Option<Extent>> = vec![None; nesting.len()];
    let join = |known: &mut Option<Extent>, extent: Extent| match known {
        Some(known) => known.join(extent),
        None => *known = Some(extent),
    };
    trace.gpu_work(options.attribution.whole_graphs, |work| {
        // A graph launch is one operation, however many nodes it runs.
        if let Some((node, first)) = nesting.take(work.process, work.correlation) {
            let extent = Extent { start: work.start, end: work.end, launches: u64::from(first) };
            join(&mut by_node[node], extent);
        }
    })?;
    let mut by_range: Vec<Option<Extent>> = vec![None; nvtx.ranges.len()];
    for node in (0..nesting.len()).rev() {
        if let (Some((range, parent)), Some(extent)) = (nesting.range_and_parent(node), by_node[node]) {
            join(&mut by_range[range], extent);
            join(&mut by_node[parent], extent);
        }
    }
    Ok(by_range)
}

/// Every range with GPU work, in the order of the file, as nsys lists them.
fn projected(trace: &Trace, nvtx: &NvtxRanges, options: ReportOptions) -> Result<Vec<Projected>, Error> {
    let by_range = extents(trace, nvtx, options)?;
    let (ranges, spans) = owners(nvtx);
    let work: Vec<Option<Extent>> = ranges.iter().map(|range| by_range[*range]).collect();
    let tree = Hierarchy::of(&spans);
    let children = tree.sum_over_children(|child| i64::from(work[child].is_some()));
    let rows = (0..spans.len()).filter_map(|at| {
        Some(Projected {
            range: nvtx.ranges[ranges[at]],
            span: spans[at],
            extent: work[at]?,
            level: tree.level(at),
            children: children[at],
            parent: tree.parent(at).map(|parent| spans[parent].id),
            path: tree.path(&spans, at),
        })
    });
    let mut rows: Vec<Projected> = rows.collect();
    rows.sort_by_key(|row| row.span.id);
    Ok(rows)
}

/// `nvtx_gpu_proj_trace`.
pub(super) fn trace(trace: &Trace, options: ReportOptions, sink: &mut dyn Sink) -> Result<(), Error> {
    let nvtx = trace.nvtx_ranges_named(options)?;
    let rows = projected(trace, &nvtx, options)?;
    trace.writing(|| {
        sink.columns(&TRACE)?;
        for row in rows {
            sink.row(&[
                nvtx.names.text(row.range.name).clone().into(),
                row.extent.start.into(),
                row.extent.duration().into(),
                row.span.start.into(),
                row.span.end.saturating_sub(row.span.start).into(),
                Value::text(row.range.style.as_str()),
                row.span.thread.pid().into(),
                row.span.thread.tid().into(),
                row.extent.launches.into(),
                (row.level as u64).into(),
                row.children.into(),
                row.span.id.into(),
                row.parent.into(),
                Value::Text(row.path.into()),
            ])?;
        }
        Ok(())
    })
}

/// All ranges of one name.
#[derive(Default)]
struct Instances {
    projected: Vec<i64>,
    original: i128,
    launches: u64,
    levels: usize,
    children: i64,
}

/// `nvtx_gpu_proj_sum`.
pub(super) fn sum(trace: &Trace, options: ReportOptions, sink: &mut dyn Sink) -> Result<(), Error> {
    let nvtx = trace.nvtx_ranges_named(options)?;
    let mut groups: FxHashMap<(Name, RangeStyle), Instances> = FxHashMap::default();
    for row in projected(trace, &nvtx, options)? {
        let instances = groups.entry((row.range.name, row.range.style)).or_default();
        instances.projected.push(row.extent.duration());
        instances.original += i128::from(row.span.end) - i128::from(row.span.start);
        instances.launches += row.extent.launches;
        instances.levels += row.level;
        instances.children += row.children;
    }
    let rows = groups.into_iter().filter_map(|((name, style), mut instances)| {
        let summary = Summary::of(&mut instances.projected)?;
        Some((nvtx.names.text(name).clone(), style, summary, instances))
    });
    let mut rows: Vec<_> = rows.collect();
    rows.sort_by(|(name, style, one, _), (other_name, other_style, other, _)| {
        (Reverse(one.total), name, style).cmp(&(Reverse(other.total), other_name, other_style))
    });
    trace.writing(|| {
        sink.columns(&SUM)?;
        for (name, style, summary, instances) in rows {
            let mean = |sum: f64| Value::Real(sum / summary.count as f64);
            sink.row(&[
                name.into(),
                Value::text(style.as_str()),
                Value::Int(summary.total),
                Value::Int(instances.original),
                summary.count.into(),
                Value::Real(summary.mean),
                Value::Real(summary.median),
                summary.min.into(),
                summary.max.into(),
                Value::Real(summary.stddev),
                instances.launches.into(),
                mean(instances.launches as f64),
                mean(instances.levels as f64),
                mean(instances.children as f64),
            ])?;
        }
        Ok(())
    })
}
