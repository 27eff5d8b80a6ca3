//! Lines over one axis, many small plots side by side.

use super::panel::{Panel, Series, legend};
use crate::ReportError;
use crate::axis::{Axis, AxisLabel};
use crate::field::distinct;
use crate::numbers::{ValueFormat, group_thousands};
use crate::scale::Scale;
use crate::svg::Across::Pixels;
use crate::svg::font::fit;
use crate::svg::picture::{HEADING, MARGIN, Picture};
use crate::svg::{Anchor, Svg, TEXT};

/// Small plots with common axes, which show what as many lines in one plot would hide.
///
/// Values stand on a [`Scale`] of all of them. A line breaks where a value is missing; the place
/// has a cross below, and the subtitle counts them.
///
/// ```
/// use flopgap_report::chart::{Color, Series, SmallMultiples};
/// use flopgap_report::axis::AxisLabel;
///
/// let line = Series::line("counted", Color::nth(0), vec![(128.0, 7.2), (384.0, 0.02)]);
/// let plots = vec![("m = 16".to_owned(), vec![Series { missing: vec![256.0], ..line }])];
/// let picture = SmallMultiples::new("Overhead", AxisLabel::new("width d"), AxisLabel::new("above theory"), plots)?;
/// assert!(picture.to_svg()?.contains("1 of 3 values missing (×)"));
/// # Ok::<(), flopgap_report::ReportError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct SmallMultiples {
    title: String,
    subtitle: String,
    x: AxisLabel,
    y: AxisLabel,
    format: ValueFormat,
    plots: Vec<(String, Vec<Series>)>,
}

/// Width of a picture, and plots next to each other.
const WIDTH: f64 = 1240.0;
const COLUMNS: usize = 4;
/// Height of a plot, of its name above and of the axis below.
const HEIGHT: f64 = 150.0;
const NAME: f64 = 22.0;
const BELOW: f64 = 44.0;
const GAP: f64 = 20.0;
/// Room for labels of values.
const LABELS: f64 = 66.0;

impl SmallMultiples {
    /// A picture of `plots`: of each, what distinguishes it, such as `m = 16`, and its lines, which
    /// are joined by their places. Lines of several plots with the same label are one entry of the
    /// legend.
    ///
    /// # Errors
    /// [`ReportError::InvalidPlot`] for a place or value that is not finite,
    /// [`ReportError::NothingToDraw`] without any value.
    pub fn new(
        title: impl Into<String>,
        x: AxisLabel,
        y: AxisLabel,
        mut plots: Vec<(String, Vec<Series>)>,
    ) -> Result<Self, ReportError> {
        let title = title.into();
        for series in plots.iter_mut().flat_map(|(_, series)| series) {
            series.points.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        super::check_points(&title, plots.iter().flat_map(|(_, series)| series))?;
        Ok(Self { title, subtitle: String::new(), x, y, format: ValueFormat::Number, plots })
    }

    /// The picture with a second line under its title.
    #[must_use]
    pub fn subtitle(mut self, subtitle: impl Into<String>) -> Self {
        self.subtitle = subtitle.into();
        self
    }

    /// The picture with values written as `format` says.
    #[must_use]
    pub fn format(mut self, format: ValueFormat) -> Self {
        self.format = format;
        self
    }

    /// The picture as an SVG document of 1,240 pixels of width.
    ///
    /// # Errors
    /// [`ReportError::InvalidPlot`] when the plots take more than 4,000 pixels of height, or no
    /// axis holds the values.
    pub fn to_svg(&self) -> Result<String, ReportError> {
        let points = || self.series().flat_map(|series| &series.points);
        let y = Scale::of(points().map(|point| point.1), self.format).ok_or_else(|| {
            ReportError::InvalidPlot {
                title: self.title.clone(),
                reason: "no axis can hold the values".to_owned(),
            }
        })?;
        let missing = || self.series().flat_map(|series| &series.missing);
        let places = distinct(points().map(|point| point.0).chain(missing().copied()));
        let mut notes: Vec<String> =
            Some(self.subtitle.clone()).filter(|text| !text.is_empty()).into_iter().collect();
        if missing().next().is_some() {
            let [missing, all] = [missing().count(), missing().count() + points().count()]
                .map(|count| group_thousands(count as u64));
            notes.push(format!("{missing} of {all} values missing (×)"));
        }
        // Drawn once to see how high it is.
        let mut legends = Svg::default();
        legend(&mut legends, self.series(), &[]);
        let top = HEADING + 24.0 + legends.height;
        let lines = self.plots.len().div_ceil(COLUMNS) as f64;
        let picture = Picture {
            title: &self.title,
            subtitle: notes.join(" · "),
            width: WIDTH,
            height: top + lines * (NAME + HEIGHT + BELOW) + 12.0,
        };
        let axis = Axis::new(self.x.clone(), places);
        picture.to_svg(|svg| self.draw(svg, &axis, &y, top))
    }

    fn series(&self) -> impl Iterator<Item = &Series> {
        self.plots.iter().flat_map(|(_, series)| series)
    }

    fn draw(&self, svg: &mut Svg, axis: &Axis, y: &Scale, top: f64) {
        let title = self.y.title(y.note());
        svg.text("fg-ink", &title, (Pixels(MARGIN), HEADING + 8.0), TEXT + 1.0, Anchor::Start);
        svg.height = HEADING + 20.0;
        svg.within(Pixels(MARGIN - 8.0), 0.0, Pixels(WIDTH), |svg| legend(svg, self.series(), &[]));
        let x = &axis.scale.clone().inset(0.04);
        let width = (WIDTH - 2.0 * MARGIN - LABELS + GAP) / COLUMNS as f64 - GAP;
        for (index, (name, series)) in self.plots.iter().enumerate() {
            let (line, column) = (index / COLUMNS, index % COLUMNS);
            let left = MARGIN + LABELS + column as f64 * (width + GAP);
            let panel = Panel {
                x,
                y,
                title: axis.title(),
                height: HEIGHT,
                size: TEXT,
                labels_values: column == 0,
                format: self.format,
                series,
                guides: &[],
            };
            let top = top + line as f64 * (NAME + HEIGHT + BELOW) + NAME;
            svg.within(Pixels(left), top, Pixels(width), |svg| {
                let (name, size) = fit(name, TEXT + 1.0, 9.0, width);
                svg.text("fg-ink", &name, (Pixels(width / 2.0), -NAME / 2.0), size, Anchor::Middle);
                panel.draw(svg, 1.0);
            });
        }
    }
}
