//! A metric over a grid of two quantities, as a picture.
//!
//! [`Surface::from_points`] takes what was measured, in any order and with gaps;
//! [`Surface::to_svg`] draws it, and with the feature `png`, `Surface::to_png` does, with the same
//! code and a bundled font.

mod mesh;
mod scene;
mod view;

use crate::ReportError;
use crate::axis::{Axis, AxisLabel};
use crate::chart::{Color, Panel, Series};
use crate::field::{self, Field};
use crate::numbers::ValueFormat;
use crate::scale::Scale;
use crate::svg::picture::{HEADING, LABEL_SIZE, MARGIN, Picture, TICK_SIZE};
use crate::svg::{Across, Svg};

/// Size of a picture in pixels.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 760.0;

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
/// use flopgap_report::axis::AxisLabel;
/// use flopgap_report::surface::Surface;
///
/// let points = [(256.0, 16.0, Some(0.31)), (512.0, 16.0, Some(0.12)), (256.0, 64.0, Some(0.09)), (512.0, 64.0, None)];
/// let surface = Surface::from_points(
///     "Overhead of the forward pass",
///     AxisLabel::new("layer width d"),
///     AxisLabel::new("batch m").unit("rows"),
///     AxisLabel::new("overhead"),
///     points,
/// )?;
/// let svg = surface.to_svg()?;
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
    scale: Option<Scale>,
    /// `None` where nothing was measured.
    field: Field<Option<f64>>,
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
        let set = (title.clone(), points.into_iter().collect());
        let field = Field::of((&x, &y), &[set], |value| value)?.remove(0);
        if field.asked().all(|value| value.is_none()) {
            return Err(field::nothing(&title));
        }
        Ok(Self {
            subtitle: String::new(),
            x: Axis::new(x, field.xs.clone()),
            y: Axis::new(y, field.ys.clone()),
            z,
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

    /// The surface on a scale of more values than its own, such as those of all surfaces that it is
    /// compared with.
    #[must_use]
    pub fn scale(self, scale: Option<Scale>) -> Self {
        Self { scale, ..self }
    }

    /// The picture as an SVG document of 1000 by 760 pixels. Text stays text.
    ///
    /// # Errors
    /// [`ReportError::InvalidPlot`] when no axis can hold the values.
    pub fn to_svg(&self) -> Result<String, ReportError> {
        let scale = self.value_scale()?;
        self.picture(&scale).to_svg(|svg| self.draw(svg, &scale))
    }

    /// The picture as a PNG file, 8-bit RGB on white.
    ///
    /// # Errors
    /// [`ReportError::InvalidPlot`] when no axis can hold the values.
    #[cfg(feature = "png")]
    pub fn to_png(&self) -> Result<Vec<u8>, ReportError> {
        let scale = self.value_scale()?;
        self.picture(&scale).to_png(|svg| self.draw(svg, &scale))
    }

    fn value_scale(&self) -> Result<Scale, ReportError> {
        let own = || Scale::of(self.values(), ValueFormat::Number);
        self.scale.clone().or_else(own).ok_or_else(|| {
            let (least, most) = self
                .values()
                .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), v| (least.min(v), most.max(v)));
            ReportError::InvalidPlot {
                title: self.title.clone(),
                reason: format!("no axis can hold values from {least:e} to {most:e}"),
            }
        })
    }

    fn picture(&self, scale: &Scale) -> Picture<'_> {
        Picture {
            title: &self.title,
            subtitle: self.subtitle_with_notes(scale),
            width: WIDTH,
            height: HEIGHT,
        }
    }

    fn draw(&self, svg: &mut Svg, scale: &Scale) {
        if self.x.values.len() > 1 && self.y.values.len() > 1 {
            scene::draw(svg, self, scale);
        } else {
            self.draw_line(svg, scale);
        }
    }

    /// Draws a grid with a single row or column as a line over the axis that is left, or over x.
    fn draw_line(&self, svg: &mut Svg, scale: &Scale) {
        let axis = if self.y.values.len() > 1 { &self.y } else { &self.x };
        let left = MARGIN + LABEL_SIZE + 14.0 + scale.label_width(TICK_SIZE) + 14.0;
        let (top, height) = (HEADING + 24.0, HEIGHT - HEADING - 116.0);
        let mut line = Series { joined: true, ..Series::points("", Color::nth(0), Vec::new()) };
        for (at, place) in axis.values.iter().zip(&self.field.places) {
            match place {
                Some(Some(value)) => line.points.push((*at, *value)),
                Some(None) => line.missing.push(*at),
                None => {}
            }
        }
        let x = &axis.scale.clone().inset(0.06);
        let panel = Panel {
            x,
            y: scale,
            title: axis.title(),
            height,
            size: TICK_SIZE,
            labels_values: true,
            format: ValueFormat::Number,
            series: &[line],
            guides: &[],
        };
        svg.within(Across::Pixels(left), top, Across::Pixels(WIDTH - left - 2.0 * MARGIN), |svg| {
            panel.draw(svg, 1.0);
        });
        let title = self.z.title(scale.note());
        svg.text_upwards("fg-ink", &title, (MARGIN + LABEL_SIZE / 2.0, top + height / 2.0), LABEL_SIZE);
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        self.field.asked().flatten()
    }

    fn missing(&self) -> usize {
        self.field.asked().filter(Option::is_none).count()
    }

    /// The subtitle, and what a reader must know to read the picture correctly.
    fn subtitle_with_notes(&self, scale: &Scale) -> String {
        let mut notes: Vec<String> = Vec::new();
        if !self.subtitle.is_empty() {
            notes.push(self.subtitle.clone());
        }
        // When both axes have one value, x is the axis of the line, and names its value itself.
        if self.y.values.len() == 1 {
            notes.push(self.y.label.at(self.y.values[0]));
        } else if self.x.values.len() == 1 {
            notes.push(self.x.label.at(self.x.values[0]));
        }
        let (missing, asked) = (self.missing(), self.field.asked().count());
        if missing > 0 {
            notes.push(format!("{missing} of {asked} values missing (×)"));
        }
        if scale.flat && asked - missing > 1 {
            notes.push("all values are equal".to_owned());
        }
        notes.join(" · ")
    }
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
        assert_eq!(
            plot.field.places,
            [Some(Some(1.0)), None, Some(Some(3.0)), Some(None), Some(Some(4.0)), None]
        );
        assert_eq!((plot.missing(), plot.field.asked().count()), (1, 4));
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
        let notes = plot.subtitle_with_notes(&plot.value_scale().unwrap());
        assert_eq!(notes, "n = 2 · m = 5 · 1 of 3 values missing (×) · all values are equal");
    }
}
