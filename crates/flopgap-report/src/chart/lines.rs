//! Values over one axis, several lines to compare.

use super::Color;
use super::svg::{Drawing, class_of, escape, fitted, percent, text_width};
use super::widths::{LEVELS, width_of};
use crate::ReportError;
use crate::numbers::ValueFormat;
use crate::scale::Scale;
use crate::surface::{AxisLabel, Spacing};

/// Several lines over one axis, with a mark at each value and a legend.
///
/// ```
/// use flopgap_report::chart::{Color, Line, LineChart};
/// use flopgap_report::surface::AxisLabel;
///
/// let line = Line { label: "m=16".to_owned(), color: Color::nth(0), points: vec![(128.0, 0.5), (256.0, 0.25)] };
/// let chart = LineChart::new("Overhead", AxisLabel::new("width d"), AxisLabel::new("above theory"), vec![line])?;
/// assert!(chart.to_svg()?.starts_with("<svg "));
/// # Ok::<(), flopgap_report::ReportError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct LineChart {
    title: String,
    subtitle: String,
    x: AxisLabel,
    y: AxisLabel,
    lines: Vec<Line>,
    format: ValueFormat,
}

/// One line of a [`LineChart`].
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Its name in the legend.
    pub label: String,
    /// Its color.
    pub color: Color,
    /// Place and value, in the order in which they are joined.
    pub points: Vec<(f64, f64)>,
}

/// Height of the plot and of a line of text, in pixels.
const PLOT: f64 = 280.0;
const TEXT: f64 = 20.0;
/// Part of the width to the right of the plot.
const RIGHT: f64 = 0.03;
/// The width in pixels from which on there is room for the labels of the values. (Not every viewer
/// adds pixels to percentages.)
const ROOMY: f64 = 500.0;
/// Part of the width that is kept free on both sides of the marks.
const INSET: f64 = 0.03;

impl LineChart {
    /// A chart of `lines`, some of which may be empty.
    ///
    /// # Errors
    /// [`ReportError::InvalidPlot`] for a place or value that is not finite,
    /// [`ReportError::NothingToDraw`] without any point.
    pub fn new(
        title: impl Into<String>,
        x: AxisLabel,
        y: AxisLabel,
        lines: Vec<Line>,
    ) -> Result<Self, ReportError> {
        let title = title.into();
        super::check_points(&title, "line", lines.iter().map(|line| (&*line.label, &*line.points)))?;
        Ok(Self { title, subtitle: String::new(), x, y, lines, format: ValueFormat::Number })
    }

    /// A second line of heading, such as where the values come from.
    #[must_use]
    pub fn subtitle(mut self, subtitle: impl Into<String>) -> Self {
        self.subtitle = subtitle.into();
        self
    }

    /// How values are written; plain numbers unless set.
    #[must_use]
    pub fn format(mut self, format: ValueFormat) -> Self {
        self.format = format;
        self
    }

    /// The chart as an SVG document.
    ///
    /// # Errors
    /// [`ReportError::Drawing`] when the values span more than an axis can show.
    pub fn to_svg(&self) -> Result<String, ReportError> {
        Ok(self.draw()?.for_file())
    }

    fn draw(&self) -> Result<Drawing, ReportError> {
        let values = || self.lines.iter().flat_map(|line| line.points.iter().map(|point| point.1));
        let (least, most) =
            (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
        let scale = Scale::linear(least, most, self.format).ok_or_else(|| ReportError::Drawing {
            title: self.title.clone(),
            reason: format!("no axis holds {least} to {most}"),
        })?;
        let places = Places::of(&self.lines);

        let mut drawing = Drawing::new(&self.title);
        drawing.push(format_args!("<rect width=\"100%\" height=\"100%\" style=\"fill:var(--fg-paper)\"/>"));
        drawing.push(format_args!(
            "<text class=\"fg-ink fg-strong\" x=\"8\" y=\"20\">{}</text>",
            escape(&self.title)
        ));
        drawing.push(format_args!(
            "<text class=\"fg-muted\" x=\"8\" y=\"40\">{}</text>",
            escape(&self.subtitle)
        ));
        drawing.push(format_args!(
            "<text class=\"fg-muted\" x=\"8\" y=\"62\">{}</text>",
            escape(&self.y.title(None))
        ));
        let labels = scale.ticks.iter().map(|(_, label)| text_width(label)).fold(0.0, f64::max) + 18.0;
        let left = labels / ROOMY;
        let top = 76.0;
        drawing.push(format_args!(
            "<svg x=\"{}\" y=\"{top}\" width=\"{}\" height=\"{:.0}\" overflow=\"visible\">",
            percent(left),
            percent(1.0 - left - RIGHT),
            PLOT + 2.0 * TEXT,
        ));
        draw_axes(&mut drawing, &scale, &places, 1.0 - left - RIGHT);
        for line in &self.lines {
            self.draw_line(&mut drawing, line, &scale, &places);
        }
        drawing.push(format_args!(
            "<text class=\"fg-muted fg-middle\" x=\"50%\" y=\"{:.0}\">{}</text>",
            PLOT + 2.0 * TEXT,
            escape(&self.x.title(places.spacing.note()))
        ));
        drawing.push(format_args!("</svg>"));
        drawing.height = top + PLOT + 2.0 * TEXT + 16.0;
        self.draw_legend(&mut drawing);
        Ok(drawing)
    }

    fn draw_line(&self, drawing: &mut Drawing, line: &Line, scale: &Scale, places: &Places) {
        let color = line.color.class();
        let at = |&(x, y): &(f64, f64)| (percent(places.position(x)), PLOT * (1.0 - scale.position(y)));
        for pair in line.points.windows(2) {
            let ((x1, y1), (x2, y2)) = (at(&pair[0]), at(&pair[1]));
            drawing.push(format_args!(
                "<line class=\"{color}\" x1=\"{x1}\" y1=\"{y1:.1}\" x2=\"{x2}\" y2=\"{y2:.1}\" stroke-width=\"2\"/>"
            ));
        }
        for point in &line.points {
            let (x, y) = at(point);
            drawing.push(format_args!(
                "<circle class=\"{color}\" cx=\"{x}\" cy=\"{y:.1}\" r=\"3.5\"><title>{}: {} at {}</title></circle>",
                escape(&line.label),
                self.written(point.1),
                point.0
            ));
        }
    }

    fn written(&self, value: f64) -> String {
        match self.format {
            ValueFormat::Percent => crate::numbers::signed_percent(value, 2),
            ValueFormat::Number => crate::numbers::float(value, 4),
        }
    }

    fn draw_legend(&self, drawing: &mut Drawing) {
        for line in self.lines.iter().filter(|line| !line.points.is_empty()) {
            let base = drawing.height + 14.0;
            drawing.push(format_args!(
                "<rect class=\"{}\" x=\"8\" y=\"{:.0}\" width=\"12\" height=\"12\"/>",
                line.color.class(),
                base - 11.0
            ));
            drawing.push(format_args!(
                "<text class=\"fg-ink\" x=\"28\" y=\"{base:.0}\">{}</text>",
                escape(&fitted(&line.label, 260.0))
            ));
            drawing.height += TEXT;
        }
        drawing.height += 8.0;
    }
}

/// `part` is the share of the chart's width that the plot takes.
fn draw_axes(drawing: &mut Drawing, scale: &Scale, places: &Places, part: f64) {
    for (value, label) in &scale.ticks {
        let y = PLOT * (1.0 - scale.position(*value));
        drawing
            .push(format_args!("<line class=\"fg-line\" x1=\"0\" x2=\"100%\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"));
        drawing.push(format_args!(
            "<text class=\"fg-muted fg-end\" x=\"-8\" y=\"{:.1}\">{}</text>",
            y + 4.5,
            escape(label)
        ));
    }
    for (place, level) in places.labels(part) {
        drawing.push(format_args!(
            "<text class=\"fg-muted fg-middle{}\" x=\"{}\" y=\"{:.0}\">{place}</text>",
            class_of(level),
            percent(places.position(place)),
            PLOT + 18.0
        ));
    }
}

/// Where values of the axis stand.
struct Places {
    /// The distinct places in increasing order.
    values: Vec<f64>,
    spacing: Spacing,
}

impl Places {
    fn of(lines: &[Line]) -> Self {
        let mut values: Vec<f64> =
            lines.iter().flat_map(|line| line.points.iter().map(|point| point.0)).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let spacing = Spacing::of(&values);
        Self { values, spacing }
    }

    /// The places that are labeled, each with the level from which on it has room next to those
    /// before it: both ends first, then round numbers before others. No two labels touch, on a
    /// chart of any width.
    fn labels(&self, part: f64) -> Vec<(f64, u32)> {
        let mut wanted = self.values.clone();
        // Stable: equally round places stay in order.
        wanted.sort_by_key(|place| {
            let end = self.values.first() == Some(place) || self.values.last() == Some(place);
            (!end, std::cmp::Reverse(roundness(*place)))
        });
        let half = |place: f64| text_width(&place.to_string()) / 2.0 + 5.0;
        let mut labels: Vec<(f64, u32)> = Vec::new();
        for level in 0..=LEVELS {
            let width = f64::from(width_of(level)) * part;
            wanted.retain(|&place| {
                let has_room = labels.iter().all(|&(other, _)| {
                    (self.position(place) - self.position(other)).abs() * width >= half(place) + half(other)
                });
                if has_room {
                    labels.push((place, level));
                }
                !has_room
            });
        }
        labels
    }

    /// From 0 to 1, with room next to the outermost; a lone place is in the middle.
    fn position(&self, place: f64) -> f64 {
        let [low, high] =
            [self.values[0], self.values[self.values.len() - 1]].map(|end| self.spacing.map(end));
        if low < high {
            INSET + (1.0 - 2.0 * INSET) * (self.spacing.map(place) - low) / (high - low)
        } else {
            0.5
        }
    }
}

/// How round a number is: the powers of ten that it is a multiple of, and whether of five of them.
fn roundness(place: f64) -> (isize, bool) {
    let written = place.to_string();
    let digits = written.trim_end_matches('0');
    // A number with a point has no zeros at its end.
    let decimals = written.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let power = (written.len() - digits.len()).cast_signed() - decimals.cast_signed();
    (power, digits.ends_with('5'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The steps of `field_loss.svg`. Before, labels lay over each other on wide charts, and spans
    /// of the axis had none.
    #[test]
    fn labels_of_places_never_touch_and_leave_no_gap() {
        let steps: Vec<(f64, f64)> =
            (0..=40).map(|n| (if n == 0 { 1.0 } else { f64::from(n) * 50.0 }, 0.0)).collect();
        let line = Line { label: String::new(), color: Color::nth(0), points: steps };
        let places = Places::of(&[line]);
        let part = 0.85;
        let labels = places.labels(part);
        for level in 0..=LEVELS {
            let width = f64::from(width_of(level)) * part;
            let mut shown: Vec<f64> =
                labels.iter().filter(|label| label.1 <= level).map(|label| label.0).collect();
            shown.sort_by(f64::total_cmp);
            assert_eq!((shown.first(), shown.last()), (Some(&1.0), Some(&2000.0)));
            for pair in shown.windows(2) {
                let apart = (places.position(pair[1]) - places.position(pair[0])) * width;
                let needed =
                    f64::midpoint(text_width(&pair[0].to_string()), text_width(&pair[1].to_string()));
                assert!(apart >= needed + 8.0, "{pair:?} at {width}");
                assert!(apart <= 160.0 || shown.len() == 41, "nothing between {pair:?} at {width}");
            }
        }
        let at =
            |level| labels.iter().filter(|label| label.1 <= level).map(|label| label.0).collect::<Vec<_>>();
        assert_eq!(at(0), [2000.0, 1.0, 1000.0, 500.0, 1500.0]);
    }

    fn chart(lines: &[&[(f64, f64)]]) -> Result<LineChart, ReportError> {
        let line = |(index, points): (usize, &&[(f64, f64)])| Line {
            label: format!("m<{index}"),
            color: Color::nth(index),
            points: points.to_vec(),
        };
        let lines = lines.iter().enumerate().map(line).collect();
        LineChart::new("t", AxisLabel::new("d"), AxisLabel::new("above theory"), lines)
    }

    #[test]
    fn marks_stand_at_their_values() {
        let svg = chart(&[&[(1.0, 0.0), (3.0, 6.0)], &[(2.0, 3.0)]]).unwrap().to_svg().unwrap();
        // Values 0 to 6 over the whole height, places 1 to 3 between the insets.
        for mark in ["cx=\"3%\" cy=\"280.0\"", "cx=\"97%\" cy=\"0.0\"", "cx=\"50%\" cy=\"140.0\""] {
            assert!(svg.contains(mark), "{mark} is not in {svg}");
        }
        assert_eq!(svg.matches("stroke-width=\"2\"").count(), 1);
        assert!(svg.contains(">m&lt;1</text>"));
    }

    #[test]
    fn one_point_and_equal_values_have_a_plot() {
        for lines in [&[&[(5.0, 0.0)][..]][..], &[&[(1.0, 2.0), (2.0, 2.0)], &[]]] {
            let svg = chart(lines).unwrap().to_svg().unwrap();
            assert!(svg.contains("cy=\"140.0\"") && !svg.contains("NaN"), "{svg}");
        }
    }

    #[test]
    fn what_cannot_be_drawn_is_refused() {
        let error = chart(&[&[(1.0, f64::NAN)]]).unwrap_err().to_string();
        assert_eq!(error, "plot `t`: line `m<0`: the point (1, NaN)");
        assert!(matches!(chart(&[&[]]), Err(ReportError::NothingToDraw { .. })));
        let wide = chart(&[&[(1.0, f64::MIN), (2.0, f64::MAX)]]).unwrap();
        assert!(matches!(wide.to_svg(), Err(ReportError::Drawing { .. })));
    }
}
