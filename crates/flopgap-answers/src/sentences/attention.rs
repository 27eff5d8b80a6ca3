//! What attention costs for its FLOPs.

use std::fmt::Write as _;

use flopgap_timings::attention::{AttentionTimes, Part};

use super::{owner, percent, selection, time, unlaunched};

/// What is less than this share of a range is not worth a sentence.
const NOTABLE: f64 = 0.02;

/// What the numbers say, and what was looked at.
pub fn attention(found: &AttentionTimes) -> Vec<String> {
    let mut sentences = of_times(found);
    sentences.push(format!(
        "FLOPs: 2 B H S^2 D for each product ({}), 5 B H S^2 for softmax ({}).",
        found.scores.flops, found.softmax.flops
    ));
    sentences.extend(found.scores.shares.selection.as_ref().map(selection));
    sentences.push(owner(found.attribution));
    sentences
}

/// [`attention`] without what was looked at.
pub(crate) fn of_times(found: &AttentionTimes) -> Vec<String> {
    let mut sentences: Vec<String> = ratios(found).into_iter().collect();
    for (name, part) in found.parts() {
        let spread = part.shares.spread();
        sentences.extend(
            spread.map(|spread| format!("{name} on each GPU of each process: {}.", super::spread(&spread))),
        );
        sentences.extend(others(name, part));
    }
    sentences.extend(unlaunched(found.unlaunched));
    sentences
}

/// The products against softmax.
fn ratios(found: &AttentionTimes) -> Option<String> {
    let (flops, time) = (found.flop_ratio()?, found.time_ratio()?);
    let mut text = format!(
        "The two matrix products need {flops:.1} times the FLOPs of softmax and take {time:.2} times its time"
    );
    let rates = [&found.scores, &found.softmax, &found.weighted_sum].map(Part::flops_per_second);
    if let [Some(scores), Some(softmax), Some(weighted)] = rates {
        let products = (found.scores.flops + found.weighted_sum.flops) as f64
            / (found.scores.flops as f64 / scores + found.weighted_sum.flops as f64 / weighted);
        let _ = write!(
            text,
            ": a FLOP of softmax costs {:.1} times as much ({} against {})",
            products / softmax,
            rate(softmax),
            rate(products)
        );
    }
    text += if flops > 2.0 * time {
        "; that points to memory, not arithmetic: softmax reads and writes every score for five operations each."
    } else {
        "."
    };
    Some(text)
}

/// What a range holds besides what it is named after.
fn others(name: &str, part: &Part) -> Option<String> {
    let other = part.other_share().filter(|other| *other > NOTABLE)?;
    let kinds = part
        .shares
        .shares
        .iter()
        .map(|share| format!("{} {}", share.work, time(part.shares.each(share.total_ns))));
    Some(format!(
        "The range `{}` holds more than {name}: {} of its {} is other work ({}).",
        part.range,
        percent(other),
        time(part.range_ns),
        kinds.collect::<Vec<_>>().join(", ")
    ))
}

/// FLOPs a second: `27.13 TFLOP/s`.
fn rate(flops_per_second: f64) -> String {
    let (value, prefix) = match flops_per_second {
        rate if rate >= 1e12 => (rate / 1e12, "T"),
        rate if rate >= 1e9 => (rate / 1e9, "G"),
        rate => (rate / 1e6, "M"),
    };
    format!("{value:.2} {prefix}FLOP/s")
}
