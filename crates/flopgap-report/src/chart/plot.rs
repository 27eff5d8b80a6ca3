//! Lines and points over two axes.

use super::panel::{Guide, Panel, Series, legend};
use crate::ReportError;
use crate::axis::AxisLabel;
use crate::field::distinct;
use crate::numbers::ValueFormat;
use crate::scale::Scale;
use crate::svg::Across::{Pixels, Share};
use crate::svg::{Anchor, Svg, TEXT};
use crate::text::escape;

/// Series of points over two axes, joined or not, and guide lines behind them. An axis is
/// logarithmic where its values span a factor of ten or more.
///
/// ```
/// use flopgap_report::chart::{Color, Guide, Plot, Series};
/// use flopgap_report::axis::AxisLabel;
///
/// let points = vec![(10.0, 11.0), (100.0, 95.0), (1000.0, 1040.0)];
/// let series = Series::points("fp16", Color::nth(0), points);
/// let [x, y] = ["measured", "predicted"].map(|name| AxisLabel::new(name).unit("µs"));
/// let plot = Plot::new("Predicted against measured", x, y, vec![series])?
///     .same_scale()
///     .guides(vec![Guide { label: "equal".to_owned(), points: vec![(1.0, 1.0), (1e4, 1e4)], dashed: false, named: false }]);
/// assert!(plot.to_svg()?.starts_with("<svg "));
/// # Ok::<(), flopgap_report::ReportError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Plot {
    title: String,
    subtitle: String,
    file: String,
    x: AxisLabel,
    y: AxisLabel,
    series: Vec<Series>,
    guides: Vec<Guide>,
    ticks_at_points: bool,
    same_scale: bool,
    linear: bool,
    reaching: Vec<(f64, f64)>,
    format: ValueFormat,
}

/// Height of the plot and of a line of text, in pixels.
const HEIGHT: f64 = 340.0;
const LINE: f64 = 20.0;
/// Part of the width to the right of the plot.
const RIGHT: f64 = 0.03;
/// The width in pixels from which on there is room for the labels of the values. (Not every viewer
/// adds pixels to percentages.)
const ROOMY: f64 = 500.0;

impl Plot {
    /// A plot of `series`, some of which may be empty.
    ///
    /// # Errors
    /// [`ReportError::InvalidPlot`] for a point that is not finite, [`ReportError::NothingToDraw`]
    /// without any point.
    pub fn new(
        title: impl Into<String>,
        x: AxisLabel,
        y: AxisLabel,
        series: Vec<Series>,
    ) -> Result<Self, ReportError> {
        let title = title.into();
        super::check_points(&title, &series)?;
        Ok(Self {
            title,
            subtitle: String::new(),
            file: String::new(),
            x,
            y,
            series,
            guides: Vec::new(),
            ticks_at_points: false,
            same_scale: false,
            linear: false,
            reaching: Vec::new(),
            format: ValueFormat::Number,
        })
    }

    /// A second line of heading, such as where the values come from.
    #[must_use]
    pub fn subtitle(mut self, subtitle: impl Into<String>) -> Self {
        self.subtitle = subtitle.into();
        self
    }

    /// The name of the file that the caller writes the plot to, next to a page in Markdown, which
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

    /// The axis across has its ticks where points are, such as at sizes that were measured.
    #[must_use]
    pub fn ticks_at_points(mut self) -> Self {
        self.ticks_at_points = true;
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

    /// How values are written; plain numbers unless set.
    #[must_use]
    pub fn format(mut self, format: ValueFormat) -> Self {
        self.format = format;
        self
    }

    /// The title.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The name of the plot's file next to a page in Markdown; empty without one.
    pub fn file_name(&self) -> &str {
        &self.file
    }

    /// The plot as an SVG document that fills any width.
    ///
    /// # Errors
    /// [`ReportError::Drawing`] when the values span more than an axis can show.
    pub fn to_svg(&self) -> Result<String, ReportError> {
        Ok(self.draw(true)?.for_file(&self.title))
    }

    /// The plot within a page that has the charts' style, below a caption of its title.
    pub(crate) fn to_page(&self) -> Result<String, ReportError> {
        Ok(self.draw(false)?.for_page(&format!("role=\"img\" aria-label=\"{}\"", escape(&self.title))))
    }

    fn scales(&self) -> Result<[Scale; 2], ReportError> {
        let points = || self.series.iter().flat_map(|series| &series.points).chain(&self.reaching);
        let mut x: Vec<f64> = points().map(|point| point.0).collect();
        let mut y: Vec<f64> = points().map(|point| point.1).collect();
        if self.same_scale {
            x.extend(&y);
            y.clone_from(&x);
        }
        let scale = |values: Vec<f64>, format, linear: bool| {
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let scale = if linear { Scale::linear(least, most, format) } else { Scale::of(values, format) };
            scale.ok_or_else(|| ReportError::Drawing {
                title: self.title.clone(),
                reason: format!("no axis holds {least} to {most}"),
            })
        };
        let x = if self.ticks_at_points {
            Scale::of_places(&distinct(x.into_iter())).inset(0.03)
        } else {
            scale(x, ValueFormat::Number, false)?
        };
        Ok([x, scale(y, self.format, self.linear)?])
    }

    fn draw(&self, titled: bool) -> Result<Svg, ReportError> {
        let [x, y] = self.scales()?;
        let mut svg = Svg::default();
        svg.rect("fg-paper", (Share(0.0), 0.0), (Share(1.0), 10_000.0));
        let headings = [
            ("fg-ink fg-strong", if titled { self.title.as_str() } else { "" }),
            ("fg-muted", self.subtitle.as_str()),
            ("fg-muted", &self.y.title(y.note())),
        ];
        for (class, text) in headings.into_iter().filter(|(_, text)| !text.is_empty()) {
            svg.height += LINE;
            svg.text(class, text, (Pixels(8.0), svg.height - 5.0), TEXT, Anchor::Start);
        }
        svg.height += 14.0;
        let left = (y.label_width(TEXT) + 16.0) / ROOMY;
        let width = 1.0 - left - RIGHT;
        let panel = Panel {
            title: self.x.title(x.note()),
            x: &x,
            y: &y,
            height: HEIGHT,
            size: TEXT,
            labels_values: true,
            format: self.format,
            series: &self.series,
            guides: &self.guides,
        };
        svg.within(Share(left), svg.height, Share(width), |svg| panel.draw(svg, width));
        svg.height += HEIGHT + Panel::below(TEXT) + 12.0;
        legend(&mut svg, self.series.iter(), &self.guides);
        Ok(svg)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::Color;

    fn plot(series: &[&[(f64, f64)]]) -> Result<Plot, ReportError> {
        let series = series.iter().enumerate();
        let series = series
            .map(|(index, points)| Series::points(format!("m<{index}"), Color::nth(index), points.to_vec()));
        Plot::new("t", AxisLabel::new("x"), AxisLabel::new("y"), series.collect())
    }

    fn guide(points: &[(f64, f64)], named: bool) -> Guide {
        Guide { label: "equal".to_owned(), points: points.to_vec(), dashed: true, named }
    }

    #[test]
    fn points_stand_at_their_values() {
        let wide = plot(&[&[(1.0, 1.0), (100.0, 10.0), (10_000.0, 10_000.0)]]).unwrap();
        // Places 1 to 3 between the insets.
        let places = plot(&[&[(1.0, 0.0), (3.0, 6.0)], &[(2.0, 3.0)]]).unwrap().ticks_at_points().linear();
        let alone = plot(&[&[(5.0, 0.0)], &[]]).unwrap().ticks_at_points().linear();
        for (plot, marks) in [
            (
                wide,
                &["cx=\"0%\" cy=\"340\"", "cx=\"50%\" cy=\"255\"", "cx=\"100%\" cy=\"0\"", "x (log scale)"][..],
            ),
            (
                places,
                &["cx=\"3%\" cy=\"340\"", "cx=\"97%\" cy=\"0\"", "cx=\"50%\" cy=\"170\"", ">m&lt;1</text>"],
            ),
            (alone, &["cx=\"50%\" cy=\"170\""]),
        ] {
            let svg = plot.to_svg().unwrap();
            for mark in marks {
                assert!(svg.contains(mark), "{mark} is not in {svg}");
            }
            assert!(!svg.contains("NaN"));
        }
    }

    #[test]
    fn a_line_breaks_where_a_value_is_missing() {
        let points = vec![(1.0, 1.0), (2.0, 1.5), (4.0, 2.0)];
        let lines = |missing: &[f64]| {
            let series =
                Series { missing: missing.to_vec(), ..Series::line("", Color::nth(0), points.clone()) };
            let svg = Plot::new("t", AxisLabel::new("x"), AxisLabel::new("y"), vec![series]).unwrap();
            let svg = svg.to_svg().unwrap();
            [svg.matches("fg-c0 fg-series\"").count(), svg.matches("class=\"fg-missing\"").count()]
        };
        assert_eq!([lines(&[]), lines(&[3.0])], [[2, 0], [1, 2]]);
    }

    #[test]
    fn axes_share_a_scale_and_reach_farther_if_asked() {
        let points = &[(1.0, 100.0), (10.0, 1000.0)];
        let scales = |plot: Plot| plot.scales().unwrap();
        let [x, y] = scales(plot(&[points]).unwrap().same_scale());
        assert_eq!((x.low, x.high), (y.low, y.high));
        let [x, y] = scales(plot(&[points]).unwrap());
        assert!(x.high < y.high && y.is_logarithmic());
        assert!(!scales(plot(&[points]).unwrap().linear())[1].is_logarithmic());
        let [x, y] = scales(plot(&[points]).unwrap().reaching(vec![(1e4, 1e5)]));
        assert!(x.high >= 1e4 && y.high >= 1e5);
    }

    #[test]
    fn guides_end_where_the_points_do_and_are_named_once() {
        let plot = plot(&[&[(1.0, 1.0), (1000.0, 1000.0)]]).unwrap();
        let svg = |guide| plot.clone().guides(vec![guide]).to_svg().unwrap();
        let across = svg(guide(&[(0.001, 0.001), (1e6, 1e6)], false));
        assert!(across.contains("fg-dashed\" x1=\"0%\" y1=\"340\" x2=\"100%\" y2=\"0\""), "{across}");
        let level = svg(guide(&[(1.0, 10.0), (1000.0, 10.0)], true));
        assert!(level.contains("x=\"100%\" y=\"222.35\" text-anchor=\"end\">equal</text>"), "{level}");
        assert_eq!([across, level].map(|svg| svg.matches("equal").count()), [1, 1]);
    }

    #[test]
    fn what_cannot_be_drawn_is_refused() {
        let error = plot(&[&[(1.0, f64::NAN)]]).unwrap_err().to_string();
        assert_eq!(error, "plot `t`: series `m<0`: the point (1, NaN)");
        assert!(matches!(plot(&[&[]]), Err(ReportError::NothingToDraw { .. })));
        let wide = plot(&[&[(1.0, f64::MIN), (2.0, f64::MAX)]]).unwrap();
        assert!(matches!(wide.to_svg(), Err(ReportError::Drawing { .. })));
    }
}
