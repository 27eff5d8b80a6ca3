//! NVTX ranges projected onto the GPU: the work that was launched within them.

use std::cmp::Reverse;
use std::sync::Arc;

use flopgap_trace::Owners;
use flopgap_trace::Values;
use rustc_hash::FxHashMap;

use super::ReportOptions;
use super::table::{Columns, Sink, Value};
use crate::gpu_work::Backward;
use crate::hierarchy::Hierarchy;
use crate::launched::nesting;
use crate::ranges::RangeTable;
use crate::{Attribution, Error, Name, RangeStyle, Trace};

static TRACE: Columns = Columns::new(
    "Name,Projected Start (ns),Projected Duration (ns),Orig Start (ns),Orig Duration (ns),\
     Style,PID,TID,NumGPUOps,Lvl,NumChild,RangeId,ParentId,RangeStack",
);
static SUM: Columns = Columns::new(
    "Range,Style,Total Proj Time (ns),Total Range Time (ns),Range Instances,Proj Avg (ns),\
     Proj Med (ns),Proj Min (ns),Proj Max (ns),Proj StdDev (ns),Total GPU Ops,Avg GPU Ops,\
     Avg Range Lvl,Avg Num Child",
);

/// The GPU work of one launch, or of all launches in a range.
#[derive(Clone, Copy)]
struct Extent {
    start: i64,
    end: i64,
    /// None of them: no work.
    launches: u64,
}

impl Extent {
    const NONE: Extent = Extent { start: i64::MAX, end: i64::MIN, launches: 0 };

    fn join(&mut self, other: Extent) {
        self.start = self.start.min(other.start);
        self.end = self.end.max(other.end);
        self.launches += other.launches;
    }

    fn duration(&self) -> i64 {
        self.end.saturating_sub(self.start)
    }
}

/// When the work of each range ran, over kernels, copies and memsets.
fn extents(trace: &Trace, owners: &Owners, attribution: Attribution) -> Result<Vec<Extent>, Error> {
    let mut nesting = nesting(trace, owners, attribution.by)?;
    let mut by_node = vec![Extent::NONE; nesting.len()];
    trace.gpu_work(attribution.whole_graphs, Backward::AsNsys, |work| {
        // A graph launch is one operation, however many nodes it runs.
        if let Some((node, first)) = nesting.take(work.process, work.correlation) {
            by_node[node].join(Extent { start: work.start, end: work.end, launches: u64::from(first) });
        }
    })?;
    let mut by_range = vec![Extent::NONE; owners.intervals().len()];
    for node in (0..nesting.len()).rev() {
        if let Some((range, parent)) = nesting.range_and_parent(node) {
            let extent = by_node[node];
            by_range[range].join(extent);
            by_node[parent].join(extent);
        }
    }
    Ok(by_range)
}

/// `nvtx_gpu_proj_trace`.
pub(super) fn trace(trace: &Trace, options: ReportOptions, sink: &mut dyn Sink) -> Result<(), Error> {
    let nvtx = trace.nvtx_ranges()?;
    let owners = Owners::of(&nvtx);
    let extents = extents(trace, &owners, options.attribution)?;
    let tree = Hierarchy::of_owners(&owners);
    let printed: Vec<Arc<str>> = nvtx.names.iter().map(|(_, name)| name.to_string().into()).collect();
    let children = tree.sum_over_children(|child| i64::from(extents[child].launches > 0));
    trace.writing(|| {
        sink.columns(&TRACE)?;
        // In the order of the file, as nsys lists them.
        for (at, extent) in extents.iter().enumerate().filter(|(_, extent)| extent.launches > 0) {
            let (range, span) = (nvtx.ranges[at], owners.intervals()[at]);
            sink.row(&[
                printed[range.name.index()].clone().into(),
                extent.start.into(),
                extent.duration().into(),
                span.start.into(),
                span.end.saturating_sub(span.start).into(),
                Value::text(range.style.as_str()),
                range.thread.pid().into(),
                range.thread.tid().into(),
                extent.launches.into(),
                (tree.level(at) as u64).into(),
                children[at].into(),
                range.id.into(),
                tree.parent(at).map(|parent| nvtx.ranges[parent].id).into(),
                Value::Text(tree.path_by(|range| nvtx.ranges[range].id.0, at).into()),
            ])?;
        }
        Ok(())
    })
}

/// All ranges of one name.
#[derive(Default)]
struct Instances {
    projected: Values,
    original: i128,
    launches: u64,
    levels: u64,
    children: i64,
}

/// `nvtx_gpu_proj_sum`.
pub(super) fn sum(trace: &Trace, options: ReportOptions, sink: &mut dyn Sink) -> Result<(), Error> {
    let mut table = trace.range_table()?;
    let texts = table.printed(options.fold_names);
    let RangeTable { owners, names, styles, .. } = table;
    let extents = extents(trace, &owners, options.attribution)?;
    let tree = Hierarchy::of_owners(&owners);
    let mut groups: FxHashMap<(Name, RangeStyle), Instances> = FxHashMap::default();
    for (at, extent) in extents.iter().enumerate().filter(|(_, extent)| extent.launches > 0) {
        let span = owners.intervals()[at];
        let instances = groups.entry((names[at], styles[at])).or_default();
        instances.projected.add(extent.duration());
        instances.original += i128::from(span.end) - i128::from(span.start);
        instances.launches += extent.launches;
        instances.levels += tree.level(at) as u64;
        if let Some(parent) = tree.parent(at).filter(|parent| extents[*parent].launches > 0) {
            groups.entry((names[parent], styles[parent])).or_default().children += 1;
        }
    }
    let rows = groups.into_iter().filter_map(|((name, style), mut instances)| {
        let summary = std::mem::take(&mut instances.projected).summary()?;
        Some((texts.text(name).clone(), style, summary, instances))
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
