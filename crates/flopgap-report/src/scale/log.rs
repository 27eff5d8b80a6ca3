//! Logarithmic axes.

use super::{Scale, Spacing, written};
use crate::numbers::{self, ValueFormat};

/// Decades below which ticks stand at doublings, because powers of ten would be too few.
const DOUBLING: f64 = 2.5;
/// The same where 0 has a place of its own.
const DOUBLING_BESIDE_ZERO: f64 = 1.5;
/// Powers of ten that fit an axis.
const MOST_DECADES: f64 = 8.0;
/// The largest magnitude is this many times the one below which an axis with 0 is linear, or less.
const DEPTH: f64 = 1000.0;

/// `mantissa` times a power of ten, as exactly as it is written.
pub(super) fn power(mantissa: f64, exponent: i32) -> f64 {
    if exponent < 0 { mantissa / 10_f64.powi(-exponent) } else { mantissa * 10_f64.powi(exponent) }
}

#[expect(clippy::cast_possible_truncation, reason = "log10 of a finite f64 is within ±324")]
pub(super) fn exponent_of(value: f64) -> i32 {
    // 1e-12 forgives 0.999999999999 that was meant as 1.
    (value.log10() + 1e-12).floor() as i32
}

/// The largest of 1, 2 and 5 times a power of ten that is at most `value`.
fn round_down(value: f64) -> f64 {
    let exponent = exponent_of(value);
    let found = [5.0, 2.0, 1.0].into_iter().map(|mantissa| power(mantissa, exponent));
    found.into_iter().find(|round| *round <= value).unwrap_or(value)
}

/// The smallest of 1, 2 and 5 times a power of ten that is at least `value`.
fn round_up(value: f64) -> f64 {
    let exponent = exponent_of(value);
    let found = [1.0, 2.0, 5.0, 10.0].into_iter().map(|mantissa| power(mantissa, exponent));
    found.into_iter().find(|round| *round >= value).unwrap_or(value)
}

/// What doublings are counted from, so that they are round: 1, a hundredth, or a prefix of SI.
fn base_of(smallest: f64, largest: f64, format: ValueFormat) -> f64 {
    match format {
        ValueFormat::Percent => 0.01,
        ValueFormat::Number if largest < 1e6 && smallest >= 1e-3 => 1.0,
        ValueFormat::Number if largest >= 1e6 => {
            numbers::si_prefix(smallest).map_or(1.0, |(_, factor)| factor)
        }
        ValueFormat::Number => power(1.0, exponent_of(smallest)),
    }
}

/// A logarithmic scale for values from `least` to `most`, whose smallest magnitude above 0 is
/// `smallest`. `None` where it would have too few ticks to be read.
pub(super) fn scale(least: f64, most: f64, smallest: f64, format: ValueFormat) -> Option<Scale> {
    let scale =
        if least > 0.0 { positive(least, most, format) } else { around_zero(least, most, smallest, format) };
    let [low, high] = [scale.low, scale.high].map(|end| scale.spacing.place(end));
    let readable = scale.ticks.len() >= 2 && low.is_finite() && high.is_finite() && low < high;
    readable.then_some(scale)
}

fn of_ticks(
    spacing: Spacing,
    low: f64,
    high: f64,
    ticks: impl Iterator<Item = f64>,
    format: ValueFormat,
) -> Scale {
    let ticks =
        ticks.filter(|tick| (low..=high).contains(tick)).map(|tick| (tick, written(tick, format))).collect();
    Scale { spacing, low, high, ticks, flat: false, bounds: Vec::new(), inset: 0.0 }
}

fn positive(least: f64, most: f64, format: ValueFormat) -> Scale {
    let decades = (most / least).log10();
    if decades < DOUBLING {
        let base = base_of(least, most, format);
        let (bottom, top) = ((least / base).log2().floor(), (most / base).log2().ceil());
        let at = |exponent: f64| base * exponent.exp2();
        return of_ticks(Spacing::Log, at(bottom), at(top), steps(bottom, top, 1.0).map(at), format);
    }
    let every = (decades / MOST_DECADES).ceil();
    let (low, high) = (round_down(least), round_up(most));
    let first = (low.log10() / every).floor() * every;
    of_ticks(Spacing::Log, low, high, steps(first, high.log10().ceil(), every).map(ten_to), format)
}

fn around_zero(least: f64, most: f64, smallest: f64, format: ValueFormat) -> Scale {
    let largest = least.abs().max(most.abs());
    let rounded = ten_to((largest / DEPTH).log10().round());
    let linear = if smallest > rounded { power(1.0, exponent_of(smallest)) } else { rounded };
    let (linear, factor) = if (largest / linear).log10() < DOUBLING_BESIDE_ZERO {
        let base = base_of(smallest, largest, format);
        (base * (smallest / base).log2().floor().exp2(), 2.0)
    } else {
        (linear, 10.0)
    };
    let end = |magnitude: f64| {
        if magnitude == 0.0 {
            0.0
        } else if magnitude <= linear {
            linear
        } else if factor > 2.0 {
            round_up(magnitude)
        } else {
            linear * (magnitude / linear).log2().ceil().exp2()
        }
    };
    let (low, high) = (-end((-least).max(0.0)), end(most.max(0.0)));
    let count = (largest / linear).log(factor).ceil();
    let above: Vec<f64> = steps(0.0, count, 1.0)
        .map(|step| if factor > 2.0 { ten_to(linear.log10().round() + step) } else { linear * step.exp2() })
        .collect();
    let below: Vec<f64> = above.iter().rev().map(|tick| -tick).collect();
    let ticks = below.into_iter().chain([0.0]).chain(above);
    of_ticks(Spacing::SymLog { linear, factor }, low, high, ticks, format)
}

#[expect(clippy::cast_possible_truncation, reason = "exponents of f64 are within ±324")]
fn ten_to(exponent: f64) -> f64 {
    power(1.0, exponent.round() as i32)
}

fn steps(first: f64, last: f64, by: f64) -> impl Iterator<Item = f64> {
    std::iter::successors(Some(first), move |at| Some(at + by)).take_while(move |at| *at <= last + 1e-9)
}
