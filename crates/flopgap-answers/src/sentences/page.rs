//! What a page says in its first section, beside what the commands say.

use std::fmt::Write as _;

use flopgap_kernels::KernelClass;
use flopgap_timings::BlockedThread;
use flopgap_timings::kernels::{KernelTimes, Kernels};
use flopgap_timings::occupancy::GpuOccupancy;
use flopgap_timings::passes::Passes;
use flopgap_timings::shares::{Shares, Work};

use super::{list, percent, time, upper_first};

/// How long the passes took: with their GPU times where there are any, else on the host.
pub(crate) fn passes(found: &Passes) -> Vec<String> {
    let mut sentences = super::passes::of_times(found);
    for pass in found.passes.iter().filter(|pass| pass.gpu.is_none()) {
        let n = pass.host.count;
        sentences.push(format!(
            "`{}` takes {} on the host (mean of {n}).",
            pass.name,
            time(pass.host.mean_ns)
        ));
    }
    sentences
}

/// Where the kernels of a scope ran, to begin a sentence.
fn within(scope: &str, instances: Option<u64>) -> String {
    if instances.is_some() { format!("In `{scope}`: ") } else { String::new() }
}

/// The kernel with the most time.
pub(crate) fn top(found: &Kernels) -> Option<String> {
    Some(format!("{}{}", within(&found.scope, found.instances), super::top(found)?))
}

/// Whether a kernel multiplies matrices, or adds up the parts of a product that was split.
pub(crate) fn is_product(class: KernelClass) -> bool {
    matches!(class, KernelClass::Matmul | KernelClass::Gemv | KernelClass::SplitKReduce)
}

/// What takes the time besides matrix products.
pub(crate) fn others(found: &Kernels) -> Option<String> {
    let others: Vec<&KernelTimes> = found.kernels.iter().filter(|kernel| !is_product(kernel.class)).collect();
    // Without a product the list would be that of all kernels.
    if others.is_empty() || others.len() == found.kernels.len() {
        return None;
    }
    let share: f64 = others.iter().map(|kernel| kernel.share).sum();
    let first: Vec<String> =
        others.iter().take(3).map(|kernel| format!("{} ({})", kernel.short, percent(kernel.share))).collect();
    Some(format!(
        "{}Kernels other than matrix products take {} of the kernel time, most of it {}.",
        within(&found.scope, found.instances),
        percent(share),
        list(&first)
    ))
}

/// What the GPU's work consists of.
pub(crate) fn shares(all: &Shares) -> Option<String> {
    // Of several places the one with the most work is described.
    let spread = all.spread();
    let slowest = spread.and_then(|spread| all.places.iter().find(|own| own.place == Some(spread.slowest)));
    let found = slowest.unwrap_or(all);
    let largest = found.shares.first()?;
    let products = found.share(Work::Kernels(KernelClass::Matmul));
    let word = |share: &flopgap_timings::shares::Share| format!("{} {}", share.work, percent(share.share));
    let mut text = within(&found.scope, found.instances);
    if let Some(spread) = spread {
        let _ = match spread.straggler() {
            Some(most) => write!(
                text,
                "{} has the most work of {} places but for communication, {} (median {}, least {}). There: ",
                upper_first(&most.to_string()),
                spread.places,
                time(spread.max_ns),
                time(spread.median_ns),
                time(spread.min_ns)
            ),
            None => write!(
                text,
                "Of {} places none stands out by its work but for communication, {} to {}. On {}: ",
                spread.places,
                time(spread.min_ns),
                time(spread.max_ns),
                spread.slowest
            ),
        };
    }
    if products > 0.0 {
        let others = found.shares.iter().filter(|share| share.work != Work::Kernels(KernelClass::Matmul));
        let others: Vec<String> = others.take(3).map(word).collect();
        let _ = write!(text, "Matrix products take {} of the GPU's work", percent(products));
        if !others.is_empty() {
            let _ = write!(text, "; of the rest, most goes to {}", list(&others));
        }
    } else {
        let _ = write!(
            text,
            "No kernel is known to be a matrix product; most of the GPU's work is {}",
            word(largest)
        );
    }
    // Of a whole trace that is said of every GPU.
    let in_ranges = found.instances.is_some();
    if all.places.is_empty() && in_ranges && found.clock_ns > 0 {
        let _ = write!(text, ". The GPU was busy for {}", super::busy(found));
    }
    for own in all.places.iter().filter(|own| in_ranges && own.clock_ns > 0) {
        let place = own.place.map(|place| place.to_string()).unwrap_or_default();
        let _ = write!(text, ". {} was busy for {}", upper_first(&place), super::busy(own));
    }
    Some(text + ".")
}

/// How busy a GPU was over the whole recording, and its longest rest.
pub(crate) fn busy(gpu: &GpuOccupancy, longest: Option<i64>) -> String {
    let extent = gpu.end_ns.saturating_sub(gpu.start_ns);
    let mut text = format!(
        "Over the whole recording, {} was busy for {} of the {} between its first and last operation",
        gpu.place,
        time(gpu.busy_ns as f64),
        time(extent as f64)
    );
    if extent > 0 {
        let _ = write!(text, " ({})", percent(gpu.busy_ns as f64 / extent as f64));
    }
    if let Some(rest) = longest {
        let _ = write!(text, "; its longest rest took {}", time(rest as f64));
    }
    text + "."
}

/// For how long the thread that is blocked longest is, where no step says it.
pub(crate) fn blocked(found: &BlockedThread) -> String {
    let total: i128 = found.waiting_for.iter().map(|own| own.total_ns).sum();
    format!(
        "Over the whole recording, thread {} of process {} is blocked longest, for {} {}.",
        found.thread,
        found.process,
        time(total as f64),
        super::passes::causes(&found.waiting_for, 1)
    )
}

/// How attention's parts compare by time alone, in the order scores, softmax, weighted sum.
pub(crate) fn attention([scores, softmax, weighted]: [&Shares; 3]) -> Option<String> {
    let each = |shares: &Shares| shares.each(shares.total_ns);
    let (products, soft) = (each(scores) + each(weighted), each(softmax));
    (soft > 0.0).then(|| {
        format!(
            "In attention, the ranges of the two matrix products take {} of GPU time and `{}` {}: {:.2} times as long. With --batch, \
             --heads, --seq and --head-dim this is set against their FLOPs.",
            time(products),
            softmax.scope,
            time(soft),
            products / soft
        )
    })
}
