//! A metric over a grid of two quantities as colored cells, many grids side by side.

mod layout;
mod paint;

use crate::ReportError;
use crate::field::{Field, Points};
use crate::numbers::{self, ValueFormat};
use crate::picture::{self, Size};
use crate::scale::Scale;
use crate::surface::AxisLabel;
use crate::surface::axis::exact;

use layout::Layout;
use paint::Painted;

/// Width of a picture in pixels that shows five grids of 16 columns.
pub const WIDTH: u32 = 1240;

/// One grid of [`Heatmaps`].
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// What its row of grids has in common, such as `forward pass`.
    pub row: String,
    /// What distinguishes it from its neighbors, such as `n = 2`.
    pub column: String,
    /// Points `(x, y, value)` in any order; `None` stands for what was planned and not measured.
    pub points: Vec<(f64, f64, Option<f64>)>,
}

/// Grids of colored cells with common axes and colors, so that all that was measured is seen at
/// once.
///
/// Every value of an axis has cells of the same size, in increasing order. The colors change at
/// round values ([`Scale`]), so that a jump between neighbors is seen; what was planned and not
/// measured is hatched and counted, what was not requested is blank.
///
/// ```
/// use flopgap_report::heatmap::{Heatmaps, Panel, WIDTH};
/// use flopgap_report::surface::AxisLabel;
///
/// let points = vec![(256.0, 16.0, Some(7.1)), (512.0, 16.0, Some(0.9)), (256.0, 32.0, Some(0.002)), (512.0, 32.0, None)];
/// let panel = Panel { row: "forward".to_owned(), column: "n = 2".to_owned(), points };
/// let picture = Heatmaps::new(
///     "Overhead",
///     AxisLabel::new("width d"),
///     AxisLabel::new("columns m"),
///     AxisLabel::new("ε"),
///     vec![panel],
/// )?;
/// assert!(picture.to_svg(WIDTH)?.contains("1 of 4 values missing (hatched)"));
/// # Ok::<(), flopgap_report::ReportError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Heatmaps {
    title: String,
    subtitle: String,
    x: AxisLabel,
    y: AxisLabel,
    z: AxisLabel,
    format: ValueFormat,
    scale: Option<Scale>,
    rules: Vec<f64>,
    /// Names of the rows and columns in the order in which they occur.
    rows: Vec<String>,
    columns: Vec<String>,
    /// Row, column and cells of each grid.
    grids: Vec<(usize, usize, Field)>,
}

impl Heatmaps {
    /// Grids of `panels`, in rows and columns in the order in which their names occur.
    ///
    /// # Errors
    /// [`ReportError::InvalidPlot`] for a coordinate or value that is not finite, two points at one
    /// place, two panels of the same row and column, and more than 250,000 places in a grid;
    /// [`ReportError::NothingToDraw`] when no point has a value.
    pub fn new(
        title: impl Into<String>,
        x: AxisLabel,
        y: AxisLabel,
        z: AxisLabel,
        panels: Vec<Panel>,
    ) -> Result<Self, ReportError> {
        let title = title.into();
        let (mut rows, mut columns) = (Vec::new(), Vec::new());
        let mut places = Vec::new();
        let mut checked = Vec::new();
        for Panel { row, column, points } in panels {
            let heading = format!("{title}, {row}, {column}");
            let place = (index_of(&mut rows, row), index_of(&mut columns, column));
            if places.contains(&place) {
                let reason = "there are two panels of this row and column".to_owned();
                return Err(ReportError::InvalidPlot { title: heading, reason });
            }
            places.push(place);
            checked.push(Points::check(&heading, (&x.label, &y.label), points)?);
        }
        let fields = Points::fields(&title, &checked)?;
        let grids =
            places.into_iter().zip(fields).map(|((row, column), field)| (row, column, field)).collect();
        let format = ValueFormat::Number;
        let (subtitle, scale, rules) = (String::new(), None, Vec::new());
        Ok(Self { title, subtitle, x, y, z, format, scale, rules, rows, columns, grids })
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

    /// The picture in the colors of a scale that it shares with others.
    #[must_use]
    pub fn scale(mut self, scale: Scale) -> Self {
        self.scale = Some(scale);
        self
    }

    /// The picture with a line across each grid behind these values of y, such as the sizes where
    /// tiles end.
    #[must_use]
    pub fn rules(mut self, after: impl IntoIterator<Item = f64>) -> Self {
        self.rules = after.into_iter().collect();
        self
    }

    /// Points that were planned and not measured, over all grids.
    pub fn missing(&self) -> usize {
        self.grids.iter().map(|(_, _, field)| field.missing()).sum()
    }

    /// The picture as an SVG document of this width in pixels, from 400 to 4,000; it is as high as
    /// its grids need.
    ///
    /// # Errors
    /// [`ReportError::InvalidPlot`] when the width is out of bounds, the grids take more than 4,000
    /// pixels of height, or no scale holds the values.
    pub fn to_svg(&self, width: u32) -> Result<String, ReportError> {
        let (painted, size) = self.painted(width)?;
        picture::svg(&painted, size)
    }

    /// The picture as a PNG file, 8-bit RGB on white; see [`to_svg`](Self::to_svg).
    ///
    /// # Errors
    /// As for [`to_svg`](Self::to_svg).
    pub fn to_png(&self, width: u32) -> Result<Vec<u8>, ReportError> {
        let (painted, size) = self.painted(width)?;
        picture::png(&painted, size)
    }

    fn painted(&self, width: u32) -> Result<(Painted<'_>, Size), ReportError> {
        let values = || self.grids.iter().flat_map(|(_, _, field)| field.values());
        let scale = self.scale.clone().or_else(|| Scale::of(values(), self.format));
        let scale = scale.ok_or_else(|| ReportError::InvalidPlot {
            title: self.title.clone(),
            reason: "no scale can hold the values".to_owned(),
        })?;
        let Some((_, _, field)) = self.grids.first() else {
            let reason = "there is no grid".to_owned();
            return Err(ReportError::NothingToDraw { title: self.title.clone(), reason });
        };
        let labels = |values: &[f64]| values.iter().map(|value| exact(*value)).collect::<Vec<_>>();
        let (xs, ys) = (labels(&field.xs), labels(&field.ys));
        let layout = Layout::new(f64::from(width), &xs, &ys, self.rows.len(), self.columns.len());
        let height = layout.height();
        Ok((Painted { heatmaps: self, scale, layout, xs, ys }, Size { width, height }))
    }

    /// The subtitle, and what a reader must know to read the picture correctly.
    fn notes(&self) -> String {
        let asked: usize = self.grids.iter().map(|(_, _, field)| field.asked()).sum();
        let missing = self.missing();
        let [asked, hatched] = [asked, missing].map(|count| numbers::group_thousands(count as u64));
        let missing = (missing > 0).then(|| format!("{hatched} of {asked} values missing (hatched)"));
        let subtitle = Some(self.subtitle.clone()).filter(|subtitle| !subtitle.is_empty());
        [subtitle, missing].into_iter().flatten().collect::<Vec<_>>().join(" · ")
    }
}

fn index_of(names: &mut Vec<String>, name: String) -> usize {
    names.iter().position(|known| *known == name).unwrap_or_else(|| {
        names.push(name);
        names.len() - 1
    })
}
