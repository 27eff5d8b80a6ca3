//! A metric over a grid of two quantities as colored cells, many grids side by side.

mod layout;
mod paint;

use std::collections::HashSet;

use crate::ReportError;
use crate::field::{Field, Place, Points};
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
    /// Those without a value that were measured, and whose measurement was refused.
    pub refused: Vec<(f64, f64)>,
    /// Cells with a [line](Heatmaps::lines) at their upper edge, such as those whose tile is full.
    pub lines: Vec<(f64, f64)>,
}

impl Panel {
    /// A grid of these points, of which none was refused, without lines.
    pub fn new(
        row: impl Into<String>,
        column: impl Into<String>,
        points: Vec<(f64, f64, Option<f64>)>,
    ) -> Self {
        let (row, column) = (row.into(), column.into());
        Panel { row, column, points, refused: Vec::new(), lines: Vec::new() }
    }
}

/// Grids of colored cells with common axes and colors, so that all that was measured is seen at
/// once.
///
/// Every value of an axis has cells of the same size, in increasing order. The colors change at
/// round values ([`Scale`]), so that a jump between neighbors is seen; what was planned and not
/// measured is hatched and counted, what was measured and refused is hatched twice and counted
/// apart, what was not requested is blank.
///
/// ```
/// use flopgap_report::heatmap::{Heatmaps, Panel, WIDTH};
/// use flopgap_report::surface::AxisLabel;
///
/// let points = vec![(256.0, 16.0, Some(7.1)), (512.0, 16.0, Some(0.9)), (256.0, 32.0, Some(0.002)), (512.0, 32.0, None)];
/// let panel = Panel::new("forward", "n = 2", points);
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
    /// What the lines at upper edges mean, if they are drawn.
    lines: Option<String>,
    /// Names of the rows and columns in the order in which they occur.
    rows: Vec<String>,
    columns: Vec<String>,
    grids: Vec<Grid>,
}

/// One grid among others.
#[derive(Debug, Clone, PartialEq)]
struct Grid {
    row: usize,
    column: usize,
    field: Field,
    refused: HashSet<(u64, u64)>,
    lines: HashSet<(u64, u64)>,
}

/// A place as a key; adding zero makes both zeros one.
fn key(&(x, y): &(f64, f64)) -> (u64, u64) {
    ((x + 0.0).to_bits(), (y + 0.0).to_bits())
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
        let mut marks: Vec<[HashSet<(u64, u64)>; 2]> = Vec::new();
        let mut checked = Vec::new();
        for Panel { row, column, points, refused, lines } in panels {
            let heading = format!("{title}, {row}, {column}");
            let place = (index_of(&mut rows, row), index_of(&mut columns, column));
            if places.contains(&place) {
                let reason = "there are two panels of this row and column".to_owned();
                return Err(ReportError::InvalidPlot { title: heading, reason });
            }
            places.push(place);
            marks.push([refused, lines].map(|places| places.iter().map(key).collect()));
            checked.push(Points::check(&heading, (&x.label, &y.label), points)?);
        }
        let fields = Points::fields(&title, &checked)?;
        let grids = places.into_iter().zip(marks).zip(fields);
        let grids = grids.map(|(((row, column), [refused, lines]), field)| Grid {
            row,
            column,
            field,
            refused,
            lines,
        });
        let grids = grids.collect();
        let format = ValueFormat::Number;
        let (subtitle, scale, lines) = (String::new(), None, None);
        Ok(Self { title, subtitle, x, y, z, format, scale, lines, rows, columns, grids })
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

    /// The picture with the lines of its panels, and with this sentence about what they mean.
    #[must_use]
    pub fn lines(mut self, meaning: impl Into<String>) -> Self {
        self.lines = Some(meaning.into());
        self
    }

    /// Points that were planned and not measured, over all grids.
    pub fn missing(&self) -> usize {
        self.grids.iter().map(|grid| grid.field.missing()).sum::<usize>() - self.refused()
    }

    /// Points that were measured and refused, over all grids.
    pub fn refused(&self) -> usize {
        self.grids.iter().map(Grid::count_refused).sum()
    }

    /// What the lines mean, if any is drawn.
    fn meaning(&self) -> Option<&str> {
        self.lines.as_deref().filter(|_| self.grids.iter().any(|grid| !grid.lines.is_empty()))
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
        let values = || self.grids.iter().flat_map(|grid| grid.field.values());
        let scale = self.scale.clone().or_else(|| Scale::of(values(), self.format));
        let scale = scale.ok_or_else(|| ReportError::InvalidPlot {
            title: self.title.clone(),
            reason: "no scale can hold the values".to_owned(),
        })?;
        let Some(Grid { field, .. }) = self.grids.first() else {
            let reason = "there is no grid".to_owned();
            return Err(ReportError::NothingToDraw { title: self.title.clone(), reason });
        };
        let labels = |values: &[f64]| values.iter().map(|value| exact(*value)).collect::<Vec<_>>();
        let (xs, ys) = (labels(&field.xs), labels(&field.ys));
        let counts = (self.rows.len(), self.columns.len());
        let layout = Layout::new(f64::from(width), &xs, &ys, counts, self.meaning().is_some());
        let height = layout.height();
        Ok((Painted { heatmaps: self, scale, layout, xs, ys }, Size { width, height }))
    }

    /// The subtitle, and what a reader must know to read the picture correctly.
    fn notes(&self) -> String {
        let asked: usize = self.grids.iter().map(|grid| grid.field.asked()).sum();
        let count = |count: usize| numbers::group_thousands(count as u64);
        let (missing, refused) = (self.missing(), self.refused());
        let said = |number: usize, what: &str| {
            (number > 0).then(|| format!("{} of {} values {what}", count(number), count(asked)))
        };
        let missing = said(missing, "missing (hatched)");
        let refused = said(refused, "refused (crossed)");
        let subtitle = Some(self.subtitle.clone()).filter(|subtitle| !subtitle.is_empty());
        [subtitle, missing, refused].into_iter().flatten().collect::<Vec<_>>().join(" · ")
    }
}

impl Grid {
    fn count_refused(&self) -> usize {
        self.cells().filter(|(place, at)| *place == Place::Missing && self.refused.contains(at)).count()
    }

    /// Each cell with its place as a key, for each y and, within it, each x.
    fn cells(&self) -> impl Iterator<Item = (Place, (u64, u64))> {
        let Field { xs, ys, places } = &self.field;
        let at = ys.iter().flat_map(move |y| xs.iter().map(move |x| key(&(*x, *y))));
        places.iter().copied().zip(at)
    }
}

fn index_of(names: &mut Vec<String>, name: String) -> usize {
    names.iter().position(|known| *known == name).unwrap_or_else(|| {
        names.push(name);
        names.len() - 1
    })
}
