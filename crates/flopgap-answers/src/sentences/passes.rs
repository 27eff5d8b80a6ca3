//! How long steps and passes took, and why host and GPU differ.

use std::fmt::Write as _;

use flopgap_report::numbers;
use flopgap_timings::passes::{GpuTimes, Pass, Passes, SpreadTime};
use flopgap_timings::{Blocking, Period, Times, WaitingFor};

use super::{owner, percent, selection, time, unlaunched};

/// Up to this difference two times are said to agree.
const AGREES: f64 = 0.01;
/// What is less than this share of a time is not worth a sentence.
const NOTABLE: f64 = 0.02;

/// What the numbers say: whether the host time agrees with what was measured outside, where host
/// and GPU time differ, why, and what was looked at.
pub fn passes(found: &Passes) -> Vec<String> {
    let mut sentences = of_times(found);
    sentences.push(selection(&found.selection));
    if found.no_gpu.is_none() {
        sentences.push(owner(found.attribution));
    }
    sentences
}

/// [`passes`] without what was looked at.
pub(crate) fn of_times(found: &Passes) -> Vec<String> {
    let mut sentences = Vec::new();
    let nearest = found.nearest.and_then(|at| found.passes.get(at));
    if let (Some(measured), Some(pass)) = (&found.measured, nearest) {
        sentences.push(against_measured(pass, measured));
    }
    for pass in &found.passes {
        // Of several processes the slowest is described, and how far it is from the others.
        if found.slowest(&pass.name).is_none_or(|slowest| pass.process == Some(slowest)) {
            sentences.extend(host_and_gpu(pass));
            sentences.extend(pass.period.as_ref().map(|period| throughput(pass, period)));
        }
    }
    for apart in &found.spreads {
        let mean = match apart.time {
            SpreadTime::Host => "mean time on the host",
            SpreadTime::Computation => "mean time on the GPU without communication",
        };
        sentences.push(format!("`{}`, {mean}: {}.", apart.name, super::spread(&apart.spread)));
    }
    sentences.extend(unlaunched(found.unlaunched));
    sentences
}

/// How often a step begins, what is between two of them, and which are far longer.
fn throughput(pass: &Pass, period: &Period) -> String {
    let (median, count) = (period.times.median_ns, period.times.count);
    let mut text = format!(
        "`{}` begins every {} (median of {count}), {} a second",
        pass.name,
        time(median),
        numbers::float(period.per_second, 1)
    );
    let between = period.between.median_ns;
    if between > NOTABLE * median {
        let _ = write!(
            text,
            "; {} of it ({}) is between one and the next",
            time(between),
            percent(between / median)
        );
    }
    if let Some(longest) = period.longest.first() {
        let far = match period.outliers {
            1 => "One is far longer:".to_owned(),
            several => format!("{several} are far longer, the longest"),
        };
        let _ = write!(
            text,
            ". {far} {}, which begins at {}; {} of it after its end",
            time(longest.period_ns as f64),
            time(longest.start_ns as f64),
            time(longest.between_ns as f64)
        );
    }
    text + "."
}

fn against_measured(pass: &Pass, measured: &Times) -> String {
    let difference = pass.against.and_then(|against| against.host_change).unwrap_or(f64::INFINITY);
    let verdict = if difference.abs() <= AGREES { "they agree" } else { "they differ" };
    let more = if difference < 0.0 { "less" } else { "more" };
    format!(
        "`{}` takes {} on the host (mean of {}), {} {more} than the {} measured outside (mean of {}): {verdict}.",
        pass.name,
        time(pass.host.mean_ns),
        pass.host.count,
        numbers::percent(difference.abs(), 2),
        time(measured.mean_ns),
        measured.count,
    )
}

/// Where host and GPU time differ, why; nothing when the pass launched no work.
fn host_and_gpu(pass: &Pass) -> Option<String> {
    let gpu = pass.gpu.as_ref()?;
    let host = pass.host.mean_ns;
    let mut text = format!(
        "`{}`{} takes {} on the host; its work spans {} on {}",
        pass.name,
        pass.rank
            .map(|rank| format!(" of rank {rank}"))
            .or_else(|| pass.process.map(|process| format!(" of process {process}")))
            .unwrap_or_default(),
        time(host),
        time(gpu.projected.mean_ns),
        if gpu.gpus > 1 { format!("{} GPUs", gpu.gpus) } else { "the GPU".to_owned() },
    );
    let together = if gpu.gpus > 1 { ", the sum over them" } else { "" };
    let _ = write!(text, " and runs for {}{together}", time(gpu.busy.mean_ns));
    if gpu.host.count < pass.host.count {
        let _ = write!(text, " (in {} of {} that launch work)", gpu.host.count, pass.host.count);
    }
    if gpu.tail.mean_ns > NOTABLE * host {
        let _ = write!(
            text,
            ": it launches ahead, so its work begins {} after the range begins and ends {} after the range ends",
            time(gpu.lead.mean_ns),
            time(gpu.tail.mean_ns)
        );
    } else if gpu.tail.max_ns <= 0 {
        text += ": its work is done when the range ends";
    }
    text += &blocked(pass).unwrap_or_default();
    text += &idle(pass, gpu);
    Some(text + ".")
}

/// For how long its thread was blocked, by what.
fn blocked(pass: &Pass) -> Option<String> {
    let host = pass.host.mean_ns;
    let waiting = pass.waiting.filter(|waiting| waiting.mean_ns > NOTABLE * host)?;
    Some(format!(
        "; for {} ({} of the host time) its thread is blocked {}",
        time(waiting.mean_ns),
        percent(waiting.mean_ns / host),
        causes(&pass.waiting_for, pass.host.count),
    ))
}

/// By what a thread is blocked: the mean of each where there are several.
pub(super) fn causes(waiting_for: &[WaitingFor], instances: u64) -> String {
    let causes = waiting_for.iter().map(|own| {
        let what = match own.by {
            Blocking::Synchronization => "synchronizing calls",
            Blocking::Copy => "copies that block",
            Blocking::Memory => "allocating and freeing memory",
        };
        (what, own.total_ns as f64 / instances as f64)
    });
    let mut causes: Vec<(&str, f64)> = causes.collect();
    causes.sort_by(|one, other| other.1.total_cmp(&one.1));
    match causes.as_slice() {
        [(what, _)] => format!("in {what}"),
        several => {
            let each = several.iter().map(|(what, each)| format!("{} in {what}", time(*each)));
            format!("({})", super::list(&each.collect::<Vec<_>>()))
        }
    }
}

/// For how long the GPU ran nothing at all while the range lasted.
fn idle(pass: &Pass, gpu: &GpuTimes) -> String {
    let share = |gpu: &GpuTimes| {
        let host = gpu.host.total_ns as f64;
        if host > 0.0 { gpu.idle.total_ns as f64 / host } else { 0.0 }
    };
    if gpu.gpus <= 1 {
        let idle = time(gpu.idle.mean_ns);
        return format!("; the GPU is idle for {idle} of the host time ({})", percent(share(gpu)));
    }
    let own = pass.gpus.iter().map(|own| format!("GPU {} {}", own.gpu, percent(share(&own.times))));
    let own: Vec<String> = own.collect();
    if own.is_empty() { String::new() } else { format!("; of the host time is idle: {}", super::list(&own)) }
}
