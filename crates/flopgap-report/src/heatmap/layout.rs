//! Where the grids stand.

use super::Grid;
use crate::svg::picture::{HEADING, MARGIN};
use crate::svg::{Point, TEXT};

/// Width of a picture in pixels: five grids of 16 columns.
pub(super) const WIDTH: f64 = 1240.0;
/// Height of the legend below the heading, and of the line below that says what lines mean.
const LEGEND: f64 = 62.0;
pub(super) const MEANING: f64 = 24.0;
/// Height of a row's name above its grids, and of a grid's name.
pub(super) const ROW_NAME: f64 = 26.0;
pub(super) const NAME: f64 = 22.0;
/// Space between neighboring grids, and below a row.
const GAP: f64 = 22.0;
const ROW_GAP: f64 = 15.0;
/// The least width of a grid, and of one of its cells, before grids go to another line.
const LEAST_WIDTH: f64 = 150.0;
const LEAST_CELL: f64 = 7.0;
/// The largest cell, and the largest height of a grid.
const MOST_CELL: f64 = 44.0;
const MOST_HEIGHT: f64 = 520.0;

/// Sizes in pixels.
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
    /// `before` is what labels of the upright axis take, and `has_meaning` whether the legend
    /// explains lines.
    pub(super) fn new(
        before: f64,
        cells: (usize, usize),
        (rows, columns): (usize, usize),
        has_meaning: bool,
    ) -> Self {
        let left = MARGIN + before;
        let room = WIDTH - left - MARGIN + GAP;
        let least = LEAST_WIDTH.max(cells.0 as f64 * LEAST_CELL) + GAP;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at least 1, few")]
        let per_line = ((room / least).max(1.0) as usize).min(columns).max(1);
        let side = ((room / per_line as f64 - GAP) / cells.0 as f64).min(MOST_CELL);
        let height = side.min(MOST_HEIGHT / cells.1 as f64);
        let lines = columns.div_ceil(per_line);
        let legend = LEGEND + if has_meaning { MEANING } else { 0.0 };
        Self { left, cell: (side, height), cells, per_line, lines, rows, legend }
    }

    fn line_height(&self) -> f64 {
        NAME + self.cell.1 * self.cells.1 as f64 + Grid::below(TEXT) + ROW_GAP
    }

    fn row_height(&self) -> f64 {
        ROW_NAME + self.lines as f64 * self.line_height()
    }

    /// Width of a grid.
    pub(super) fn width(&self) -> f64 {
        self.cell.0 * self.cells.0 as f64
    }

    /// The height of the picture.
    pub(super) fn height(&self) -> f64 {
        HEADING + self.legend + self.rows as f64 * self.row_height()
    }

    /// Where the name of a row stands.
    pub(super) fn row(&self, row: usize) -> Point {
        (MARGIN, HEADING + self.legend + row as f64 * self.row_height())
    }

    /// The upper left corner of a grid's cells.
    pub(super) fn at(&self, row: usize, column: usize) -> Point {
        let (line, place) = (column / self.per_line, column % self.per_line);
        let y = self.row(row).1 + ROW_NAME + line as f64 * self.line_height() + NAME;
        // At whole pixels, so that patterns repeat without seams.
        ((self.left + place as f64 * (self.width() + GAP)).round(), y.round())
    }

    /// Whether a grid is the first of its line, next to which the axis stands.
    pub(super) fn is_first(&self, column: usize) -> bool {
        column.is_multiple_of(self.per_line)
    }
}
