//! How long steps and passes took, and why host and GPU differ.

use std::fmt::Write as _;

use flopgap_report::numbers;
use flopgap_timings::Times;
use flopgap_timings::passes::{Pass, Passes, SpreadTime};

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
        }
    }
    for apart in &found.spreads {
        let mean = match apart.time {
            SpreadTime::Host => "mean time on the host",
            SpreadTime::GpuBusy => "mean GPU busy time",
        };
        sentences.push(format!("`{}`, {mean}: {}.", apart.name, super::spread(&apart.spread)));
    }
    sentences.extend(unlaunched(found.unlaunched));
    sentences
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
    let (host, projected) = (pass.host.mean_ns, gpu.projected.mean_ns);
    let mut text = format!(
        "`{}`{} takes {} on the host and {} on the GPU",
        pass.name,
        pass.rank
            .map(|rank| format!(" of rank {rank}"))
            .or_else(|| pass.process.map(|process| format!(" of process {process}")))
            .unwrap_or_default(),
        time(host),
        time(projected)
    );
    if gpu.tail.mean_ns > NOTABLE * host {
        let _ = write!(
            text,
            ": it launches ahead, so its work begins {} after the range begins and ends {} after the range ends",
            time(gpu.lead.mean_ns),
            time(gpu.tail.mean_ns)
        );
    } else if gpu.tail.mean_ns <= 0.0 {
        text += ": its work is done when the range ends";
    }
    if let Some(waiting) = pass.waiting.filter(|waiting| waiting.mean_ns > NOTABLE * host) {
        let _ = write!(
            text,
            "; for {} ({} of the host time) it waits for the GPU in synchronizing calls",
            time(waiting.mean_ns),
            percent(waiting.mean_ns / host)
        );
    }
    // Of several GPUs the rests add up to more than the time from the first operation to the last.
    if pass.gpus.is_empty() && gpu.idle.mean_ns > NOTABLE * projected {
        let _ = write!(
            text,
            "; the GPU is idle for {} of it ({})",
            time(gpu.idle.mean_ns),
            percent(gpu.idle.mean_ns / projected)
        );
    }
    Some(text + ".")
}
