//! When what ran: ranges on the host, their work on the GPU, and what ran there.

use std::collections::BTreeMap;

use flopgap_cli::Failure;
use flopgap_kernels::{Classifier, KernelClass};
use flopgap_nsys::{GlobalId, Trace, fold_name};
use flopgap_report::ReportError;
use flopgap_report::chart::{Colour, Interval, Timeline, TimelineRow};
use flopgap_report::html::Block;
use flopgap_timings::PassKind;
use flopgap_timings::passes::{Pass, Passes};
use flopgap_timings::shares::Work;

use super::page::OfTrace;
use super::work::colour;
use super::work::{Devices, Names, Operation};
use crate::answer::report;
use crate::failure;

/// What kernels of an optimizer are shown as.
const OPTIMIZER: Work = Work::Kernels(KernelClass::Optimizer);

/// How many steps are drawn: the last ones, which are no longer warming up.
const STEPS: usize = 3;

/// A stretch of the recording.
#[derive(Clone, Copy)]
struct Window {
    start: i64,
    end: i64,
}

impl Window {
    /// The part of an interval that lies within.
    fn clip(self, start: i64, end: i64, label: &str, colour: Colour) -> Option<Interval> {
        let (start, end) = (start.max(self.start), end.min(self.end));
        (start <= end).then(|| Interval { label: label.to_owned(), start, end, colour })
    }
}

pub(super) fn section(
    page: &mut OfTrace,
    trace: &Trace,
    passes: Option<&Passes>,
    devices: &Devices,
    classifier: &Classifier,
) -> Result<(), Failure> {
    let steps = passes.and_then(steps);
    let window = steps.map(|(_, window)| window).or_else(|| everything(devices));
    let Some(window) = window else {
        page.skip("timeline", "neither steps nor GPU work were recorded");
        return Ok(());
    };
    let mut rows = Vec::new();
    let mut colours = Colours::default();
    rows.extend(host_rows(trace, window, &mut colours)?);
    rows.extend(passes.and_then(|passes| projected(passes, window, &mut colours)));
    let mut names = Names::new(trace, classifier);
    // As in the shares: only its range tells that an unfused kernel is part of an optimizer.
    let optimizer: Vec<(i64, i64)> = passes.map(optimizer).unwrap_or_default();
    let in_optimizer = |operation: &Operation| {
        let next = optimizer.partition_point(|(start, _)| *start <= operation.start);
        next > 0 && operation.end <= optimizer[next - 1].1
    };
    for (device, operations) in devices {
        let mut intervals = Vec::new();
        for operation in
            operations.iter().filter(|operation| operation.start < window.end && operation.end > window.start)
        {
            let (name, work) = names.of(*operation)?;
            let work = if operation.name.is_some() && in_optimizer(operation) { OPTIMIZER } else { work };
            intervals.extend(window.clip(operation.start, operation.end, &name, colour(work)));
        }
        rows.push(TimelineRow {
            label: format!("GPU {device}: what ran, coloured by kind of work"),
            intervals,
        });
    }
    rows.retain(|row| !row.intervals.is_empty());
    let title = match steps {
        Some((pass, _)) => format!(
            "The last {} of `{}`, timed from their beginning",
            pass.instances.len().min(STEPS),
            pass.name
        ),
        None => "Everything recorded, timed from its first work on a GPU".to_owned(),
    };
    match Timeline::new(title, rows) {
        Ok(timeline) => {
            page.heading("Timeline");
            page.push(Block::Timeline(timeline));
            Ok(())
        }
        Err(ReportError::NothingToDraw { reason, .. }) => {
            page.skip("timeline", reason);
            Ok(())
        }
        Err(error) => Err(report(&error)),
    }
}

/// The pass to draw, and from the beginning of the first to the end of the last of its instances that are.
fn steps(passes: &Passes) -> Option<(&Pass, Window)> {
    let by_kind = |kind| passes.passes.iter().find(|pass| pass.kind == kind);
    let pass =
        by_kind(PassKind::Step).or_else(|| by_kind(PassKind::Forward)).or_else(|| passes.passes.first())?;
    let drawn = &pass.instances[pass.instances.len().saturating_sub(STEPS)..];
    let start = drawn.iter().map(|instance| instance.start_ns).min()?;
    let end = drawn
        .iter()
        .map(|instance| instance.gpu.map_or(instance.end_ns, |work| work.end_ns.max(instance.end_ns)))
        .max()?;
    Some((pass, Window { start, end }))
}

fn everything(devices: &Devices) -> Option<Window> {
    let all = || devices.values().flatten();
    let start = all().map(|operation| operation.start).min()?;
    Some(Window { start, end: all().map(|operation| operation.end).max()? })
}

/// From the first to the last operation of each optimizer pass, by time.
fn optimizer(passes: &Passes) -> Vec<(i64, i64)> {
    let passes = passes.passes.iter().filter(|pass| pass.kind == PassKind::Optimizer);
    let works = passes.flat_map(|pass| &pass.instances).filter_map(|instance| instance.gpu);
    let mut stretches: Vec<(i64, i64)> = works.map(|work| (work.start_ns, work.end_ns)).collect();
    stretches.sort_unstable();
    stretches
}

/// A colour for each name, in the order in which they come.
#[derive(Default)]
struct Colours(BTreeMap<String, Colour>);

impl Colours {
    fn of(&mut self, name: &str) -> Colour {
        let next = Colour::nth(self.0.len());
        *self.0.entry(name.to_owned()).or_insert(next)
    }
}

/// The ranges of each thread.
fn host_rows(trace: &Trace, window: Window, colours: &mut Colours) -> Result<Vec<TimelineRow>, Failure> {
    let nvtx = match trace.nvtx_ranges() {
        Ok(nvtx) => nvtx,
        Err(error) if error.is_absence() => return Ok(Vec::new()),
        Err(error) => return Err(failure(&error)),
    };
    let mut threads: BTreeMap<GlobalId, Vec<Interval>> = BTreeMap::new();
    let mut ranges: Vec<_> = nvtx.ranges.iter().collect();
    ranges.sort_by_key(|range| (range.start, std::cmp::Reverse(range.end)));
    for range in ranges {
        let end = range.end.unwrap_or(nvtx.last_range);
        if range.start >= window.end || end <= window.start || end < range.start {
            continue;
        }
        let name = nvtx.names.text(range.name);
        let name = name.strip_prefix(':').unwrap_or(name);
        let colour = colours.of(&fold_name(name));
        threads.entry(range.thread).or_default().extend(window.clip(range.start, end, name, colour));
    }
    let several = threads.len() > 1;
    let rows = threads.into_iter().map(|(thread, intervals)| TimelineRow {
        label: if several {
            format!("Host: NVTX ranges of thread {}", thread.tid())
        } else {
            "Host: NVTX ranges".to_owned()
        },
        intervals,
    });
    Ok(rows.collect())
}

/// The passes as their work ran on the GPU.
fn projected(passes: &Passes, window: Window, colours: &mut Colours) -> Option<TimelineRow> {
    let mut intervals = Vec::new();
    for pass in &passes.passes {
        let colour = colours.of(&pass.name);
        let works = pass.instances.iter().filter_map(|instance| instance.gpu);
        let works = works.filter(|work| work.start_ns < window.end && work.end_ns > window.start);
        intervals
            .extend(works.filter_map(|work| window.clip(work.start_ns, work.end_ns, &pass.name, colour)));
    }
    (!intervals.is_empty()).then(|| TimelineRow {
        label: "GPU: from the first to the last operation of each pass".to_owned(),
        intervals,
    })
}
