//! Where the grids stand.

use crate::picture::canvas::Point;
use crate::picture::frame::{HEADING, MARGIN};

pub(super) const TEXT: f64 = 13.0;
/// Height of the legend below the heading, and of the line below that says what lines mean.
const LEGEND: f64 = 62.0;
pub(super) const MEANING: f64 = 24.0;
/// Height of a row's name above its grids, and of a grid's name.
pub(super) const ROW_NAME: f64 = 26.0;
pub(super) const NAME: f64 = 22.0;
/// Height of labels and title of the lower axis.
const BELOW: f64 = 58.0;
/// Space between neighboring grids.
const GAP: f64 = 22.0;
/// The least width of a grid, and of one of its cells, before grids go to another line.
const LEAST_WIDTH: f64 = 150.0;
const LEAST_CELL: f64 = 7.0;
/// The largest cell, and the largest height of a grid.
const MOST_CELL: f64 = 44.0;
const MOST_HEIGHT: f64 = 520.0;
/// What a character of a label takes, as a share of its height.
const CHARACTER: f64 = 0.62;

/// Sizes in logical pixels.
pub(super) struct Layout {
    /// Where the grids begin, right of the axis's labels and title.
    left: f64,
    /// Width and height of a cell.
    pub(super) cell: Point,
    cells: (usize, usize),
    /// Grids side by side before the next line.
    per_line: usize,
    /// Lines that a row of grids takes.
    lines: usize,
    rows: usize,
    /// Height of the legend.
    legend: f64,
}

impl Layout {
    /// `has_meaning`: whether the legend explains lines.
    pub(super) fn new(
        width: f64,
        xs: &[String],
        ys: &[String],
        (rows, columns): (usize, usize),
        has_meaning: bool,
    ) -> Self {
        let longest = ys.iter().map(|label| label.chars().count()).max().unwrap_or(0) as f64;
        let left = MARGIN + TEXT + 8.0 + longest * TEXT * CHARACTER + 8.0;
        let room = width - left - MARGIN + GAP;
        let least = LEAST_WIDTH.max(xs.len() as f64 * LEAST_CELL) + GAP;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at least 1, few")]
        let per_line = ((room / least).max(1.0) as usize).min(columns).max(1);
        let side = ((room / per_line as f64 - GAP) / xs.len() as f64).min(MOST_CELL);
        let height = side.min(MOST_HEIGHT / ys.len() as f64);
        let lines = columns.div_ceil(per_line);
        let legend = LEGEND + if has_meaning { MEANING } else { 0.0 };
        Self { left, cell: (side, height), cells: (xs.len(), ys.len()), per_line, lines, rows, legend }
    }

    fn line_height(&self) -> f64 {
        NAME + self.grid().1 + BELOW
    }

    fn row_height(&self) -> f64 {
        ROW_NAME + self.lines as f64 * self.line_height()
    }

    /// Width and height of a grid.
    pub(super) fn grid(&self) -> Point {
        (self.cell.0 * self.cells.0 as f64, self.cell.1 * self.cells.1 as f64)
    }

    /// The height of the picture.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive; a cast saturates")]
    pub(super) fn height(&self) -> u32 {
        let height = HEADING + self.legend + self.rows as f64 * self.row_height();
        (height.ceil() as u32).max(400)
    }

    /// Where the name of a row stands.
    pub(super) fn row(&self, row: usize) -> Point {
        (MARGIN, HEADING + self.legend + row as f64 * self.row_height())
    }

    /// The upper left corner of a grid's cells.
    pub(super) fn at(&self, row: usize, column: usize) -> Point {
        let (line, place) = (column / self.per_line, column % self.per_line);
        let y = self.row(row).1 + ROW_NAME + line as f64 * self.line_height() + NAME;
        (self.left + place as f64 * (self.grid().0 + GAP), y)
    }

    /// Whether a grid is the first of its line, next to which the axis stands.
    pub(super) fn is_first(&self, column: usize) -> bool {
        column.is_multiple_of(self.per_line)
    }
}
