//! Lines over one axis, many small plots side by side.

mod paint;

use crate::ReportError;
use crate::chart::Color;
use crate::field::Points;
use crate::numbers::{self, ValueFormat};
use crate::picture::{self, Size};
use crate::scale::Scale;
use crate::surface::AxisLabel;

use paint::Painted;

/// Width of a picture in pixels that shows four plots side by side.
pub const WIDTH: u32 = 1240;

/// One of several [`SmallMultiples`].
#[derive(Debug, Clone, PartialEq)]
pub struct Plot {
    /// What distinguishes it from the others, such as `m = 16`.
    pub name: String,
    /// Its lines; lines of several plots with the same label are one entry of the legend.
    pub lines: Vec<PlotLine>,
}

/// A line of a [`Plot`].
#[derive(Debug, Clone, PartialEq)]
pub struct PlotLine {
    /// What it shows.
    pub label: String,
    /// Its color.
    pub color: Color,
    /// Places and values in any order; `None` stands for what was planned and not measured.
    pub points: Vec<(f64, Option<f64>)>,
}

/// Small plots with common axes, which show what as many lines in one plot would hide.
///
/// Values stand on a [`Scale`] of all of them. A line breaks where a value is missing; the place
/// has a cross below, and the subtitle counts them.
///
/// ```
/// use flopgap_report::chart::Color;
/// use flopgap_report::multiples::{Plot, PlotLine, SmallMultiples, WIDTH};
/// use flopgap_report::surface::AxisLabel;
///
/// let points = vec![(128.0, Some(7.2)), (256.0, None), (384.0, Some(0.02))];
/// let line = PlotLine { label: "counted".to_owned(), color: Color::nth(0), points };
/// let plots = vec![Plot { name: "m = 16".to_owned(), lines: vec![line] }];
/// let picture = SmallMultiples::new("Overhead", AxisLabel::new("width d"), AxisLabel::new("above theory"), plots)?;
/// assert!(picture.to_svg(WIDTH)?.contains("1 of 3 values missing (×)"));
/// # Ok::<(), flopgap_report::ReportError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct SmallMultiples {
    title: String,
    subtitle: String,
    x: AxisLabel,
    y: AxisLabel,
    format: ValueFormat,
    plots: Vec<Plot>,
}

impl SmallMultiples {
    /// A picture of `plots`.
    ///
    /// # Errors
    /// [`ReportError::InvalidPlot`] for a place or value that is not finite and for two values of a
    /// line at one place, [`ReportError::NothingToDraw`] without any value.
    pub fn new(
        title: impl Into<String>,
        x: AxisLabel,
        y: AxisLabel,
        mut plots: Vec<Plot>,
    ) -> Result<Self, ReportError> {
        let title = title.into();
        let mut checked = Vec::new();
        for plot in &mut plots {
            for line in &mut plot.lines {
                let name = format!("{title}, {}, {}", plot.name, line.label);
                let points = line.points.iter().map(|(x, value)| (*x, 0.0, *value));
                checked.push(Points::check(&name, (&x.label, "row"), points)?);
                line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
            }
        }
        Points::fields(&title, &checked)?;
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

    /// The picture as an SVG document of this width in pixels, from 400 to 4,000.
    ///
    /// # Errors
    /// [`ReportError::InvalidPlot`] when the width is out of bounds, the plots take more than 4,000
    /// pixels of height, or no axis holds the values.
    pub fn to_svg(&self, width: u32) -> Result<String, ReportError> {
        let (painted, size) = self.painted(width)?;
        picture::svg(&painted, size)
    }

    /// The picture as a PNG file, 8-bit RGB on white.
    ///
    /// # Errors
    /// As for [`to_svg`](Self::to_svg).
    pub fn to_png(&self, width: u32) -> Result<Vec<u8>, ReportError> {
        let (painted, size) = self.painted(width)?;
        picture::png(&painted, size)
    }

    fn points(&self) -> impl Iterator<Item = &(f64, Option<f64>)> {
        self.plots.iter().flat_map(|plot| plot.lines.iter().flat_map(|line| &line.points))
    }

    fn painted(&self, width: u32) -> Result<(Painted<'_>, Size), ReportError> {
        let values = self.points().filter_map(|(_, value)| *value);
        let scale = Scale::of(values, self.format).ok_or_else(|| ReportError::InvalidPlot {
            title: self.title.clone(),
            reason: "no axis can hold the values".to_owned(),
        })?;
        let mut places: Vec<f64> = self.points().map(|(x, _)| *x).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        let painted = Painted::new(self, scale, places, f64::from(width));
        let size = Size { width, height: painted.height() };
        Ok((painted, size))
    }

    /// The subtitle, and how much is missing.
    fn notes(&self) -> String {
        let missing = self.points().filter(|(_, value)| value.is_none()).count();
        let [missing_text, all] =
            [missing, self.points().count()].map(|count| numbers::group_thousands(count as u64));
        let missing = (missing > 0).then(|| format!("{missing_text} of {all} values missing (×)"));
        let subtitle = Some(self.subtitle.clone()).filter(|subtitle| !subtitle.is_empty());
        [subtitle, missing].into_iter().flatten().collect::<Vec<_>>().join(" · ")
    }
}
