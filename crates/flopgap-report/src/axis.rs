//! Axes and what they show.

use crate::numbers::exact;
use crate::scale::Scale;

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

    /// `label = value`, with the unit.
    pub(crate) fn at(&self, value: f64) -> String {
        let unit = self.unit.as_deref().map(|unit| format!(" {unit}")).unwrap_or_default();
        format!("{} = {}{unit}", self.label, exact(value))
    }
}

/// A labeled axis with the values at which something was measured, in increasing order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Axis {
    pub(crate) label: AxisLabel,
    pub(crate) values: Vec<f64>,
    pub(crate) scale: Scale,
}

impl Axis {
    /// `values` are finite, distinct and increasing.
    pub(crate) fn new(label: AxisLabel, values: Vec<f64>) -> Self {
        let scale = Scale::of_places(&values);
        Self { label, values, scale }
    }

    pub(crate) fn title(&self) -> String {
        self.label.title(self.scale.note())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_name_unit_and_spacing() {
        let rows = || AxisLabel::new("batch m").unit("rows");
        assert_eq!(Axis::new(rows(), vec![16.0, 32.0, 64.0]).title(), "batch m (rows, log scale)");
        assert_eq!(AxisLabel::new("ε").title(None), "ε");
        assert_eq!(rows().at(2048.5), "batch m = 2,048.5 rows");
    }
}
