//! Points over two axes, with lines to judge them by.

use super::Color;
use super::svg::{Drawing, class_of, escape, fitted, percent, text_width};
use super::widths::{LEVELS, width_of};
use crate::ReportError;
use crate::numbers::ValueFormat;
use crate::scale::Scale;
use crate::surface::AxisLabel;

/// Groups of points over two axes, and guide lines behind them. An axis is logarithmic where its
/// values span a factor of ten or more.
///
/// ```
/// use flopgap_report::chart::{Color, Guide, PointGroup, ScatterChart};
/// use flopgap_report::surface::AxisLabel;
///
/// let points = vec![(10.0, 11.0), (100.0, 95.0), (1000.0, 1040.0)];
/// let group = PointGroup { label: "fp16".to_owned(), color: Color::nth(0), points, joined: false };
/// let [x, y] = ["measured", "predicted"].map(|name| AxisLabel::new(name).unit("µs"));
/// let chart = ScatterChart::new("Predicted against measured", x, y, vec![group])?
///     .same_scale()
///     .guides(vec![Guide { label: "equal".to_owned(), points: vec![(1.0, 1.0), (1e4, 1e4)], dashed: false, named: false }]);
/// assert!(chart.to_svg()?.starts_with("<svg "));
/// # Ok::<(), flopgap_report::ReportError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ScatterChart {
    title: String,
    subtitle: String,
    file: String,
    x: AxisLabel,
    y: AxisLabel,
    groups: Vec<PointGroup>,
    guides: Vec<Guide>,
    same_scale: bool,
    linear: bool,
    reaching: Vec<(f64, f64)>,
    formats: [ValueFormat; 2],
}

/// Points of one color.
#[derive(Debug, Clone, PartialEq)]
pub struct PointGroup {
    /// Its name in the legend.
    pub label: String,
    /// Its color.
    pub color: Color,
    /// Where the points are.
    pub points: Vec<(f64, f64)>,
    /// Whether each point is joined to the next.
    pub joined: bool,
}

/// A line behind the points, drawn as far as the points reach.
#[derive(Debug, Clone, PartialEq)]
pub struct Guide {
    /// Its name in the legend; guides without one are not in it.
    pub label: String,
    /// Where it bends. It is straight on the axes in between: on logarithmic ones, a power law.
    pub points: Vec<(f64, f64)>,
    /// Whether it is dashed.
    pub dashed: bool,
    /// Whether its name stands in the plot, next to it, and not in the legend.
    pub named: bool,
}

/// Height of the plot and of a line of text, in pixels.
const PLOT: f64 = 360.0;
const TEXT: f64 = 20.0;
/// Part of the width to the right of the plot.
const RIGHT: f64 = 0.03;
/// The width in pixels from which on there is room for the labels of the values.
const ROOMY: f64 = 500.0;
/// Radius of a point when there are few, and when there are many.
const RADIUS: [f64; 2] = [3.0, 1.8];
const MANY: usize = 400;

impl ScatterChart {
    /// A chart of `groups`, some of which may be empty.
    ///
    /// # Errors
    /// [`ReportError::InvalidPlot`] for a point that is not finite, [`ReportError::NothingToDraw`]
    /// without any point.
    pub fn new(
        title: impl Into<String>,
        x: AxisLabel,
        y: AxisLabel,
        groups: Vec<PointGroup>,
    ) -> Result<Self, ReportError> {
        let title = title.into();
        super::check_points(&title, "group", groups.iter().map(|group| (&*group.label, &*group.points)))?;
        let formats = [ValueFormat::Number; 2];
        let (subtitle, file) = (String::new(), String::new());
        Ok(Self {
            title,
            subtitle,
            file,
            x,
            y,
            groups,
            guides: Vec::new(),
            same_scale: false,
            linear: false,
            reaching: Vec::new(),
            formats,
        })
    }

    /// A second line of heading, such as where the values come from.
    #[must_use]
    pub fn subtitle(mut self, subtitle: impl Into<String>) -> Self {
        self.subtitle = subtitle.into();
        self
    }

    /// The name of the file that the caller writes the chart to, next to a page in Markdown, which
    /// then shows it.
    #[must_use]
    pub fn file(mut self, file: impl Into<String>) -> Self {
        self.file = file.into();
        self
    }

    /// Lines behind the points.
    #[must_use]
    pub fn guides(mut self, guides: Vec<Guide>) -> Self {
        self.guides = guides;
        self
    }

    /// Both axes have the range of all values of both.
    #[must_use]
    pub fn same_scale(mut self) -> Self {
        self.same_scale = true;
        self
    }

    /// Values stand at their true distance, also where they span a factor of ten.
    #[must_use]
    pub fn linear(mut self) -> Self {
        self.linear = true;
        self
    }

    /// Places that the axes hold as well as the points: where guides are to be seen.
    #[must_use]
    pub fn reaching(mut self, places: Vec<(f64, f64)>) -> Self {
        self.reaching = places;
        self
    }

    /// How places and values are written; plain numbers unless set.
    #[must_use]
    pub fn formats(mut self, x: ValueFormat, y: ValueFormat) -> Self {
        self.formats = [x, y];
        self
    }

    /// The title.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The name of the chart's file next to a page in Markdown; empty without one.
    pub fn file_name(&self) -> &str {
        &self.file
    }

    /// The chart as an SVG document.
    ///
    /// # Errors
    /// [`ReportError::Drawing`] when the values span more than an axis can show.
    pub fn to_svg(&self) -> Result<String, ReportError> {
        Ok(self.draw(true)?.for_file())
    }

    /// The chart within a page that has the charts' style, below a caption of its title.
    pub(crate) fn to_page(&self) -> Result<String, ReportError> {
        Ok(self.draw(false)?.for_page())
    }

    fn scales(&self) -> Result<[Scale; 2], ReportError> {
        let points = || self.groups.iter().flat_map(|group| &group.points).chain(&self.reaching);
        let [x, y]: [Vec<f64>; 2] =
            [points().map(|point| point.0).collect(), points().map(|point| point.1).collect()];
        let [x, y] = if self.same_scale {
            let all = [x, y].concat();
            [all.clone(), all]
        } else {
            [x, y]
        };
        let scale = |values: Vec<f64>, format, linear: bool| {
            let (least, most) =
                values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), &value| {
                    (value.min(least), value.max(most))
                });
            let scale = if linear { Scale::linear(least, most, format) } else { Scale::of(values, format) };
            scale.ok_or_else(|| ReportError::Drawing {
                title: self.title.clone(),
                reason: format!("no axis holds {least} to {most}"),
            })
        };
        Ok([scale(x, self.formats[0], false)?, scale(y, self.formats[1], self.linear)?])
    }

    fn draw(&self, titled: bool) -> Result<Drawing, ReportError> {
        let [across, up] = self.scales()?;
        let mut drawing = Drawing::new(&self.title);
        drawing.push(format_args!("<rect width=\"100%\" height=\"100%\" style=\"fill:var(--fg-paper)\"/>"));
        let headings = [
            ("fg-ink fg-strong", if titled { self.title.as_str() } else { "" }),
            ("fg-muted", self.subtitle.as_str()),
            ("fg-muted", &self.y.title(up.spacing().note())),
        ];
        let mut top = 0.0;
        for (class, text) in headings.into_iter().filter(|(_, text)| !text.is_empty()) {
            top += TEXT;
            drawing
                .push(format_args!("<text class=\"{class}\" x=\"8\" y=\"{top:.0}\">{}</text>", escape(text)));
        }
        top += 14.0;
        let labels = up.ticks().iter().map(|(_, label)| text_width(label)).fold(0.0, f64::max) + 18.0;
        let left = labels / ROOMY;
        let part = 1.0 - left - RIGHT;
        drawing.push(format_args!(
            "<svg x=\"{}\" y=\"{top}\" width=\"{}\" height=\"{:.0}\" overflow=\"visible\">",
            percent(left),
            percent(part),
            PLOT + 2.0 * TEXT,
        ));
        draw_axes(&mut drawing, &across, &up, part);
        for guide in &self.guides {
            draw_guide(&mut drawing, guide, &across, &up);
        }
        let count: usize = self.groups.iter().map(|group| group.points.len()).sum();
        let radius = RADIUS[usize::from(count > MANY)];
        for group in &self.groups {
            draw_group(&mut drawing, group, &across, &up, radius);
        }
        drawing.push(format_args!(
            "<text class=\"fg-muted fg-middle\" x=\"50%\" y=\"{:.0}\">{}</text>",
            PLOT + 2.0 * TEXT,
            escape(&self.x.title(across.spacing().note()))
        ));
        drawing.push(format_args!("</svg>"));
        drawing.height = top + PLOT + 2.0 * TEXT + 16.0;
        self.draw_legend(&mut drawing);
        Ok(drawing)
    }

    fn draw_legend(&self, drawing: &mut Drawing) {
        let groups = self.groups.iter().filter(|group| !group.points.is_empty() && !group.label.is_empty());
        for group in groups {
            let base = drawing.height + 14.0;
            drawing.push(format_args!(
                "<rect class=\"{}\" x=\"8\" y=\"{:.0}\" width=\"12\" height=\"12\"/>",
                group.color.class(),
                base - 11.0
            ));
            legend_text(drawing, base, &group.label);
        }
        for guide in self.guides.iter().filter(|guide| !guide.named && !guide.label.is_empty()) {
            let base = drawing.height + 14.0;
            drawing.push(format_args!(
                "<line class=\"fg-guide{}\" x1=\"6\" x2=\"22\" y1=\"{y:.0}\" y2=\"{y:.0}\"/>",
                dashed(guide),
                y = base - 5.0
            ));
            legend_text(drawing, base, &guide.label);
        }
        drawing.height += 8.0;
    }
}

fn legend_text(drawing: &mut Drawing, base: f64, label: &str) {
    drawing.push(format_args!(
        "<text class=\"fg-ink\" x=\"28\" y=\"{base:.0}\">{}</text>",
        escape(&fitted(label, 260.0))
    ));
    drawing.height += TEXT;
}

fn dashed(guide: &Guide) -> &'static str {
    if guide.dashed { " fg-dashed" } else { "" }
}

fn draw_group(drawing: &mut Drawing, group: &PointGroup, across: &Scale, up: &Scale, radius: f64) {
    let color = group.color.class();
    let at = |&(x, y): &(f64, f64)| (percent(across.position(x)), PLOT * (1.0 - up.position(y)));
    if group.joined {
        for pair in group.points.windows(2) {
            let ((x1, y1), (x2, y2)) = (at(&pair[0]), at(&pair[1]));
            drawing.push(format_args!(
                "<line class=\"{color}\" x1=\"{x1}\" y1=\"{y1:.1}\" x2=\"{x2}\" y2=\"{y2:.1}\" stroke-width=\"2\"/>"
            ));
        }
    }
    for point in &group.points {
        let (x, y) = at(point);
        drawing
            .push(format_args!("<circle class=\"{color} fg-dot\" cx=\"{x}\" cy=\"{y:.1}\" r=\"{radius}\"/>"));
    }
}

fn draw_guide(drawing: &mut Drawing, guide: &Guide, across: &Scale, up: &Scale) {
    let at = |&(x, y): &(f64, f64)| [across.unclamped(x), up.unclamped(y)];
    for (index, pair) in guide.points.windows(2).enumerate() {
        if let Some([[x1, y1], [x2, y2]]) = clipped(at(&pair[0]), at(&pair[1])) {
            if index == 0 && guide.named {
                // Level lines have their names at the right, others where they begin.
                let level = (y1 - y2).abs() < 0.01;
                let (class, x, y) = if level { (" fg-end", x2, y2) } else { ("", x1 + 0.01, y1 + 0.01) };
                drawing.push(format_args!(
                    "<text class=\"fg-muted{class}\" x=\"{}\" y=\"{:.1}\">{}</text>",
                    percent(x),
                    PLOT * (1.0 - y) - 4.0,
                    escape(&guide.label)
                ));
            }
            drawing.push(format_args!(
                "<line class=\"fg-guide{}\" x1=\"{}\" y1=\"{:.1}\" x2=\"{}\" y2=\"{:.1}\"/>",
                dashed(guide),
                percent(x1),
                PLOT * (1.0 - y1),
                percent(x2),
                PLOT * (1.0 - y2)
            ));
        }
    }
}

/// The piece of a line that lies within the unit square, by the algorithm of Liang and Barsky.
/// `None` where none does, or an end has no place on a logarithmic axis.
fn clipped(from: [f64; 2], to: [f64; 2]) -> Option<[[f64; 2]; 2]> {
    if from.iter().chain(&to).any(|place| !place.is_finite()) {
        return None;
    }
    let step = [to[0] - from[0], to[1] - from[1]];
    let (mut enters, mut leaves) = (0.0_f64, 1.0_f64);
    for axis in 0..2 {
        for (slope, room) in [(-step[axis], from[axis]), (step[axis], 1.0 - from[axis])] {
            if slope < 0.0 {
                enters = enters.max(room / slope);
            } else if slope > 0.0 {
                leaves = leaves.min(room / slope);
            } else if room < 0.0 {
                return None;
            }
        }
    }
    let at = |share: f64| [from[0] + share * step[0], from[1] + share * step[1]];
    (enters < leaves).then(|| [at(enters), at(leaves)])
}

/// `part` is the share of the chart's width that the plot takes.
fn draw_axes(drawing: &mut Drawing, across: &Scale, up: &Scale, part: f64) {
    for (value, label) in up.ticks() {
        let y = PLOT * (1.0 - up.position(*value));
        drawing
            .push(format_args!("<line class=\"fg-line\" x1=\"0\" x2=\"100%\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"));
        drawing.push(format_args!(
            "<text class=\"fg-muted fg-end\" x=\"-8\" y=\"{:.1}\">{}</text>",
            y + 4.5,
            escape(label)
        ));
    }
    for (value, _) in across.ticks() {
        let x = percent(across.position(*value));
        drawing.push(format_args!("<line class=\"fg-line\" x1=\"{x}\" x2=\"{x}\" y1=\"0\" y2=\"{PLOT}\"/>"));
    }
    for (place, label, level) in labels(across, part) {
        drawing.push(format_args!(
            "<text class=\"fg-muted fg-middle{}\" x=\"{}\" y=\"{:.0}\">{}</text>",
            class_of(level),
            percent(place),
            PLOT + 18.0,
            escape(label)
        ));
    }
}

/// The labels below the plot with their places, each with the level from which on it has room next
/// to those before it.
fn labels(scale: &Scale, part: f64) -> Vec<(f64, &str, u32)> {
    let mut wanted: Vec<(f64, &str)> =
        scale.ticks().iter().map(|(value, label)| (scale.position(*value), label.as_str())).collect();
    let mut labels: Vec<(f64, &str, u32)> = Vec::new();
    for level in 0..=LEVELS {
        let width = f64::from(width_of(level)) * part;
        wanted.retain(|&(place, label)| {
            let half = |text: &str| text_width(text) / 2.0 + 5.0;
            let has_room = labels
                .iter()
                .all(|&(other, text, _)| (place - other).abs() * width >= half(label) + half(text));
            if has_room {
                labels.push((place, label, level));
            }
            !has_room
        });
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: &[(f64, f64)]) -> Result<ScatterChart, ReportError> {
        let group = PointGroup {
            label: "a<b".to_owned(),
            color: Color::nth(0),
            points: points.to_vec(),
            joined: false,
        };
        ScatterChart::new("t", AxisLabel::new("x"), AxisLabel::new("y"), vec![group])
    }

    fn guide(points: &[(f64, f64)]) -> Guide {
        Guide { label: "equal".to_owned(), points: points.to_vec(), dashed: true, named: false }
    }

    #[test]
    fn points_stand_at_their_values_on_logarithmic_axes() {
        let svg = chart(&[(1.0, 1.0), (100.0, 10.0), (10_000.0, 10_000.0)]).unwrap().to_svg().unwrap();
        for mark in ["cx=\"0%\" cy=\"360.0\"", "cx=\"50%\" cy=\"270.0\"", "cx=\"100%\" cy=\"0.0\""] {
            assert!(svg.contains(mark), "{mark} is not in {svg}");
        }
        assert!(svg.contains("x (log scale)") && svg.contains(">a&lt;b</text>"), "{svg}");
    }

    #[test]
    fn both_axes_share_a_scale_if_asked() {
        let points = [(1.0, 100.0), (10.0, 1000.0)];
        let [x, y] = chart(&points).unwrap().same_scale().scales().unwrap();
        assert_eq!((x.low, x.high), (y.low, y.high));
        let [x, y] = chart(&points).unwrap().scales().unwrap();
        assert!(x.high < y.high);
    }

    #[test]
    fn axes_reach_what_they_are_asked_to_and_stay_linear_if_asked() {
        let points = [(1.0, 0.1), (100.0, 5.0)];
        let [_, y] = chart(&points).unwrap().linear().scales().unwrap();
        assert_eq!(y.spacing(), crate::scale::ValueSpacing::Linear);
        let [x, y] = chart(&points).unwrap().reaching(vec![(1e4, 1e3)]).scales().unwrap();
        assert!(x.high >= 1e4 && y.high >= 1e3);
    }

    #[test]
    fn a_guide_can_have_its_name_in_the_plot() {
        let named = Guide { named: true, ..guide(&[(1.0, 10.0), (1000.0, 10.0)]) };
        let svg = chart(&[(1.0, 1.0), (1000.0, 1000.0)]).unwrap().guides(vec![named]).to_svg().unwrap();
        assert!(svg.contains("fg-end\" x=\"100%\" y=\"236.0\">equal</text>"), "{svg}");
        assert_eq!(svg.matches("equal").count(), 1);
    }

    #[test]
    fn guides_end_where_the_points_do() {
        let near = |line: Option<[[f64; 2]; 2]>, expected: [[f64; 2]; 2]| {
            for (place, wanted) in line.unwrap().iter().flatten().zip(expected.iter().flatten()) {
                assert!((place - wanted).abs() < 1e-12, "{line:?}");
            }
        };
        near(clipped([-1.0, -1.0], [2.0, 2.0]), [[0.0, 0.0], [1.0, 1.0]]);
        near(clipped([0.5, 0.5], [0.5, 3.0]), [[0.5, 0.5], [0.5, 1.0]]);
        assert_eq!(clipped([2.0, 0.0], [3.0, 1.0]), None);
        assert_eq!(clipped([f64::NEG_INFINITY, 0.0], [1.0, 1.0]), None);

        let chart = chart(&[(1.0, 1.0), (1000.0, 1000.0)]).unwrap();
        let svg = chart.guides(vec![guide(&[(0.001, 0.001), (1e6, 1e6)])]).to_svg().unwrap();
        assert!(svg.contains("fg-dashed\" x1=\"0%\" y1=\"360.0\" x2=\"100%\" y2=\"0.0\""), "{svg}");
    }

    #[test]
    fn what_cannot_be_drawn_is_refused() {
        let error = chart(&[(1.0, f64::NAN)]).unwrap_err().to_string();
        assert_eq!(error, "plot `t`: group `a<b`: the point (1, NaN)");
        assert!(matches!(chart(&[]), Err(ReportError::NothingToDraw { .. })));
    }

    #[test]
    fn labels_below_the_plot_never_touch() {
        let scale = Scale::of([1.0, 2e6], ValueFormat::Number).unwrap();
        let labels = labels(&scale, 0.85);
        assert_eq!(labels.len(), scale.ticks().len());
        for level in 0..=LEVELS {
            let width = f64::from(width_of(level)) * 0.85;
            let mut shown: Vec<_> = labels.iter().filter(|label| label.2 <= level).collect();
            shown.sort_by(|a, b| a.0.total_cmp(&b.0));
            for pair in shown.windows(2) {
                let needed = f64::midpoint(text_width(pair[0].1), text_width(pair[1].1));
                assert!((pair[1].0 - pair[0].0) * width >= needed + 8.0, "{pair:?} at {width}");
            }
        }
    }
}
