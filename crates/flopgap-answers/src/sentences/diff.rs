//! What a change made slower or faster.

use flopgap_report::numbers::{self, signed_percent};
use flopgap_timings::diff::{Counted, Diff, Judged, Measure, PlaceDiff, Quantity, Verdict, WorkDifference};

use super::words::signed;
use super::{mean_of, owner, selection, time, unlaunched, upper_first};

/// What the numbers say: whether the work is the same, the times of the scope, what contributes
/// most to their change, and what was looked at.
pub fn diff(found: &Diff) -> Vec<String> {
    let mut sentences = of_times(found);
    sentences.extend(found.selection.as_ref().map(selection));
    sentences.push(owner(found.attribution));
    sentences
}

/// What is compared, and means of what.
pub fn scope(found: &Diff) -> String {
    let [before, after] = [0, 1].map(|at| match found.mean_of()[at] {
        Some(mean) => format!("one `{}` ({})", found.scope[at], mean_of(mean)),
        None => "everything recorded".to_owned(),
    });
    format!("Compares {before} before with {after} after.")
}

/// Whether both traces hold the same work.
pub fn verdict(found: &Diff) -> String {
    if let Some([before, after]) = found.unmatched {
        return format!(
            "The traces do not hold the same work: {before} places (processes on GPUs) before and {after} after, so sums are of all together, and of medians those of the slowest."
        );
    }
    let mut different = found.places.iter().filter(|place| !place.work.is_empty());
    let Some(first) = different.next() else {
        let places = if found.places.len() > 1 { " in each place" } else { "" };
        let kernels = found.places.first().and_then(|place| place.kernels.after).unwrap_or_default();
        return format!(
            "Both traces hold the same work{places}: the same kernels, launches ({} in {}) and bytes.",
            count(kernels),
            what(found)
        );
    };
    let differences: Vec<String> = first.work.iter().map(difference).collect();
    let more = different.count();
    let more = if more > 0 { format!("; {more} more places differ, too") } else { String::new() };
    format!(
        "The traces do not hold the same work in {}{}: {}{more}.",
        what(found),
        place(first),
        differences.join("; ")
    )
}

/// What got slower, a line each.
pub fn slower(found: &Diff, slower: &[Judged], percent: f64) -> String {
    let lines = slower.iter().map(|judged| {
        let [before, after] = judged.samples;
        // One unit for both.
        let (scale, unit) = if after.median_ns < 1e5 { (1e3, "µs") } else { (1e6, "ms") };
        format!(
            "\n  {}: {:.3} {unit} before, {:.3} {unit} after ({})",
            compared(found, judged),
            before.median_ns / scale,
            after.median_ns / scale,
            interval(judged),
        )
    });
    format!("slower, and by {percent}% or more is not excluded:{}", lines.collect::<String>())
}

/// What may be slower by some percentage without being seen; nothing where there is none.
pub fn open(found: &Diff, open: &[Judged], percent: f64) -> Option<String> {
    let steps = open.iter().filter(|judged| judged.pass.is_none());
    let lines: Vec<String> =
        steps.map(|judged| format!("\n  {} ({})", compared(found, judged), interval(judged))).collect();
    (!lines.is_empty())
        .then(|| format!("scatter may hide that it is slower by {percent}%:{}", lines.concat()))
}

/// Why nothing could be judged.
pub fn undecided(found: &Diff, gate: &Verdict) -> String {
    if found.judged.is_empty() {
        let what = "everything recorded is there but once before and once after";
        return format!("cannot tell whether it is slower: {what}, so nothing shows how it scatters");
    }
    let steps = gate.open.iter().filter(|judged| judged.pass.is_none());
    let lines = steps.map(|judged| {
        let [before, after] = judged.samples.map(|sample| sample.count);
        let seen = match judged.shift {
            Some(shift) if shift.seen_from < FEW => {
                format!(", a change is seen from {} on", signed_percent(shift.seen_from, 0))
            }
            _ => String::new(),
        };
        format!("\n  {}: {before} before, {after} after{seen}", compared(found, judged))
    });
    format!(
        "cannot tell whether it is slower, with so few and such scatter:{}",
        lines.collect::<Vec<_>>().concat()
    )
}

/// What sees no change below this is no measure of one.
const FEW: f64 = 10.0;

/// `+4.2%, from +3.9% to +4.5%`.
fn interval(judged: &Judged) -> String {
    match judged.shift {
        Some(shift) if shift.seen_from < FEW => format!(
            "{}, from {} to {}",
            signed_percent(shift.change, 1),
            signed_percent(shift.low, 1),
            signed_percent(shift.high, 1)
        ),
        _ => "too few to tell".to_owned(),
    }
}

/// What is judged, by which time, and where.
fn compared(found: &Diff, judged: &Judged) -> String {
    let what = judged.pass.as_ref().map_or_else(|| what(found), |pass| format!("pass `{pass}`"));
    let places = judged.samples.map(|sample| sample.place.map(|place| place.to_string()));
    let slowest = match places {
        [Some(before), Some(after)] if before == after => format!(" (slowest: {after})"),
        [Some(before), Some(after)] => format!(" (slowest: {before} before, {after} after)"),
        _ => String::new(),
    };
    format!("{what}, {}{slowest}", judged.by)
}

/// That the traces are of other GPUs; nothing where they are of the same, or do not say it.
pub fn other_gpus(found: &Diff) -> Option<String> {
    let [before, after] = found.gpus.each_ref().map(|names| names.join(", "));
    found.other_gpus().then(|| {
        format!("The traces were recorded on other GPUs, {before} before and {after} after: a change may be theirs.")
    })
}

/// The period of the steps, and what is behind the intervals.
fn steps(found: &Diff) -> Vec<String> {
    let mut sentences = Vec::new();
    let scope = || found.judged.iter().filter(|judged| judged.pass.is_none());
    if let Some(judged) = scope().find(|judged| judged.by == Measure::Period) {
        let [before, after] = judged.samples.map(|sample| sample.median_ns);
        let change = signed_percent(judged.shift.map_or(after / before - 1.0, |shift| shift.change), 1);
        sentences.push(format!(
            "{} begins every {} before and every {} after (medians, {change}): {} and {} a second.",
            upper_first(&what(found)),
            time(before),
            time(after),
            numbers::float(1e9 / before, 1),
            numbers::float(1e9 / after, 1)
        ));
    }
    let settling = |at: usize| scope().map(|judged| judged.samples[at].settling).max().unwrap_or_default();
    let (before, after) = (settling(0), settling(1));
    if before + after > 0 {
        sentences.push(format!(
            "The first {before} before and {after} after are far longer than the rest, as in warming up, and not in the medians."
        ));
    }
    if scope().any(|judged| judged.shift.is_some()) {
        sentences.push(
            "The intervals are of the scatter within each run; how far two runs of one program are apart, they do not show.".to_owned(),
        );
    }
    sentences
}

/// [`diff`] without what was looked at.
pub(crate) fn of_times(found: &Diff) -> Vec<String> {
    let mut sentences = vec![verdict(found)];
    sentences.extend(other_gpus(found));
    sentences.extend(steps(found));
    for place in &found.places {
        sentences.push(times(found, place));
        sentences.extend(like_for_like(place));
    }
    for (spread, when) in found.spreads().into_iter().zip(["Before", "After"]) {
        sentences.extend(spread.map(|spread| format!("{when}: {}.", super::spread(&spread))));
    }
    for (lost, when) in found.unlaunched.into_iter().zip(["Before", "After"]) {
        sentences.extend(unlaunched(lost).map(|sentence| format!("{when}: {sentence}")));
    }
    let most = found.kernels.iter().filter(|kernel| kernel.time.difference_ns() != 0.0).take(3);
    let most: Vec<String> = most
        .map(|kernel| {
            let new = match (kernel.time.before, kernel.time.after) {
                (None, _) => ", new",
                (_, None) => ", gone",
                _ => "",
            };
            let place = place(&found.places[kernel.place]);
            format!("{}{place} ({}{new})", kernel.short, signed(kernel.time.difference_ns()))
        })
        .collect();
    if !most.is_empty() {
        sentences.push(format!("Most of the change of GPU time: {}.", most.join(", ")));
    }
    sentences
}

/// What is compared: ``one `step_*` ``.
fn what(found: &Diff) -> String {
    match (&found.instances, &found.scope) {
        ([None, None], _) => "everything recorded".to_owned(),
        (_, [before, after]) if before == after => format!("one `{after}`"),
        (_, [before, after]) => format!("one `{after}` (`{before}` before)"),
    }
}

/// ` (process 12, GPU 1)`, or nothing for all places together.
fn place(place: &PlaceDiff) -> String {
    place.shown_place().map(|place| format!(" ({place})")).unwrap_or_default()
}

fn times(found: &Diff, scope: &PlaceDiff) -> String {
    let one = |name: &str, quantity: Quantity| {
        let (before, after) = (quantity.before?, quantity.after?);
        let change =
            quantity.fraction().map(|change| format!(", {}", signed_percent(change, 1))).unwrap_or_default();
        Some(format!(
            "{name} {} before and {} after ({}{change})",
            time(before),
            time(after),
            signed(quantity.difference()?)
        ))
    };
    let times = [
        one("wall time", scope.wall_ns),
        one("projected GPU time", scope.projected_ns),
        one("GPU busy", scope.busy_ns),
    ];
    let times: Vec<String> = times.into_iter().flatten().collect();
    format!("{}{}: {}.", upper_first(&what(found)), place(scope), times.join("; "))
}

/// How much of a change is other work and how much other speed.
fn like_for_like(place: &PlaceDiff) -> Option<String> {
    let change = place.like_for_like.fraction().filter(|_| !place.work.is_empty())?;
    let whole = place.operations_ns.difference()?;
    let speed = place.like_for_like.after_ns - place.like_for_like.before_ns;
    Some(format!(
        "Of the change of {} in the durations of GPU operations, {} is other work and {} other speed: launch for launch and byte for byte, what both \
         traces run takes {}.",
        signed(whole),
        signed(whole - speed),
        signed(speed),
        signed_percent(change, 1)
    ))
}

fn difference(difference: &WorkDifference) -> String {
    let WorkDifference { what, kernels, before, after } = difference;
    let what = match (what, kernels) {
        (Counted::Launches, _) => "kernel launches".to_owned(),
        (Counted::Copies, _) => "copies".to_owned(),
        (Counted::CopiedBytes, _) => "copied bytes".to_owned(),
        (Counted::Sets, _) => "sets".to_owned(),
        (Counted::SetBytes, _) => "set bytes".to_owned(),
        (Counted::KernelsOfOne, _) => "kernels that only one has".to_owned(),
        (Counted::SharedLaunches, Some(1)) => {
            "launches of the one kernel that both have in other numbers".to_owned()
        }
        (Counted::SharedLaunches, kernels) => {
            format!("launches of {} kernels that both have in other numbers", kernels.unwrap_or_default())
        }
    };
    let change = if *before > 0.0 && *after > 0.0 {
        format!(" ({})", signed_percent(after / before - 1.0, 1))
    } else {
        String::new()
    };
    // Means of bytes are not whole, bytes are.
    let shown = |value: f64| {
        if what.ends_with("bytes") { numbers::float(value, 0) } else { count(value) }
    };
    format!("{what} {} before, {} after{change}", shown(*before), shown(*after))
}

/// A count in one instance, which need not be a whole number: `1,888`, `12.5`.
fn count(count: f64) -> String {
    numbers::float(count, usize::from(count.fract() != 0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_grouped() {
        assert_eq!(
            [0.0, 12.5, 999.0, 1888.0, 1_234_567.25].map(count),
            ["0", "12.5", "999", "1,888", "1,234,567.2"]
        );
    }
}
