//! When what ran: ranges on the host, their work on the GPU, and what ran there.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use flopgap_files::present;
use flopgap_gap::{Part, Piece, Pieces};
use flopgap_kernels::{Classifier, KernelClass};
use flopgap_report::ReportError;
use flopgap_report::chart::{Color, NameId, Timeline};
use flopgap_report::html::Block;
use flopgap_timings::passes::{Pass, Passes};
use flopgap_timings::shares::Work;
use flopgap_timings::{PassKind, Place};
use flopgap_trace::{Ranges, Recording, ThreadId, fold_name};

use super::gap;
use super::trace::TracePage;
use super::work::{self, Devices, Names, Operation, Stream, What, color};
use crate::error::Error;
use crate::sentences;

/// What kernels of an optimizer are shown as.
const OPTIMIZER: Work = Work::Kernels(KernelClass::Optimizer);

/// How many steps are drawn: the last ones, which are no longer warming up.
const STEPS: usize = 3;

/// How many pieces of steps taken apart are kept for it.
pub(crate) const PIECES: usize = Timeline::capacity() / 2;

/// The work of a device in the window, by time.
fn within<'a>(operations: &'a [Operation], window: &'a Range<i64>) -> impl Iterator<Item = &'a Operation> {
    let before = operations.partition_point(|operation| operation.start < window.end);
    operations[..before].iter().filter(|operation| operation.end > window.start)
}

pub(crate) fn section(
    page: &mut TracePage,
    trace: &dyn Recording,
    passes: Option<&Passes>,
    classifier: &Classifier,
) -> Result<(), Error> {
    let steps = passes.and_then(steps);
    // Only what is drawn is read.
    let devices = &work::read(trace, steps.as_ref().map(|(_, window)| window))?;
    let window = steps.as_ref().map(|(_, window)| window.clone()).or_else(|| everything(devices));
    let Some(window) = window else {
        page.skip("timeline", "neither steps nor GPU work were recorded");
        return Ok(());
    };
    let title = match steps {
        Some((pass, _)) => match pass.instances.len().min(STEPS) {
            1 => format!("The last `{}`, timed from its beginning", pass.name),
            several => format!("The last {several} of `{}`, timed from their beginning", pass.name),
        },
        None => "Everything recorded, timed from its first work on a GPU".to_owned(),
    };
    let mut timeline = match Timeline::new(title, window.clone()) {
        Ok(timeline) => timeline,
        Err(ReportError::NothingToDraw { reason, .. }) => {
            page.skip("timeline", reason);
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    let nvtx = present(trace.ranges())?;
    let ranges = nvtx.as_deref().map(|nvtx| host_ranges(nvtx, &window)).unwrap_or_default();
    let pieces = page.taken_apart.as_mut().map(|found| std::mem::take(&mut found.pieces)).unwrap_or_default();
    if let Some(time) = kept_from(devices, &ranges, &pieces, &window) {
        timeline = timeline.keep_from(time);
    }
    let mut colors = Colors::default();
    host_rows(&ranges, &mut colors, &mut timeline);
    if let Some(passes) = passes {
        projected(passes, &mut colors, &mut timeline);
    }
    page.shows_parts = gpu_rows(passes, devices, (classifier, &pieces), &window, &mut timeline);
    if timeline.is_empty() {
        page.skip("timeline", "nothing happened in its time");
    } else {
        page.heading("Timeline");
        page.push(Block::Timeline(timeline));
    }
    Ok(())
}

/// From when on single operations and ranges are kept, where there are too many of them.
fn kept_from(
    devices: &Devices,
    ranges: &[HostRange<'_>],
    pieces: &[Pieces],
    window: &Range<i64>,
) -> Option<i64> {
    let operations = || devices.operations.values().flat_map(|operations| within(operations, window));
    let pieces = || pieces.iter().flat_map(|own| drawn(own, window));
    let count = operations().count() + pieces().count() + ranges.len();
    let too_many = count.checked_sub(Timeline::capacity()).filter(|more| *more > 0)?;
    let mut starts: Vec<i64> = operations().map(|operation| operation.start).collect();
    starts.extend(ranges.iter().map(|range| range.start));
    starts.extend(pieces().map(|piece| piece.start_ns));
    let (_, first, _) = starts.select_nth_unstable(too_many);
    Some(*first)
}

/// The pieces in the window, by time.
fn drawn<'a>(pieces: &'a Pieces, window: &Range<i64>) -> impl Iterator<Item = &'a Piece> {
    let before = pieces.pieces.partition_point(|piece| piece.start_ns < window.end);
    let first = pieces.pieces.partition_point(|piece| piece.end_ns <= window.start);
    pieces.pieces.get(first..before).unwrap_or_default().iter()
}

/// A row of what counts at each instant on a GPU, a lane for each thread whose steps were taken
/// apart there. Whether there is any.
fn parts_row(gpu: Place, pieces: &[Pieces], window: &Range<i64>, timeline: &mut Timeline) -> bool {
    let is_own = |own: &&Pieces| {
        let place = own.place;
        place.gpu == gpu.gpu && gpu.process.is_none_or(|process| place.process == Some(process))
    };
    let own: Vec<&Pieces> =
        pieces.iter().filter(is_own).filter(|own| drawn(own, window).next().is_some()).collect();
    let kept_from = own.iter().filter_map(|own| own.kept_from_ns).max().filter(|from| *from > window.start);
    let since = kept_from
        .map(|from| format!(", kept from {} on", sentences::time((from - window.start) as f64)))
        .unwrap_or_default();
    let name = sentences::upper_first(&gpu.to_string());
    let row =
        timeline.row_of_parts(format!("{name}: what counts at each instant of the measured steps{since}"));
    for pieces in &own {
        let label = if own.len() > 1 { pieces.place.to_string() } else { String::new() };
        let lane = timeline.lane(row, label);
        for piece in drawn(pieces, window) {
            let part = piece.cause.part();
            let name = timeline.name(&gap::in_timeline(piece.cause), gap::color(part));
            timeline.push(lane, name, piece.start_ns..piece.end_ns);
        }
    }
    for part in [Part::Busy, Part::Exposed, Part::Idle] {
        if own.iter().any(|own| drawn(own, window).any(|piece| piece.cause.part() == part)) {
            timeline.part(part.as_str(), gap::color(part));
        }
    }
    !own.is_empty()
}

/// For each GPU a row of what counts, and one with a lane for each stream. Whether there is any of
/// the former.
fn gpu_rows(
    passes: Option<&Passes>,
    devices: &Devices,
    (classifier, pieces): (&Classifier, &[Pieces]),
    window: &Range<i64>,
    timeline: &mut Timeline,
) -> bool {
    let names = Names::new(devices, classifier);
    let mut known: BTreeMap<(What, bool), NameId> = BTreeMap::new();
    // As in the shares: only its range says that an unfused kernel is part of an optimizer.
    let optimizer: Vec<(i64, i64)> = passes.map(optimizer).unwrap_or_default();
    let in_optimizer = |operation: &Operation| {
        let next = optimizer.partition_point(|(start, _)| *start <= operation.start);
        next > 0 && operation.end <= optimizer[next - 1].1
    };
    let mut shows_parts = false;
    for (gpu, operations) in &devices.operations {
        let streams: BTreeSet<Stream> =
            within(operations, window).map(|operation| devices.stream(*operation)).collect();
        let processes = streams.iter().map(|stream| stream.process).collect::<BTreeSet<_>>().len();
        shows_parts |= parts_row(*gpu, pieces, window, timeline);
        let gpu = sentences::upper_first(&gpu.to_string());
        let row = timeline.row_of_work(format!("{gpu}: what ran, by stream and kind of work"));
        let lanes = streams.into_iter().map(|stream| {
            let mut label = format!("stream {}", stream.stream);
            if processes > 1 {
                label = format!("{label}, process {}", stream.process);
            }
            (stream, timeline.lane(row, label))
        });
        let lanes: BTreeMap<Stream, _> = lanes.collect();
        for operation in within(operations, window) {
            let what = devices.what(*operation);
            let of_optimizer = matches!(what, What::Kernel(_)) && in_optimizer(operation);
            let key = (what, of_optimizer);
            let name = if let Some(name) = known.get(&key) {
                *name
            } else {
                let (name, work) = names.describe(what);
                let work = if of_optimizer { OPTIMIZER } else { work };
                let name = timeline.name(&name, color(work));
                timeline.kind(work.as_str(), color(work));
                known.insert(key, name);
                name
            };
            timeline.push(lanes[&devices.stream(*operation)], name, operation.start..operation.end);
        }
    }
    shows_parts
}

/// The pass to draw, and from the beginning of the first to the end of the last of its instances
/// that are.
fn steps(passes: &Passes) -> Option<(&Pass, Range<i64>)> {
    let by_kind = |kind| passes.passes.iter().find(|pass| pass.kind == kind);
    let pass =
        by_kind(PassKind::Step).or_else(|| by_kind(PassKind::Forward)).or_else(|| passes.passes.first())?;
    let drawn = &pass.instances[pass.instances.len().saturating_sub(STEPS)..];
    let start = drawn.iter().map(|instance| instance.start_ns).min()?;
    let end = drawn
        .iter()
        .map(|instance| instance.gpu.map_or(instance.end_ns, |work| work.end_ns.max(instance.end_ns)))
        .max()?;
    Some((pass, start..end))
}

fn everything(devices: &Devices) -> Option<Range<i64>> {
    let all = || devices.operations.values().flatten();
    let start = all().map(|operation| operation.start).min()?;
    Some(start..all().map(|operation| operation.end).max()?)
}

/// From the first to the last operation of each optimizer pass, by time.
fn optimizer(passes: &Passes) -> Vec<(i64, i64)> {
    let passes = passes.passes.iter().filter(|pass| pass.kind == PassKind::Optimizer);
    let works = passes.flat_map(|pass| &pass.instances).filter_map(|instance| instance.gpu);
    let mut intervals: Vec<(i64, i64)> = works.map(|work| (work.start_ns, work.end_ns)).collect();
    intervals.sort_unstable();
    intervals
}

/// A color for each name, in the order in which they come.
#[derive(Default)]
struct Colors(BTreeMap<String, Color>);

impl Colors {
    fn color(&mut self, name: &str) -> Color {
        let next = Color::nth(self.0.len());
        *self.0.entry(name.to_owned()).or_insert(next)
    }
}

/// A range on the host.
struct HostRange<'a> {
    start: i64,
    end: i64,
    thread: ThreadId,
    name: Cow<'a, str>,
}

/// The ranges in the window, by their start, outer ones first.
fn host_ranges<'a>(nvtx: &'a Ranges, window: &Range<i64>) -> Vec<HostRange<'a>> {
    let ranges = nvtx.ranges.iter().map(|range| HostRange {
        start: range.start,
        end: range.end.unwrap_or(nvtx.last_range),
        thread: range.thread,
        name: nvtx.names.get(range.name).shown(),
    });
    let mut ranges: Vec<_> = ranges
        .filter(|range| range.start < window.end && range.end > window.start && range.end >= range.start)
        .collect();
    ranges.sort_by_key(|range| (range.start, std::cmp::Reverse(range.end)));
    ranges
}

/// The ranges of each thread.
fn host_rows(ranges: &[HostRange<'_>], colors: &mut Colors, timeline: &mut Timeline) {
    let threads: BTreeSet<ThreadId> = ranges.iter().map(|range| range.thread).collect();
    let row = timeline.row("Host: ranges");
    let several = threads.len() > 1;
    let lanes = threads.into_iter().map(|thread| {
        let label = if several { format!("thread {}", thread.tid()) } else { String::new() };
        (thread, timeline.lane(row, label))
    });
    let lanes: BTreeMap<ThreadId, _> = lanes.collect();
    for range in ranges {
        let name = timeline.name(&range.name, colors.color(&fold_name(&range.name)));
        timeline.push(lanes[&range.thread], name, range.start..range.end);
    }
}

/// The passes as their work ran on the GPU.
fn projected(passes: &Passes, colors: &mut Colors, timeline: &mut Timeline) {
    let mut works = Vec::new();
    for pass in &passes.passes {
        let name = timeline.name(&pass.name, colors.color(&pass.name));
        let gpu = pass.instances.iter().filter_map(|instance| instance.gpu);
        works.extend(gpu.map(|work| (work.start_ns, std::cmp::Reverse(work.end_ns), name)));
    }
    works.sort_unstable_by_key(|(start, end, _)| (*start, *end));
    let row = timeline.row("GPU: from the first to the last operation of each pass");
    let lane = timeline.lane(row, "");
    for (start, end, name) in works {
        timeline.push(lane, name, start..end.0);
    }
}
