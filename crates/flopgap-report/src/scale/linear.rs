//! Linear axes: round numbers at equal distances.

use super::{Scale, Spacing};
use crate::numbers::{self, ValueFormat};

/// Spread below which values count as equal: what is left of it would be noise in the last digits
/// of an `f64`.
const FLAT: f64 = 1e-11;
/// Intervals between ticks that fit a plot.
const INTERVALS: f64 = 6.0;

impl Scale {
    /// A linear scale that holds `least` to `most`, both finite. `None` when their span is not a
    /// finite number.
    pub(crate) fn linear(least: f64, most: f64, format: ValueFormat) -> Option<Self> {
        if !(most - least).is_finite() {
            return None;
        }
        let magnitude = least.abs().max(most.abs());
        let flat = most - least <= FLAT * magnitude;
        let (least, most) = if flat { around(least, format) } else { (least, most) };
        let step = nice_step((most - least) / INTERVALS)?;
        let (bottom, top) = ((least / step).floor(), (most / step).ceil());
        let count = top - bottom;
        // Past 2^53 steps from zero, neighboring ticks are no longer distinct numbers.
        if !(1.0..=50.0).contains(&count) || bottom.abs().max(top.abs()) > 9e15 {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and 50")]
        let values: Vec<f64> = (0..=count as u32).map(|i| (bottom + f64::from(i)) * step).collect();
        let labels = labels(&values, step, format);
        let (low, high) = (bottom * step, top * step);
        (low.is_finite() && high.is_finite() && high > low).then_some(Self {
            spacing: Spacing::Linear,
            low,
            high,
            ticks: values.into_iter().zip(labels).collect(),
            flat,
            bounds: Vec::new(),
            inset: 0.0,
        })
    }
}

/// A range around a lone value in which it stands in the middle.
fn around(value: f64, format: ValueFormat) -> (f64, f64) {
    let half = if value == 0.0 {
        match format {
            ValueFormat::Percent => 0.01,
            ValueFormat::Number => 1.0,
        }
    } else {
        value.abs() * 0.1
    };
    (value - half, value + half)
}

/// The smallest of 1, 2, 2.5 and 5 times a power of ten that is at least `least`.
fn nice_step(least: f64) -> Option<f64> {
    if !(least.is_finite() && least > 0.0) {
        return None;
    }
    let power = 10_f64.powf(least.log10().floor());
    [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|digit| digit * power)
        .find(|step| *step >= least * (1.0 - 1e-9))
        .filter(|step| step.is_normal())
}

fn labels(values: &[f64], step: f64, format: ValueFormat) -> Vec<String> {
    let magnitude = values.iter().fold(0.0_f64, |most, value| most.max(value.abs()));
    if format == ValueFormat::Percent {
        if (1e-5..1e4).contains(&magnitude) {
            let decimals = decimals(step * 100.0);
            return values.iter().map(|value| numbers::percent(*value, decimals)).collect();
        }
        let hundredths: Vec<f64> = values.iter().map(|value| value * 100.0).collect();
        let labels = labels(&hundredths, step * 100.0, ValueFormat::Number);
        return labels.into_iter().map(|label| label + "%").collect();
    }
    if (1e-3..1e6).contains(&magnitude) {
        let decimals = decimals(step);
        return values.iter().map(|value| numbers::float(*value, decimals)).collect();
    }
    match numbers::si_prefix(magnitude) {
        Some((prefix, factor)) if magnitude >= 1e6 => {
            let decimals = decimals(step / factor);
            let label = |value: &f64| {
                if *value == 0.0 {
                    "0".to_owned()
                } else {
                    format!("{} {prefix}", numbers::float(value / factor, decimals))
                }
            };
            values.iter().map(label).collect()
        }
        _ => {
            // One exponent for all ticks, as many digits as the step needs.
            let factor = 10_f64.powf(magnitude.log10().floor());
            let digits = decimals(step / factor);
            let label = |value: &f64| {
                if value.abs() < step / 2.0 { "0".to_owned() } else { format!("{value:.digits$e}") }
            };
            values.iter().map(label).collect()
        }
    }
}

/// Decimals that distinguish multiples of `step`, a round number.
fn decimals(step: f64) -> usize {
    (0..15)
        .find(|decimals| {
            let scaled = step * 10_f64.powi(*decimals);
            (scaled - scaled.round()).abs() < 1e-6 * scaled.max(1.0) && scaled >= 0.5
        })
        .and_then(|decimals| usize::try_from(decimals).ok())
        .unwrap_or(15)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tick_labels(least: f64, most: f64, format: ValueFormat) -> Vec<String> {
        Scale::linear(least, most, format).unwrap().ticks.into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn ticks_are_round_and_readable() {
        use ValueFormat::{Number, Percent};
        assert_eq!(tick_labels(0.0, 0.93, Number), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(tick_labels(0.011, 0.26, Percent), ["0%", "5%", "10%", "15%", "20%", "25%", "30%"]);
        assert_eq!(tick_labels(0.0, 1.2e11, Number), ["0", "20 G", "40 G", "60 G", "80 G", "100 G", "120 G"]);
        assert_eq!(
            tick_labels(-400.0, 90_000.0, Number),
            ["-20,000", "0", "20,000", "40,000", "60,000", "80,000", "100,000"]
        );
        assert_eq!(tick_labels(1e-6, 4.2e-6, Number), ["1e-6", "2e-6", "3e-6", "4e-6", "5e-6"]);
    }

    #[test]
    fn ticks_differ_even_where_the_range_is_narrow() {
        let labels = tick_labels(1e9, 1e9 + 40.0, ValueFormat::Number);
        let mut distinct = labels.clone();
        distinct.dedup();
        assert_eq!(labels, distinct);
    }

    #[test]
    fn one_value_stands_in_the_middle() {
        for value in [0.0, 5.0, -3e12, 2e-9] {
            for format in [ValueFormat::Number, ValueFormat::Percent] {
                let scale = Scale::linear(value, value, format).unwrap();
                assert!(scale.flat);
                assert!((0.2..0.8).contains(&scale.position(value)), "{value} {scale:?}");
            }
        }
    }

    #[test]
    fn spans_beyond_f64_are_refused() {
        assert_eq!(Scale::linear(f64::MIN, f64::MAX, ValueFormat::Number), None);
    }

    proptest::proptest! {
        #[test]
        fn a_scale_holds_its_values(a in -1e30_f64..1e30, b in -1e30_f64..1e30, exponent in -40_i32..1) {
            let factor = 10_f64.powi(exponent);
            let (least, most) = if a < b { (a * factor, b * factor) } else { (b * factor, a * factor) };
            for format in [ValueFormat::Number, ValueFormat::Percent] {
                let scale = Scale::linear(least, most, format).unwrap();
                let slack = 1e-9 * (scale.high - scale.low);
                proptest::prop_assert!(scale.low <= least + slack && most <= scale.high + slack);
                proptest::prop_assert!((2..=12).contains(&scale.ticks.len()), "{:?}", scale);
                let mut labels: Vec<_> = scale.ticks.iter().map(|tick| &tick.1).collect();
                labels.dedup();
                proptest::prop_assert_eq!(labels.len(), scale.ticks.len(), "{:?}", scale);
            }
        }
    }
}
