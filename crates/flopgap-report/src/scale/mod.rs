//! From values to positions and colors: which numbers an axis has, how far apart they stand, and
//! where one color ends.
//!
//! A [`Scale`] is made of the values that it is to hold, and is shared by all pictures that are
//! compared: the heatmaps and surfaces of a metric, and the page.

mod classes;
mod linear;
mod log;

use crate::numbers::{self, ValueFormat};
use crate::palette::{Rgb, ramp};
use crate::svg::font;

/// How values are placed along an axis.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Spacing {
    /// By value.
    Linear,
    /// By the logarithm of the value; all values are positive.
    Log,
    /// By the logarithm of the magnitude beyond `linear`, and by value below it, where 0 is. A
    /// factor of `factor` takes as much room as the values from 0 to `linear`.
    SymLog {
        /// The magnitude where the two meet.
        linear: f64,
        /// The ratio of neighboring ticks.
        factor: f64,
    },
}

impl Spacing {
    /// A number that grows with the value, and by the same for each step of the axis.
    fn place(self, value: f64) -> f64 {
        match self {
            Spacing::Linear => value,
            Spacing::Log => value.log10(),
            Spacing::SymLog { linear, .. } if value.abs() <= linear => value / linear,
            Spacing::SymLog { linear, factor } => {
                (1.0 + (value.abs() / linear).log10() / factor.log10()).copysign(value)
            }
        }
    }
}

/// The value scale of a plot: its range, round numbers within it with their labels, and the bounds
/// between its colors.
///
/// Values that span a factor of ten or more stand by their logarithm, so that small ones are
/// distinguished, too; where 0 or negative values occur, what is near to 0 is linear. Ticks stand
/// at equal steps.
///
/// ```
/// use flopgap_report::{numbers::ValueFormat, scale::Scale};
///
/// assert!(Scale::of([0.004, 0.12, 7.1], ValueFormat::Number).is_some());
/// assert!(Scale::of([f64::MIN, f64::MAX], ValueFormat::Number).is_none());
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Scale {
    spacing: Spacing,
    /// Lower end of the axis.
    pub(crate) low: f64,
    /// Upper end of the axis; above `low`.
    pub(crate) high: f64,
    /// Tick values within the range, in increasing order, with what is printed at each.
    pub(crate) ticks: Vec<(f64, String)>,
    /// Whether all values are equal, or differ by rounding alone.
    pub(crate) flat: bool,
    /// The values at which a color begins, in increasing order, with their labels: one fewer than
    /// there are colors.
    pub(crate) bounds: Vec<(f64, String)>,
    /// Part of the axis that is kept free at both ends.
    pub(crate) inset: f64,
}

/// Ratio of the largest to the smallest magnitude from which on an axis is logarithmic.
const LOGARITHMIC_FROM: f64 = 10.0;

impl Scale {
    /// A scale that holds all of `values`, which are finite. `None` when there are none, or no axis
    /// can hold them.
    pub fn of(values: impl IntoIterator<Item = f64>, format: ValueFormat) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (&least, &most) = (values.first()?, values.last()?);
        let magnitudes = values.iter().map(|value| value.abs()).filter(|magnitude| *magnitude > 0.0);
        let smallest = magnitudes.fold(f64::INFINITY, f64::min);
        let largest = least.abs().max(most.abs());
        let logarithmic = smallest.is_finite() && largest / smallest >= LOGARITHMIC_FROM;
        let scale = logarithmic.then(|| log::scale(least, most, smallest, format)).flatten();
        let mut scale = match scale {
            Some(scale) => scale,
            None => Self::linear(least, most, format)?,
        };
        scale.bounds = classes::bounds(&scale, &values, format);
        Some(scale)
    }

    /// The scale of an axis along which something was measured at `places`, which are finite,
    /// distinct and increasing, and have a tick each.
    ///
    /// It is logarithmic where that makes the steps between them more nearly equal. Two values
    /// always have equal steps, so they stay linear; so do values that are not all positive.
    pub(crate) fn of_places(places: &[f64]) -> Self {
        let logs = || places.iter().map(|place| place.log10()).collect::<Vec<f64>>();
        let geometric = places.len() > 2 && places[0] > 0.0 && unevenness(&logs()) < unevenness(places);
        Self {
            spacing: if geometric { Spacing::Log } else { Spacing::Linear },
            low: places.first().copied().unwrap_or_default(),
            high: places.last().copied().unwrap_or_default(),
            ticks: places.iter().map(|place| (*place, numbers::exact(*place))).collect(),
            flat: places.len() < 2,
            bounds: Vec::new(),
            inset: 0.0,
        }
    }

    /// The scale with this part of the axis free at both ends, for marks that stand there.
    pub(crate) fn inset(self, inset: f64) -> Self {
        Self { inset, ..self }
    }

    /// What an axis title says of the spacing.
    pub(crate) fn note(&self) -> Option<&'static str> {
        match self.spacing {
            Spacing::Linear => None,
            Spacing::Log => Some("log scale"),
            Spacing::SymLog { .. } => Some("symlog scale"),
        }
    }

    pub(crate) fn is_logarithmic(&self) -> bool {
        self.spacing == Spacing::Log
    }

    /// Position of a value from 0 (low end) to 1 (high end).
    pub(crate) fn position(&self, value: f64) -> f64 {
        self.unclamped(value).clamp(0.0, 1.0)
    }

    /// The same beyond the ends: below 0 and above 1. Not finite where the spacing has no place for
    /// the value; a lone place is in the middle.
    pub(crate) fn unclamped(&self, value: f64) -> f64 {
        // Halved before subtracting: the span of two huge values of opposite sign overflows.
        let [low, high, value] = [self.low, self.high, value].map(|value| self.spacing.place(value) / 2.0);
        let position = if low < high { (value - low) / (high - low) } else { 0.5 };
        self.inset + (1.0 - 2.0 * self.inset) * position
    }

    /// Positions of the ticks, with their labels.
    pub(crate) fn marks(&self) -> Vec<(f64, &str)> {
        self.ticks.iter().map(|(value, label)| (self.position(*value), label.as_str())).collect()
    }

    /// Width of the longest label.
    pub(crate) fn label_width(&self, size: f64) -> f64 {
        self.ticks.iter().map(|(_, label)| font::width(label, size)).fold(0.0, f64::max)
    }

    /// The number of the color that a value has.
    pub(crate) fn class(&self, value: f64) -> usize {
        self.bounds.partition_point(|(bound, _)| *bound <= value)
    }

    /// The colors, of the lowest values first.
    pub(crate) fn colors(&self) -> Vec<Rgb> {
        let last = self.bounds.len().max(1) as f64;
        (0..=self.bounds.len()).map(|class| ramp(class as f64 / last)).collect()
    }

    /// The color of a value in a heatmap.
    pub(crate) fn color(&self, value: f64) -> Rgb {
        ramp(self.class(value) as f64 / self.bounds.len().max(1) as f64)
    }

    /// The color at a position of a surface. In the middle of a class it is that of the class, so
    /// that a surface has the colors of the heatmap; between two of them it is linear.
    pub(crate) fn shade(&self, position: f64) -> Rgb {
        let count = self.bounds.len();
        let inner = self.bounds.iter().enumerate();
        let inner =
            inner.map(|(index, (bound, _))| (self.position(*bound), (index as f64 + 0.5) / count as f64));
        let mut before = (0.0, 0.0);
        for after in inner.chain([(1.0, 1.0)]) {
            if position <= after.0 {
                let part = (position - before.0) / (after.0 - before.0);
                return ramp(before.1 + (after.1 - before.1) * if part.is_finite() { part } else { 1.0 });
            }
            before = after;
        }
        ramp(1.0)
    }
}

/// Ratio of the largest to the smallest step, at least 1.
fn unevenness(values: &[f64]) -> f64 {
    let steps = values.windows(2).map(|pair| pair[1] - pair[0]);
    let (least, most) =
        steps.fold((f64::INFINITY, 0.0_f64), |(least, most), step| (least.min(step), most.max(step)));
    most / least
}

/// A lone value with no more digits than it needs: `0.03`, `1,024`, `3 G`, `30%`.
fn written(value: f64, format: ValueFormat) -> String {
    let (value, unit) = match format {
        ValueFormat::Percent => (value * 100.0, "%"),
        ValueFormat::Number => (value, ""),
    };
    let size = value.abs();
    if size >= 1e6
        && let Some((prefix, factor)) = numbers::si_prefix(size)
    {
        return format!("{} {prefix}{unit}", numbers::float(value / factor, decimals(value / factor)));
    }
    if size != 0.0 && !(1e-4..1e15).contains(&size) {
        return format!("{value:e}{unit}");
    }
    format!("{}{unit}", numbers::float(value, decimals(value)))
}

/// Decimals without which a round number would be another one.
fn decimals(value: f64) -> usize {
    // Twelve digits: what a product with a power of ten leaves behind them is noise.
    let text = format!("{value:.12}");
    text.trim_end_matches('0').split_once('.').map_or(0, |(_, fraction)| fraction.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::palette::seen;

    fn labels(list: &[(f64, String)]) -> Vec<&str> {
        list.iter().map(|(_, label)| label.as_str()).collect()
    }

    #[test]
    fn wide_values_are_logarithmic_with_ticks_at_equal_steps() {
        let scale = Scale::of([0.0039, 0.05, 0.2, 7.2], ValueFormat::Number).unwrap();
        assert_eq!((scale.spacing, scale.low, scale.high), (Spacing::Log, 0.002, 10.0));
        assert_eq!(labels(&scale.ticks), ["0.01", "0.1", "1", "10"]);
        // A decade takes the same room everywhere.
        let at: Vec<f64> = scale.ticks.iter().map(|(value, _)| scale.position(*value)).collect();
        for pair in at.windows(3) {
            assert!((pair[2] - 2.0 * pair[1] + pair[0]).abs() < 1e-12, "{at:?}");
        }
        let scale = Scale::of([0.508, 15.0], ValueFormat::Number).unwrap();
        assert_eq!(labels(&scale.ticks), ["0.5", "1", "2", "4", "8", "16"]);
        let scale = Scale::of([2.1e9, 3e10], ValueFormat::Number).unwrap();
        assert_eq!(labels(&scale.ticks), ["2 G", "4 G", "8 G", "16 G", "32 G"]);
        let scale = Scale::of([0.021, 0.3], ValueFormat::Percent).unwrap();
        assert_eq!(labels(&scale.ticks), ["2%", "4%", "8%", "16%", "32%"]);
    }

    #[test]
    fn zero_and_negative_values_have_a_place() {
        let scale = Scale::of([0.0, 0.001, 0.14, 7.125], ValueFormat::Number).unwrap();
        assert_eq!(labels(&scale.ticks), ["0", "0.01", "0.1", "1", "10"]);
        for (index, (value, _)) in scale.ticks.iter().enumerate() {
            assert!((scale.position(*value) - index as f64 / 4.0).abs() < 1e-12);
        }
        assert!(scale.position(0.0) < scale.position(0.001));
        let scale = Scale::of([-0.3, 0.0, 0.02, 4.0], ValueFormat::Number).unwrap();
        assert_eq!(labels(&scale.ticks), ["-0.1", "-0.01", "0", "0.01", "0.1", "1"]);
        assert!(scale.position(-0.3) < scale.position(-0.02) && scale.position(-0.02) < scale.position(0.0));
    }

    #[test]
    fn narrow_and_equal_values_stay_linear() {
        for values in [[0.51, 0.67], [15.0, 15.0], [0.0, 0.0], [-3.0, 20.0]] {
            assert_eq!(Scale::of(values, ValueFormat::Number).unwrap().spacing, Spacing::Linear);
        }
        assert!(Scale::of([0.0, 0.0], ValueFormat::Number).unwrap().flat);
        assert_eq!(Scale::of([], ValueFormat::Number), None);
    }

    #[test]
    fn spacing_follows_the_places() {
        let step = |from: i32, to: i32, by: usize| (from..=to).step_by(by).map(f64::from).collect::<Vec<_>>();
        for (places, logarithmic) in [
            (step(128, 2048, 128), false),
            (step(16, 256, 16), false),
            (vec![256.0, 512.0, 1024.0, 2048.0], true),
            (vec![16.0, 64.0, 256.0], true),
            (vec![128.0, 256.0], false),
            (vec![0.0, 1.0, 10.0], false),
        ] {
            assert_eq!(Scale::of_places(&places).is_logarithmic(), logarithmic, "{places:?}");
        }
    }

    #[test]
    fn places_span_the_unit_interval() {
        for (places, expected) in [
            (&[256.0, 512.0, 1024.0][..], &[0.0, 0.5, 1.0][..]),
            (&[64.0], &[0.5]),
            (&[-f64::MAX, 0.0, f64::MAX], &[0.0, 0.5, 1.0]),
        ] {
            let positions = |scale: Scale| places.iter().map(|at| scale.position(*at)).collect::<Vec<_>>();
            assert_eq!(positions(Scale::of_places(places)), expected);
            let inset = positions(Scale::of_places(places).inset(0.25));
            assert_eq!(inset, expected.iter().map(|at| 0.25 + at / 2.0).collect::<Vec<_>>());
        }
    }

    #[test]
    fn colors_begin_at_their_bounds() {
        let scale = Scale::of((0..=60).map(|i| 0.002 * 1.15_f64.powi(i)), ValueFormat::Number).unwrap();
        assert_eq!(labels(&scale.bounds), ["0.01", "0.03", "0.1", "0.3", "1", "3"]);
        assert_eq!([0.0, 0.0099, 0.01, 0.03, 9.0].map(|value| scale.class(value)), [0, 0, 1, 2, 6]);
        assert_eq!(scale.colors().len(), 7);
        assert_eq!(scale.color(0.02), scale.colors()[1]);
        // Between two bounds, at the middle, a surface has the color of the class.
        let middle = f64::midpoint(scale.position(0.01), scale.position(0.03));
        assert_eq!(scale.shade(middle), scale.color(0.02));
        assert_eq!([scale.shade(0.0), scale.shade(1.0)], [ramp(0.0), ramp(1.0)]);
        let light: Vec<f64> = (0..100).map(|i| seen::lightness(scale.shade(f64::from(i) / 99.0))).collect();
        assert!(light.is_sorted_by(|a, b| a >= b), "{light:?}");
    }

    #[test]
    fn round_numbers_are_short() {
        use ValueFormat::{Number, Percent};
        for (value, format, expected) in [
            (0.3, Number, "0.3"),
            (0.0, Number, "0"),
            (1024.0, Number, "1,024"),
            (2e9, Number, "2 G"),
            (1.5e-6, Number, "1.5e-6"),
            (0.03, Percent, "3%"),
            (0.005, Percent, "0.5%"),
            (16.0, Percent, "1,600%"),
        ] {
            assert_eq!(written(value, format), expected);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_values_have_a_scale(
            values in proptest::collection::vec(-1e12_f64..1e12, 1..40),
            exponent in -40_i32..20,
            positive: bool,
        ) {
            let factor = 10_f64.powi(exponent);
            let values: Vec<f64> =
                values.iter().map(|value| factor * if positive { value.abs() } else { *value }).collect();
            for format in [ValueFormat::Number, ValueFormat::Percent] {
                let scale = Scale::of(values.iter().copied(), format).unwrap();
                proptest::prop_assert!(scale.low < scale.high);
                let slack = 1e-9 * (scale.high - scale.low);
                for value in &values {
                    proptest::prop_assert!(scale.low - slack <= *value && *value <= scale.high + slack, "{:?}", scale);
                }
                proptest::prop_assert!((1..=16).contains(&scale.ticks.len()), "{:?}", scale);
                let mut labels: Vec<_> = scale.ticks.iter().map(|tick| &tick.1).collect();
                labels.dedup();
                proptest::prop_assert_eq!(labels.len(), scale.ticks.len(), "{:?}", scale);
                proptest::prop_assert!(scale.bounds.len() <= 12 && scale.bounds.is_sorted_by(|a, b| a.0 < b.0));
            }
        }
    }
}
