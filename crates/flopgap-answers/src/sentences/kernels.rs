//! Which kernels take the time.

use std::fmt::Write as _;

use flopgap_kernels::KernelClass;
use flopgap_timings::kernels::{KernelTimes, Kernels, tops};

use super::{owner, percent, selection, time, times, unlaunched};

/// What the kernels of a scope say: the one with the most time, how far places are apart, and what
/// was looked at.
pub fn kernels(found: &Kernels) -> Vec<String> {
    let mut sentences = of_times(found, top(found));
    sentences.extend(looked_at(found));
    sentences
}

/// [`kernels`] of kernels from which some were taken away.
pub fn other_kernels(found: &Kernels) -> Vec<String> {
    let mut sentences = of_times(found, Some(sum(found)));
    sentences.extend(looked_at(found));
    sentences
}

/// The kernels of two traces.
pub fn kernels_of_both(both: [&Kernels; 2]) -> Vec<String> {
    let mut sentences = Vec::new();
    for (letter, found) in ["A", "B"].iter().zip(both) {
        let own = of_times(found, top(found)).into_iter();
        sentences.extend(own.map(|sentence| format!("{letter}: {sentence}")));
    }
    sentences.extend(same_top(both[0], both[1]));
    sentences.extend(looked_at(both[0]));
    sentences
}

fn of_times(found: &Kernels, first: Option<String>) -> Vec<String> {
    [first, spread(found), unlaunched(found.unlaunched)].into_iter().flatten().collect()
}

fn looked_at(found: &Kernels) -> impl Iterator<Item = String> {
    let selection = found.selection.as_ref().map(selection);
    selection.into_iter().chain(found.attribution.map(owner))
}

/// The kernel with the most time.
pub(crate) fn top(found: &Kernels) -> Option<String> {
    let top = found.kernels.first()?;
    let mut text = format!(
        "The kernel with the most cumulative GPU time is {}: {} of {} ({}), invoked {}",
        top.short,
        time(top.times.total_ns as f64),
        time(found.total_ns as f64),
        percent(top.share),
        times(top.times.count)
    );
    if !found.places.is_empty() {
        let _ = write!(text, " in all {} places", found.places.len());
    }
    if let Some(instances) = found.instances.filter(|instances| *instances > 1) {
        let _ =
            write!(text, " ({} in each of {instances} `{}`)", each(top.times.count, instances), found.scope);
    }
    Some(text + ".")
}

/// A count for each instance: whole when it divides.
fn each(count: u64, instances: u64) -> String {
    if count.is_multiple_of(instances) {
        (count / instances).to_string()
    } else {
        format!("{:.1}", count as f64 / instances as f64)
    }
}

/// How far the places are apart in the time of all kernels.
pub(crate) fn spread(found: &Kernels) -> Option<String> {
    let communicates = |kernel: &KernelTimes| kernel.class == KernelClass::Communication;
    let of = if found.kernels.iter().any(communicates) { "kernels that compute" } else { "all kernels" };
    found.spread(None).map(|spread| format!("Of the time of {of}, {}.", super::spread(&spread)))
}

/// How much of the time of all kernels these are, for kernels from which some were taken away.
fn sum(found: &Kernels) -> String {
    let total: i128 = found.kernels.iter().map(|kernel| kernel.times.total_ns).sum();
    let share = if found.total_ns > 0 { total as f64 / found.total_ns as f64 } else { 0.0 };
    format!(
        "These kernels take {} of the {} of all ({}).",
        time(total as f64),
        time(found.total_ns as f64),
        percent(share)
    )
}

/// Whether the kernel with the most time is the same in both.
pub(crate) fn same_top(a: &Kernels, b: &Kernels) -> Option<String> {
    let tops = tops(a, b)?;
    if tops.are_same() {
        return Some(format!("It is the same kernel in both: {}.", tops.a.short));
    }
    let place =
        tops.place_in_b.map_or_else(|| "did not run".to_owned(), |place| format!("comes in place {place}"));
    Some(format!(
        "It is not the same kernel: {} in A, {} in B, where A's {place}.",
        tops.a.short, tops.b.short
    ))
}
