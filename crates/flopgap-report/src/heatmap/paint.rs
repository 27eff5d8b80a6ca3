//! Drawing of heatmaps.

use plotters::prelude::DrawingBackend;

use super::layout::{Layout, MEANING, NAME, ROW_NAME, TEXT};
use super::{Grid, Heatmaps, key};
use crate::field::{Field, Place};
use crate::palette::{EDGE, INK, MUTED, PANE, PAPER, Rgb};
use crate::picture::Painting;
use crate::picture::canvas::{Anchor, Canvas, Drawn, Point};
use crate::picture::frame::{HEADING, MARGIN, TextBox, heading, without_overlap};
use crate::scale::Scale;

/// Width of a color in the legend, and its height.
const SWATCH: (f64, f64) = (58.0, 16.0);
/// Distance of hatching lines.
const HATCH: f64 = 4.0;
/// Cells narrower than this have no line between them.
const SEPARATED: f64 = 5.0;

/// Heatmaps with all that is needed to draw them.
pub(super) struct Painted<'a> {
    pub(super) heatmaps: &'a Heatmaps,
    pub(super) scale: Scale,
    pub(super) layout: Layout,
    /// Labels of the axes.
    pub(super) xs: Vec<String>,
    pub(super) ys: Vec<String>,
}

impl Painting for Painted<'_> {
    fn title(&self) -> &str {
        &self.heatmaps.title
    }

    /// Each width has a layout of its own.
    fn design(&self) -> Option<(f64, f64)> {
        None
    }

    fn paint<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>) -> Drawn {
        canvas.clear(PAPER)?;
        heading(canvas, &self.heatmaps.title, &self.heatmaps.notes())?;
        self.legend(canvas)?;
        for (row, name) in self.heatmaps.rows.iter().enumerate() {
            let (x, y) = self.layout.row(row);
            canvas.text(name, (x, y + ROW_NAME / 2.0), TEXT + 2.0, INK, Anchor::Left)?;
        }
        for grid in &self.heatmaps.grids {
            let (row, column) = (grid.row, grid.column);
            let corner = self.layout.at(row, column);
            let middle = corner.0 + self.layout.grid().0 / 2.0;
            let name = &self.heatmaps.columns[column];
            let (name, size) = canvas.fit(name, TEXT, 9.0, self.layout.grid().0)?;
            canvas.text(&name, (middle, corner.1 - NAME / 2.0), size, INK, Anchor::Center)?;
            self.cells(canvas, corner, grid)?;
            self.axes(canvas, corner, self.layout.is_first(column))?;
        }
        Ok(())
    }
}

impl Painted<'_> {
    /// The colors with the values at which they begin, and the hatching where something is missing.
    fn legend<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>) -> Drawn {
        let (width, height) = SWATCH;
        let top = HEADING + 4.0;
        let title = self.heatmaps.z.title(None);
        let (title, size) = canvas.fit(&title, TEXT + 1.0, 9.0, canvas.width * 0.3)?;
        canvas.text(&title, (MARGIN, top + height / 2.0), size, INK, Anchor::Left)?;
        let left = MARGIN + canvas.text_width(&title, size)? + 16.0;
        let colors = self.scale.colors();
        let swatch = width.min((canvas.width - left - 180.0).max(80.0) / colors.len() as f64);
        for (index, color) in colors.iter().enumerate() {
            let x = left + index as f64 * swatch;
            canvas.rectangle((x, top), (x + swatch, top + height), *color)?;
        }
        let right = left + colors.len() as f64 * swatch;
        let outline = [(left, top), (right, top), (right, top + height), (left, top + height), (left, top)];
        canvas.line(&outline, EDGE, 1.0)?;
        for (index, (_, label)) in self.scale.bounds.iter().enumerate() {
            let x = left + (index + 1) as f64 * swatch;
            canvas.line(&[(x, top), (x, top + height + 4.0)], INK, 1.0)?;
            canvas.text(label, (x, top + height + 13.0), TEXT, INK, Anchor::Center)?;
        }
        let mut x = right + 28.0;
        let patterns: [(usize, &str, &[Slant]); 2] = [
            (self.heatmaps.missing(), "not measured", &[Slant::Up]),
            (self.heatmaps.refused(), "refused", &[Slant::Up, Slant::Down]),
        ];
        for (_, name, slants) in patterns.into_iter().filter(|(count, ..)| *count > 0) {
            let width = swatch.min(30.0);
            hatch(canvas, (x, top), (x + width, top + height), slants)?;
            canvas.text(name, (x + width + 8.0, top + height / 2.0), TEXT, INK, Anchor::Left)?;
            x += width + 8.0 + canvas.text_width(name, TEXT)? + 20.0;
        }
        let Some(meaning) = self.heatmaps.meaning() else { return Ok(()) };
        let y = top + height + 13.0 + MEANING;
        let (text, size) = canvas.fit(meaning, TEXT, 9.0, canvas.width - 2.0 * MARGIN - 34.0)?;
        canvas.line(&[(MARGIN, y), (MARGIN + 24.0, y)], INK, 1.6)?;
        canvas.text(&text, (MARGIN + 34.0, y), size, INK, Anchor::Left)
    }

    fn cells<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>, corner: Point, grid: &Grid) -> Drawn {
        let field = &grid.field;
        let (columns, rows) = (field.xs.len(), field.ys.len());
        let (width, height) = self.layout.cell;
        let look = |place: Place| place.value().map(|value| self.scale.color(value));
        for (row, places) in field.places.chunks_exact(columns.max(1)).enumerate() {
            // The first value of y is at the bottom.
            let top = corner.1 + (rows - 1 - row) as f64 * height;
            let mut from = 0;
            // Neighbors that look alike are one rectangle: lines between all cells are drawn later.
            for run in
                places.chunk_by(|a, b| look(*a) == look(*b) && a.value().is_some() == b.value().is_some())
            {
                let (left, right) =
                    (corner.0 + from as f64 * width, corner.0 + (from + run.len()) as f64 * width);
                if let Some(color) = look(run[0]) {
                    canvas.rectangle((left, top), (right, top + height), color)?;
                }
                for (index, place) in run.iter().enumerate() {
                    let left = left + index as f64 * width;
                    if *place == Place::Missing {
                        let refused = grid.refused.contains(&key(&(field.xs[from + index], field.ys[row])));
                        let slants: &[Slant] = if refused { &[Slant::Up, Slant::Down] } else { &[Slant::Up] };
                        hatch(canvas, (left, top), (left + width, top + height), slants)?;
                    }
                }
                from += run.len();
            }
        }
        let (grid_width, grid_height) = self.layout.grid();
        let (right, bottom) = (corner.0 + grid_width, corner.1 + grid_height);
        if width.min(height) >= SEPARATED {
            for column in 1..columns {
                let x = corner.0 + column as f64 * width;
                canvas.line(&[(x, corner.1), (x, bottom)], PAPER, 1.0)?;
            }
            for row in 1..rows {
                let y = corner.1 + row as f64 * height;
                canvas.line(&[(corner.0, y), (right, y)], PAPER, 1.0)?;
            }
        }
        if self.heatmaps.lines.is_some() {
            self.upper_edges(canvas, corner, grid)?;
        }
        Ok(())
    }

    /// The lines at the upper edges of cells; those of neighbors are one line.
    fn upper_edges<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>, corner: Point, grid: &Grid) -> Drawn {
        let Field { xs, ys, .. } = &grid.field;
        let (width, height) = self.layout.cell;
        // Nothing lies above the last row.
        for (row, y) in ys.iter().enumerate().take(ys.len().saturating_sub(1)) {
            let at = corner.1 + (ys.len() - 1 - row) as f64 * height;
            let marked: Vec<bool> = xs.iter().map(|x| grid.lines.contains(&key(&(*x, *y)))).collect();
            let mut from = 0;
            for run in marked.chunk_by(|a, b| a == b) {
                let to = from + run.len();
                if run[0] {
                    let x = |index: usize| corner.0 + index as f64 * width;
                    canvas.line(&[(x(from), at), (x(to), at)], INK, 1.6)?;
                }
                from = to;
            }
        }
        Ok(())
    }

    fn axes<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>, corner: Point, first: bool) -> Drawn {
        let (width, height) = self.layout.cell;
        let (grid_width, grid_height) = self.layout.grid();
        let bottom = corner.1 + grid_height;
        let x_at = |index: usize| corner.0 + (index as f64 + 0.5) * width;
        labels(canvas, &self.xs, |index| (x_at(index), bottom + 14.0), Anchor::Center, MUTED)?;
        let title = self.heatmaps.x.title(None);
        let (title, size) = canvas.fit(&title, TEXT, 9.0, grid_width)?;
        canvas.text(&title, (corner.0 + grid_width / 2.0, bottom + 33.0), size, INK, Anchor::Center)?;
        if !first {
            return Ok(());
        }
        let y_at = |index: usize| bottom - (index as f64 + 0.5) * height;
        labels(canvas, &self.ys, |index| (corner.0 - 7.0, y_at(index)), Anchor::Right, MUTED)?;
        let title = self.heatmaps.y.title(None);
        let (title, size) = canvas.fit(&title, TEXT, 9.0, grid_height)?;
        canvas.text_upwards(&title, (MARGIN + size / 2.0, corner.1 + grid_height / 2.0), size, INK)
    }
}

/// As many labels as there is room for, at equal steps.
fn labels<DB: DrawingBackend>(
    canvas: &Canvas<'_, DB>,
    labels: &[String],
    at: impl Fn(usize) -> Point,
    anchor: Anchor,
    color: Rgb,
) -> Drawn {
    let boxes = labels
        .iter()
        .enumerate()
        .map(|(index, label)| Ok(TextBox::new(at(index), canvas.text_width(label, TEXT)?, TEXT)))
        .collect::<Result<Vec<_>, String>>()?;
    for index in without_overlap(&boxes, if anchor == Anchor::Center { 6.0 } else { -1.0 }) {
        canvas.text(&labels[index], boxes[index].center, TEXT, color, anchor)?;
    }
    Ok(())
}

/// A direction of hatching.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slant {
    /// From the lower left to the upper right.
    Up,
    /// From the upper left to the lower right.
    Down,
}

/// A cell of something that is not there. The lines of neighboring cells join.
fn hatch<DB: DrawingBackend>(
    canvas: &Canvas<'_, DB>,
    (left, top): Point,
    (right, bottom): Point,
    slants: &[Slant],
) -> Drawn {
    canvas.rectangle((left, top), (right, bottom), PANE)?;
    for slant in slants {
        // Lines on which x + y is a multiple of the distance, or x - y: the same, mirrored.
        let (low, high) = match slant {
            Slant::Up => (top, bottom),
            Slant::Down => (-bottom, -top),
        };
        let mut sum = ((left + low) / HATCH).ceil() * HATCH;
        while sum < right + high {
            let from = (right.min(sum - low), (sum - right).max(low));
            let to = ((sum - high).max(left), high.min(sum - left));
            let back = |(x, y): Point| if *slant == Slant::Up { (x, y) } else { (x, -y) };
            canvas.line(&[back(from), back(to)], EDGE, 1.0)?;
            sum += HATCH;
        }
    }
    Ok(())
}
