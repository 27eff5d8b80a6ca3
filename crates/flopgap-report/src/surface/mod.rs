//! A metric over a grid of two quantities, as a picture.
//!
//! [`Surface::from_points`] takes what was measured, in any order and with gaps; [`Surface::to_svg`] and
//! [`Surface::to_png`] draw it with the same code and a bundled font: nothing is asked of the machine.

mod axis;
mod canvas;
mod frame;
mod line;
mod mesh;
mod picture;
mod scene;
mod ticks;
mod view;

pub use axis::AxisLabel;
pub(crate) use axis::Spacing;
pub(crate) use canvas::printable;
pub use picture::Size;
pub(crate) use ticks::Scale;

use std::collections::BTreeMap;

use axis::{Axis, exact};

use crate::{ReportError, numbers::ValueFormat};

/// Grid points beyond which a surface is refused: no reader sees more, and the picture would be huge.
const MOST_POINTS: usize = 250_000;

/// A metric (z) over a grid of two quantities (x, y).
///
/// Axis values keep their numerical order. Each axis is spaced linearly or, where its values are more nearly
/// geometric, by their binary logarithm, and then its title says so; z is always linear. Cells without all their
/// corners are left out, and the picture says how many values are missing. With a single value on one axis the
/// picture is a line over the other.
///
/// ```
/// use flopgap_report::surface::{AxisLabel, Size, Surface};
///
/// let points = [(256.0, 16.0, Some(0.31)), (512.0, 16.0, Some(0.12)), (256.0, 64.0, Some(0.09)), (512.0, 64.0, None)];
/// let surface = Surface::from_points(
///     "Overhead of the forward pass",
///     AxisLabel::new("layer width d"),
///     AxisLabel::new("batch m").unit("rows"),
///     AxisLabel::new("overhead"),
///     points,
/// )?;
/// let svg = surface.to_svg(Size::default())?;
/// assert!(svg.contains("1 of 4 values missing"));
/// # Ok::<(), flopgap_report::ReportError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Surface {
    title: String,
    subtitle: String,
    x: Axis,
    y: Axis,
    z: AxisLabel,
    format: ValueFormat,
    /// For each y and, within it, each x.
    values: Vec<Option<f64>>,
}

impl Surface {
    /// A surface from points `(x, y, z)`; `None` stands for a point that was planned and not measured. Points of the
    /// grid that do not occur count as not measured too.
    ///
    /// # Errors
    /// [`ReportError::InvalidPlot`] for a coordinate or value that is not finite, for two points at one place, and
    /// for more than 250,000 grid points (x values times y values); [`ReportError::NothingToDraw`] when no point has a
    /// value.
    pub fn from_points(
        title: impl Into<String>,
        x: AxisLabel,
        y: AxisLabel,
        z: AxisLabel,
        points: impl IntoIterator<Item = (f64, f64, Option<f64>)>,
    ) -> Result<Self, ReportError> {
        let title = title.into();
        let invalid = |reason: String| ReportError::InvalidPlot { title: title.clone(), reason };
        let mut measured: BTreeMap<(Ordered, Ordered), Option<f64>> = BTreeMap::new();
        for (px, py, value) in points {
            let place = || format!("{} = {}, {} = {}", x.label, exact(px), y.label, exact(py));
            if !px.is_finite() || !py.is_finite() {
                return Err(invalid(format!("the place {} is not finite", place())));
            }
            if let Some(value) = value.filter(|value| !value.is_finite()) {
                return Err(invalid(format!(
                    "the value at {} is {value}; leave out what was not measured",
                    place()
                )));
            }
            if measured.insert((Ordered::new(px), Ordered::new(py)), value).is_some() {
                return Err(invalid(format!("there are two points at {}", place())));
            }
        }
        let xs = distinct(measured.keys().map(|place| place.0));
        let ys = distinct(measured.keys().map(|place| place.1));
        if xs.len().saturating_mul(ys.len()) > MOST_POINTS {
            let reason = format!("a grid of {} by {} values is too large to be read", xs.len(), ys.len());
            return Err(invalid(reason));
        }
        if measured.values().all(Option::is_none) {
            return Err(ReportError::NothingToDraw { title, reason: "no value was measured".to_owned() });
        }
        let values = ys
            .iter()
            .flat_map(|py| xs.iter().map(|px| measured.get(&(*px, *py)).copied().flatten()))
            .collect();
        let axis = |label, values: Vec<Ordered>| Axis::new(label, values.into_iter().map(|v| v.0).collect());
        Ok(Self {
            subtitle: String::new(),
            x: axis(x, xs),
            y: axis(y, ys),
            z,
            format: ValueFormat::Number,
            values,
            title,
        })
    }

    /// The surface with a second line under its title.
    #[must_use]
    pub fn subtitle(mut self, subtitle: impl Into<String>) -> Self {
        self.subtitle = subtitle.into();
        self
    }

    /// The surface with z values written as `format` says.
    #[must_use]
    pub fn format(mut self, format: ValueFormat) -> Self {
        self.format = format;
        self
    }

    /// Grid points without a value.
    pub fn missing(&self) -> usize {
        self.values.iter().filter(|value| value.is_none()).count()
    }

    fn scale(&self) -> Result<Scale, ReportError> {
        let values = self.values.iter().flatten();
        let (least, most) =
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), v| (least.min(*v), most.max(*v)));
        Scale::new(least, most, self.format).ok_or_else(|| ReportError::InvalidPlot {
            title: self.title.clone(),
            reason: format!("no axis can hold values from {least:e} to {most:e}"),
        })
    }

    /// The subtitle, and what a reader must know to read the picture correctly.
    fn subtitle_with_notes(&self, scale: &Scale) -> String {
        let mut notes: Vec<String> = Vec::new();
        if !self.subtitle.is_empty() {
            notes.push(self.subtitle.clone());
        }
        // When both axes have one value, x is the axis of the line, and names its value itself.
        if self.y.values.len() == 1 {
            notes.extend(self.y.fixed_note());
        } else {
            notes.extend(self.x.fixed_note());
        }
        if self.missing() > 0 {
            notes.push(format!("{} of {} values missing", self.missing(), self.values.len()));
        }
        if scale.flat && self.values.len() - self.missing() > 1 {
            notes.push("all values are equal".to_owned());
        }
        notes.join(" · ")
    }
}

/// A finite `f64` as a key. Both zeros are one key.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Ordered(f64);

impl Ordered {
    fn new(value: f64) -> Self {
        Self(if value == 0.0 { 0.0 } else { value })
    }
}

impl Eq for Ordered {}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

fn distinct(values: impl Iterator<Item = Ordered>) -> Vec<Ordered> {
    values.collect::<std::collections::BTreeSet<_>>().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn surface(points: &[(f64, f64, Option<f64>)]) -> Result<Surface, ReportError> {
        let label = AxisLabel::new;
        Surface::from_points("t", label("d"), label("m"), label("ε"), points.iter().copied())
    }

    #[test]
    fn points_in_any_order_make_a_grid() {
        let plot = surface(&[
            (2.0, 20.0, Some(4.0)),
            (1.0, 10.0, Some(1.0)),
            (1.0, 20.0, None),
            (3.0, 10.0, Some(3.0)),
        ])
        .unwrap();
        assert_eq!(plot.x.values, [1.0, 2.0, 3.0]);
        assert_eq!(plot.y.values, [10.0, 20.0]);
        assert_eq!(plot.values, [Some(1.0), None, Some(3.0), None, Some(4.0), None]);
        assert_eq!(plot.missing(), 3);
    }

    #[test]
    fn bad_points_are_refused_with_their_place() {
        let message = |points: &[_]| surface(points).unwrap_err().to_string();
        assert_eq!(
            message(&[(256.0, 16.0, Some(f64::INFINITY))]),
            "plot `t`: the value at d = 256, m = 16 is inf; leave out what was not measured"
        );
        assert_eq!(
            message(&[(256.0, 16.0, Some(1.0)), (256.0, 16.0, None)]),
            "plot `t`: there are two points at d = 256, m = 16"
        );
        assert_eq!(
            message(&[(0.0, 1.0, None), (-0.0, 1.0, None)]),
            "plot `t`: there are two points at d = 0, m = 1"
        );
        assert_eq!(message(&[(f64::NAN, 1.0, None)]), "plot `t`: the place d = NaN, m = 1 is not finite");
        assert_eq!(message(&[(1.0, 1.0, None)]), "plot `t` has nothing to draw: no value was measured");
        assert_eq!(message(&[]), "plot `t` has nothing to draw: no value was measured");
        let scattered: Vec<_> = (0..600).map(|i| (f64::from(i), f64::from(i), Some(0.0))).collect();
        assert_eq!(message(&scattered), "plot `t`: a grid of 600 by 600 values is too large to be read");
    }

    #[test]
    fn the_subtitle_says_what_the_picture_leaves_out() {
        let plot = surface(&[(1.0, 5.0, Some(2.0)), (2.0, 5.0, Some(2.0)), (3.0, 5.0, None)]).unwrap();
        let plot = plot.subtitle("n = 2");
        let notes = plot.subtitle_with_notes(&plot.scale().unwrap());
        assert_eq!(notes, "n = 2 · m = 5 · 1 of 3 values missing · all values are equal");
    }
}
