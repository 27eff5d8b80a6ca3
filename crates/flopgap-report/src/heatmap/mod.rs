//! A metric over a grid of two quantities as colored cells, many grids side by side.

mod grid;
mod layout;

use crate::ReportError;
use crate::axis::{Axis, AxisLabel};
use crate::field::{self, Field};
use crate::numbers::{ValueFormat, group_thousands};
use crate::palette::hex;
use crate::scale::Scale;
use crate::svg::Across::{Pixels, Share};
use crate::svg::font::{fit, width};
use crate::svg::picture::{HEADING, MARGIN, Picture};
use crate::svg::{Anchor, Paint, Svg, TEXT};

pub(crate) use grid::{Grid, patterns};
use layout::{Layout, MEANING, NAME, ROW_NAME, WIDTH};

/// Width of a color in the legend, and its height.
const SWATCH: (f64, f64) = (58.0, 16.0);

/// One grid of [`Heatmaps`].
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// What its row of grids has in common, such as `forward pass`.
    pub row: String,
    /// What distinguishes it from its neighbors, such as `n = 2`.
    pub column: String,
    /// Its cells in any order; places without one were not requested.
    pub cells: Vec<Cell>,
}

/// A cell of a [`Panel`].
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Cell {
    /// Place along the axis below.
    pub x: f64,
    /// Place along the upright axis.
    pub y: f64,
    /// What was measured; `None` if it was planned and not measured.
    pub value: Option<f64>,
    /// Whether it has no value because what was measured was refused.
    pub refused: bool,
    /// Whether it has a [line](Heatmaps::lines) at its upper edge, such as where a tile is full.
    pub line: bool,
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
/// use flopgap_report::heatmap::{Cell, Heatmaps, Panel};
/// use flopgap_report::axis::AxisLabel;
///
/// let cell = |x, y, value| Cell { x, y, value, ..Cell::default() };
/// let cells = vec![cell(256.0, 16.0, Some(7.1)), cell(512.0, 16.0, Some(0.9)), cell(256.0, 32.0, None)];
/// let panel = Panel { row: "forward".to_owned(), column: "n = 2".to_owned(), cells };
/// let picture = Heatmaps::new(
///     "Overhead",
///     AxisLabel::new("width d"),
///     AxisLabel::new("columns m"),
///     AxisLabel::new("ε"),
///     vec![panel],
/// )?;
/// assert!(picture.to_svg()?.contains("1 of 3 values missing (hatched)"));
/// # Ok::<(), flopgap_report::ReportError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Heatmaps {
    title: String,
    subtitle: String,
    x: Axis,
    y: Axis,
    z: AxisLabel,
    scale: Option<Scale>,
    /// What the lines at upper edges mean, if they are drawn.
    lines: Option<String>,
    /// Names of the rows and columns in the order in which they occur.
    rows: Vec<String>,
    columns: Vec<String>,
    grids: Vec<Part>,
}

/// One grid among others.
#[derive(Debug, Clone, PartialEq)]
struct Part {
    row: usize,
    column: usize,
    field: Field<Cell>,
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
        let mut sets = Vec::new();
        for Panel { row, column, cells } in panels {
            let heading = format!("{title}, {row}, {column}");
            let place = (index_of(&mut rows, row), index_of(&mut columns, column));
            if places.contains(&place) {
                let reason = "there are two panels of this row and column".to_owned();
                return Err(ReportError::InvalidPlot { title: heading, reason });
            }
            places.push(place);
            sets.push((heading, cells.into_iter().map(|cell| (cell.x, cell.y, cell)).collect()));
        }
        let fields = Field::of((&x, &y), &sets, |cell: Cell| cell.value)?;
        if fields.iter().flat_map(Field::asked).all(|cell| cell.value.is_none()) {
            return Err(field::nothing(&title));
        }
        let (xs, ys) = (fields[0].xs.clone(), fields[0].ys.clone());
        let grids = places.into_iter().zip(fields);
        let grids = grids.map(|((row, column), field)| Part { row, column, field }).collect();
        let (x, y) = (Axis::new(x, xs), Axis::new(y, ys));
        let (subtitle, scale, lines) = (String::new(), None, None);
        Ok(Self { title, subtitle, x, y, z, scale, lines, rows, columns, grids })
    }

    /// The picture with a second line under its title.
    #[must_use]
    pub fn subtitle(mut self, subtitle: impl Into<String>) -> Self {
        self.subtitle = subtitle.into();
        self
    }

    /// The picture in the colors of a scale that it shares with others.
    #[must_use]
    pub fn scale(self, scale: Option<Scale>) -> Self {
        Self { scale, ..self }
    }

    /// The picture with the lines of its panels, and with this sentence about what they mean.
    #[must_use]
    pub fn lines(mut self, meaning: impl Into<String>) -> Self {
        self.lines = Some(meaning.into());
        self
    }

    /// The picture as an SVG document of 1,240 pixels of width; it is as high as its grids need.
    ///
    /// # Errors
    /// [`ReportError::InvalidPlot`] when the grids take more than 4,000 pixels of height, or no
    /// scale holds the values.
    pub fn to_svg(&self) -> Result<String, ReportError> {
        let (scale, layout) = (self.color_scale()?, self.layout());
        self.picture(&layout).to_svg(|svg| self.draw(svg, &scale, &layout))
    }

    /// The picture as a PNG file, 8-bit RGB on white.
    ///
    /// # Errors
    /// As for [`to_svg`](Self::to_svg).
    #[cfg(feature = "png")]
    pub fn to_png(&self) -> Result<Vec<u8>, ReportError> {
        let (scale, layout) = (self.color_scale()?, self.layout());
        self.picture(&layout).to_png(|svg| self.draw(svg, &scale, &layout))
    }

    fn color_scale(&self) -> Result<Scale, ReportError> {
        let values = self.cells().filter_map(|cell| cell.value);
        let scale = self.scale.clone().or_else(|| Scale::of(values, ValueFormat::Number));
        scale.ok_or_else(|| ReportError::InvalidPlot {
            title: self.title.clone(),
            reason: "no scale can hold the values".to_owned(),
        })
    }

    fn layout(&self) -> Layout {
        let counts = (self.rows.len(), self.columns.len());
        let cells = (self.x.values.len(), self.y.values.len());
        Layout::new(Grid::before(&self.y, TEXT), cells, counts, self.meaning().is_some())
    }

    fn picture(&self, layout: &Layout) -> Picture<'_> {
        let asked = self.cells().count();
        let counts = self.absent().into_iter().map(|(_, count, what)| (count, what));
        let notes = [self.subtitle.clone()].into_iter().filter(|subtitle| !subtitle.is_empty());
        let subtitle = notes.chain(absences(counts, asked)).collect::<Vec<_>>().join(" · ");
        Picture { title: &self.title, subtitle, width: WIDTH, height: layout.height() }
    }

    /// Cells without a value by pattern, their number, and how they are called.
    fn absent(&self) -> [(&'static str, usize, &'static str); 2] {
        let count =
            |refused| self.cells().filter(|cell| cell.value.is_none() && cell.refused == refused).count();
        [("missing", count(false), "missing (hatched)"), ("refused", count(true), "refused (crossed)")]
    }

    fn cells(&self) -> impl Iterator<Item = Cell> {
        self.grids.iter().flat_map(|grid| grid.field.asked())
    }

    /// What the lines mean, if any is drawn.
    fn meaning(&self) -> Option<&str> {
        self.lines.as_deref().filter(|_| self.cells().any(|cell| cell.line))
    }

    fn draw(&self, svg: &mut Svg, scale: &Scale, layout: &Layout) {
        svg.raw(&patterns());
        self.draw_legend(svg, scale);
        for (row, name) in self.rows.iter().enumerate() {
            let (x, y) = layout.row(row);
            svg.text("fg-ink", name, (Pixels(x), y + ROW_NAME / 2.0), TEXT + 2.0, Anchor::Start);
        }
        for part in &self.grids {
            let grid = Grid {
                x: &self.x,
                y: &self.y,
                cell_height: layout.cell.1,
                size: TEXT,
                labels_y: layout.is_first(part.column),
            };
            let (left, top) = layout.at(part.row, part.column);
            svg.within(Pixels(left), top, Pixels(layout.width()), |svg| {
                let (name, size) = fit(&self.columns[part.column], TEXT, 9.0, layout.width());
                svg.text("fg-ink", &name, (Share(0.5), -NAME / 2.0), size, Anchor::Middle);
                let look = |row, column| {
                    part.field.at(row, column).map(|cell| match cell.value {
                        Some(value) => format!("fill=\"{}\"", hex(scale.color(value))),
                        None => {
                            format!("fill=\"url(#{})\"", if cell.refused { "refused" } else { "missing" })
                        }
                    })
                };
                let is_lined = |row, column| {
                    self.lines.is_some() && part.field.at(row, column).is_some_and(|cell| cell.line)
                };
                grid.draw(svg, 1.0, look, is_lined);
            });
        }
    }

    /// The colors with the values at which they begin, and the patterns of what has no value.
    fn draw_legend(&self, svg: &mut Svg, scale: &Scale) {
        let height = SWATCH.1;
        let top = HEADING + 4.0;
        let middle = top + height / 2.0;
        let (title, size) = fit(&self.z.title(None), TEXT + 1.0, 9.0, WIDTH * 0.3);
        svg.text("fg-ink", &title, (Pixels(MARGIN), middle), size, Anchor::Start);
        let left = MARGIN + width(&title, size) + 16.0;
        let colors = scale.colors();
        let swatch = SWATCH.0.min((WIDTH - left - 280.0) / colors.len() as f64);
        let right = left + colors.len() as f64 * swatch;
        for (index, color) in colors.iter().enumerate() {
            let at = (Pixels(left + index as f64 * swatch), top);
            svg.tile(&format!("fill=\"{}\"", hex(*color)), at, (Pixels(swatch), height));
        }
        let outline = [(left, top), (right, top), (right, top + height), (left, top + height), (left, top)];
        svg.path(Paint::Class("fg-edge"), &outline);
        for (index, (_, label)) in scale.bounds.iter().enumerate() {
            let x = left + (index + 1) as f64 * swatch;
            svg.path(Paint::Class("fg-edge"), &[(x, top), (x, top + height + 4.0)]);
            svg.text("fg-ink", label, (Pixels(x), top + height + 13.0), TEXT, Anchor::Middle);
        }
        let mut x = right + 28.0;
        let absent = self.absent().into_iter().filter(|(_, count, _)| *count > 0);
        for (pattern, ..) in absent {
            let name = if pattern == "missing" { "not measured" } else { pattern };
            svg.tile(&format!("fill=\"url(#{pattern})\""), (Pixels(x), top), (Pixels(30.0), height));
            svg.text("fg-ink", name, (Pixels(x + 38.0), middle), TEXT, Anchor::Start);
            x += 58.0 + width(name, TEXT);
        }
        let Some(meaning) = self.meaning() else { return };
        let y = top + height + 13.0 + MEANING;
        let (text, size) = fit(meaning, TEXT, 9.0, WIDTH - 2.0 * MARGIN - 34.0);
        svg.line("fg-step", (Pixels(MARGIN), y), (Pixels(MARGIN + 24.0), y));
        svg.text("fg-ink", &text, (Pixels(MARGIN + 34.0), y), size, Anchor::Start);
    }
}

/// Sentences about cells that have no value, for those of which there are any.
pub(crate) fn absences<'a>(
    counts: impl IntoIterator<Item = (usize, &'a str)>,
    asked: usize,
) -> impl Iterator<Item = String> {
    let count = |count: usize| group_thousands(count as u64);
    let counts = counts.into_iter().filter(|(number, _)| *number > 0);
    counts.map(move |(number, what)| format!("{} of {} values {what}", count(number), count(asked)))
}

fn index_of(names: &mut Vec<String>, name: String) -> usize {
    names.iter().position(|known| *known == name).unwrap_or_else(|| {
        names.push(name);
        names.len() - 1
    })
}
