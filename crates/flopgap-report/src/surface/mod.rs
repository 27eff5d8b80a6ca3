//! A metric over a grid of two quantities, as a picture.
//!
//! [`Surface::from_points`] takes what was measured, in any order and with gaps;
//! [`Surface::to_svg`] and [`Surface::to_png`] draw it with the same code and a bundled font:
//! the machine needs no fonts.

pub(crate) mod axis;
mod line;
mod mesh;
mod scene;
mod view;

pub use crate::picture::Size;
pub use axis::AxisLabel;
pub(crate) use axis::{Axis, Spacing};

use plotters::prelude::DrawingBackend;

use crate::field::{Field, Points};
use crate::picture::canvas::{Canvas, Drawn};
use crate::picture::{self, Painting};
use crate::scale::Scale;
use crate::{ReportError, numbers::ValueFormat};

/// A metric (z) over a grid of two quantities (x, y).
///
/// Axis values keep their numerical order. Each axis is spaced linearly or, where its values are
/// more nearly geometric, by their binary logarithm, and then its title says so; z is spaced as a
/// [`Scale`] of the values is, or as that of [`scale`](Self::scale). Cells without all their
/// corners are left out, places without a value are crossed on the floor, and the picture says how
/// many there are. With a single value on one axis the picture is a line over the other. The box is
/// always seen from its high ends, so that pictures of several metrics can be laid side by side.
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
/// assert!(svg.contains("1 of 4 values missing (×)"));
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
    scale: Option<Scale>,
    field: Field,
}

impl Surface {
    /// A surface from points `(x, y, z)`; `None` stands for a point that was planned and not
    /// measured. Places of the grid without a point were not asked for: they are left blank and not
    /// counted as missing.
    ///
    /// # Errors
    /// [`ReportError::InvalidPlot`] for a coordinate or value that is not finite, for two points at
    /// one place, and for more than 250,000 grid points (x values times y values);
    /// [`ReportError::NothingToDraw`] when no point has a value.
    pub fn from_points(
        title: impl Into<String>,
        x: AxisLabel,
        y: AxisLabel,
        z: AxisLabel,
        points: impl IntoIterator<Item = (f64, f64, Option<f64>)>,
    ) -> Result<Self, ReportError> {
        let title = title.into();
        let points = Points::check(&title, (&x.label, &y.label), points)?;
        let mut fields = Points::fields(&title, &[points])?;
        let field = fields.remove(0);
        Ok(Self {
            subtitle: String::new(),
            x: Axis::new(x, field.xs.clone()),
            y: Axis::new(y, field.ys.clone()),
            z,
            format: ValueFormat::Number,
            scale: None,
            field,
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

    /// The surface on a scale of more values than its own, such as those of all surfaces that it is
    /// compared with.
    #[must_use]
    pub fn scale(mut self, scale: Scale) -> Self {
        self.scale = Some(scale);
        self
    }

    /// Points that were planned and not measured.
    pub fn missing(&self) -> usize {
        self.field.missing()
    }

    /// The picture as an SVG document. Text stays text.
    ///
    /// # Errors
    /// [`ReportError::InvalidPlot`] when the size is out of bounds or no axis can hold the values.
    pub fn to_svg(&self, size: Size) -> Result<String, ReportError> {
        picture::svg(&self.painted()?, size)
    }

    /// The picture as a PNG file, 8-bit RGB on white.
    ///
    /// # Errors
    /// [`ReportError::InvalidPlot`] when the size is out of bounds or no axis can hold the values.
    pub fn to_png(&self, size: Size) -> Result<Vec<u8>, ReportError> {
        picture::png(&self.painted()?, size)
    }

    fn painted(&self) -> Result<Painted<'_>, ReportError> {
        let own = || Scale::of(self.field.values(), self.format);
        let scale = self.scale.clone().or_else(own).ok_or_else(|| {
            let (least, most) = self
                .field
                .values()
                .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), v| (least.min(v), most.max(v)));
            ReportError::InvalidPlot {
                title: self.title.clone(),
                reason: format!("no axis can hold values from {least:e} to {most:e}"),
            }
        })?;
        Ok(Painted { surface: self, scale })
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
        let (missing, asked) = (self.field.missing(), self.field.asked());
        if missing > 0 {
            notes.push(format!("{missing} of {asked} values missing (×)"));
        }
        if scale.flat && asked - missing > 1 {
            notes.push("all values are equal".to_owned());
        }
        notes.join(" · ")
    }
}

/// A surface with the scale that it is drawn on.
struct Painted<'a> {
    surface: &'a Surface,
    scale: Scale,
}

impl Painting for Painted<'_> {
    fn title(&self) -> &str {
        &self.surface.title
    }

    fn design(&self) -> Option<(f64, f64)> {
        Some((1000.0, 760.0))
    }

    fn paint<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>) -> Drawn {
        if self.surface.x.values.len() > 1 && self.surface.y.values.len() > 1 {
            scene::draw(canvas, self.surface, &self.scale)
        } else {
            line::draw(canvas, self.surface, &self.scale)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Place::{Missing, Unasked, Value};

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
        assert_eq!(plot.field.places, [Value(1.0), Unasked, Value(3.0), Missing, Value(4.0), Unasked]);
        assert_eq!((plot.missing(), plot.field.asked()), (1, 4));
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
        assert_eq!(message(&[(1.0, 1.0, None)]), "plot `t`: nothing to draw: no value was measured");
        assert_eq!(message(&[]), "plot `t`: nothing to draw: no value was measured");
        let scattered: Vec<_> = (0..600).map(|i| (f64::from(i), f64::from(i), Some(0.0))).collect();
        assert_eq!(message(&scattered), "plot `t`: a grid of 600 by 600 values is too large to be read");
    }

    #[test]
    fn the_subtitle_says_what_the_picture_leaves_out() {
        let plot = surface(&[(1.0, 5.0, Some(2.0)), (2.0, 5.0, Some(2.0)), (3.0, 5.0, None)]).unwrap();
        let plot = plot.subtitle("n = 2");
        let notes = plot.subtitle_with_notes(&plot.painted().unwrap().scale);
        assert_eq!(notes, "n = 2 · m = 5 · 1 of 3 values missing (×) · all values are equal");
    }
}
