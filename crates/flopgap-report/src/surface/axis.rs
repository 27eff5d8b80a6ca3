use crate::numbers;

/// What an axis, a metric or a color bar shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AxisLabel {
    /// The quantity, such as `layer width d`.
    pub label: String,
    /// Its unit, such as `FLOP`; `None` for pure numbers.
    pub unit: Option<String>,
}

impl AxisLabel {
    /// A quantity without a unit.
    pub fn new(label: impl Into<String>) -> Self {
        Self { label: label.into(), unit: None }
    }

    /// The quantity with a unit.
    #[must_use]
    pub fn unit(mut self, unit: impl Into<String>) -> Self {
        self.unit = Some(unit.into());
        self
    }

    /// The label with what stands in brackets after it: the unit and a note on the spacing.
    pub(crate) fn title(&self, spacing: Option<&str>) -> String {
        let notes = [self.unit.as_deref(), spacing];
        let notes: Vec<&str> = notes.into_iter().flatten().filter(|note| !note.is_empty()).collect();
        if notes.is_empty() { self.label.clone() } else { format!("{} ({})", self.label, notes.join(", ")) }
    }
}

/// How values are placed along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spacing {
    /// By value.
    Linear,
    /// By the logarithm of the value.
    Log2,
}

impl Spacing {
    /// The spacing under which the steps between `values` are more nearly equal. Two values always
    /// have equal steps, so they stay linear; so do values that are not all positive.
    pub(crate) fn of(values: &[f64]) -> Self {
        if values.len() < 3 || values.iter().any(|value| *value <= 0.0) {
            return Self::Linear;
        }
        let logs: Vec<f64> = values.iter().map(|value| value.log2()).collect();
        if unevenness(&logs) < unevenness(values) { Self::Log2 } else { Self::Linear }
    }

    pub(crate) fn note(self) -> Option<&'static str> {
        match self {
            Self::Linear => None,
            Self::Log2 => Some("log2 scale"),
        }
    }

    pub(crate) fn map(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Log2 => value.log2(),
        }
    }
}

/// Ratio of the largest to the smallest step, at least 1.
fn unevenness(values: &[f64]) -> f64 {
    let steps = values.windows(2).map(|pair| pair[1] - pair[0]);
    let (least, most) =
        steps.fold((f64::INFINITY, 0.0_f64), |(least, most), step| (least.min(step), most.max(step)));
    most / least
}

/// A labeled axis with the values at which something was measured, in increasing order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Axis {
    pub(crate) label: AxisLabel,
    pub(crate) values: Vec<f64>,
    pub(crate) spacing: Spacing,
}

impl Axis {
    /// `values` are finite, distinct and increasing.
    pub(crate) fn new(label: AxisLabel, values: Vec<f64>) -> Self {
        let spacing = Spacing::of(&values);
        Self { label, values, spacing }
    }

    pub(crate) fn title(&self) -> String {
        self.label.title(self.spacing.note())
    }

    /// Positions of the values from 0 to 1; a lone value stands in the middle.
    pub(crate) fn positions(&self) -> Vec<f64> {
        let mapped: Vec<f64> = self.values.iter().map(|value| self.spacing.map(*value)).collect();
        match (mapped.first(), mapped.last()) {
            // Halved before subtracting: the span of two huge values of opposite sign overflows.
            (Some(first), Some(last)) if last > first => {
                let span = last / 2.0 - first / 2.0;
                mapped.iter().map(|value| (value / 2.0 - first / 2.0) / span).collect()
            }
            _ => vec![0.5; mapped.len()],
        }
    }

    /// `label = value`, for the axis of a single value.
    pub(crate) fn fixed_note(&self) -> Option<String> {
        let [value] = self.values[..] else { return None };
        let unit = self.label.unit.as_deref().map(|unit| format!(" {unit}")).unwrap_or_default();
        Some(format!("{} = {}{unit}", self.label.label, exact(value)))
    }
}

/// An axis value in full: integers with grouped digits, other numbers with every digit they need.
pub(crate) fn exact(value: f64) -> String {
    if value.abs() >= 1e9 || (value != 0.0 && value.abs() < 1e-4) {
        return format!("{value:e}");
    }
    let text = format!("{value}");
    let decimals = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    numbers::float(value, decimals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spacing_follows_the_values() {
        let step = |from: i32, to: i32, by: i32| -> Vec<f64> {
            (from..=to).step_by(usize::try_from(by).unwrap()).map(f64::from).collect()
        };
        assert_eq!(Spacing::of(&step(128, 2048, 128)), Spacing::Linear);
        assert_eq!(Spacing::of(&step(16, 256, 16)), Spacing::Linear);
        assert_eq!(Spacing::of(&[256.0, 512.0, 1024.0, 2048.0]), Spacing::Log2);
        assert_eq!(Spacing::of(&[16.0, 64.0, 256.0]), Spacing::Log2);
        assert_eq!(Spacing::of(&[2.0, 4.0, 8.0, 16.0, 32.0]), Spacing::Log2);
        assert_eq!(Spacing::of(&[128.0, 256.0]), Spacing::Linear);
        assert_eq!(Spacing::of(&[0.0, 1.0, 10.0]), Spacing::Linear);
    }

    #[test]
    fn positions_span_the_unit_interval() {
        let axis = Axis::new(AxisLabel::new("d"), vec![256.0, 512.0, 1024.0]);
        assert_eq!(axis.positions(), [0.0, 0.5, 1.0]);
        let axis = Axis::new(AxisLabel::new("d"), vec![7.0]);
        assert_eq!(axis.positions(), [0.5]);
        let axis = Axis::new(AxisLabel::new("d"), vec![f64::MIN, 0.0, f64::MAX]);
        assert_eq!(axis.positions(), [0.0, 0.5, 1.0]);
    }

    #[test]
    fn titles_name_unit_and_spacing() {
        let log = Axis::new(AxisLabel::new("batch m").unit("rows"), vec![16.0, 64.0, 256.0]);
        assert_eq!(log.title(), "batch m (rows, log2 scale)");
        let linear = Axis::new(AxisLabel::new("batch m"), vec![16.0, 32.0]);
        assert_eq!(linear.title(), "batch m");
        assert_eq!(linear.fixed_note(), None);
        let one = Axis::new(AxisLabel::new("batch m").unit("rows"), vec![2048.0]);
        assert_eq!(one.fixed_note().unwrap(), "batch m = 2,048 rows");
    }

    #[test]
    fn axis_values_are_written_in_full() {
        for (value, expected) in
            [(2048.0, "2,048"), (0.25, "0.25"), (-1.5, "-1.5"), (3e12, "3e12"), (1e-7, "1e-7")]
        {
            assert_eq!(exact(value), expected);
        }
    }
}
