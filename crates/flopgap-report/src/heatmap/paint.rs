//! Drawing of heatmaps.

use plotters::prelude::DrawingBackend;

use super::Heatmaps;
use super::layout::{Layout, NAME, ROW_NAME, TEXT};
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
        for (row, column, field) in &self.heatmaps.grids {
            let corner = self.layout.at(*row, *column);
            let middle = corner.0 + self.layout.grid().0 / 2.0;
            let name = &self.heatmaps.columns[*column];
            let (name, size) = canvas.fit(name, TEXT, 9.0, self.layout.grid().0)?;
            canvas.text(&name, (middle, corner.1 - NAME / 2.0), size, INK, Anchor::Center)?;
            self.cells(canvas, corner, field)?;
            self.axes(canvas, corner, self.layout.is_first(*column))?;
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
        if self.heatmaps.missing() > 0 {
            let x = right + 28.0;
            hatch(canvas, (x, top), (x + swatch.min(30.0), top + height))?;
            let at = (x + swatch.min(30.0) + 8.0, top + height / 2.0);
            canvas.text("not measured", at, TEXT, INK, Anchor::Left)?;
        }
        Ok(())
    }

    fn cells<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>, corner: Point, field: &Field) -> Drawn {
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
                        hatch(canvas, (left, top), (left + width, top + height))?;
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
        for rule in &self.heatmaps.rules {
            if let Some(row) =
                field.ys.iter().position(|y| y.to_bits() == rule.to_bits()).filter(|row| row + 1 < rows)
            {
                let y = corner.1 + (rows - 1 - row) as f64 * height;
                canvas.line(&[(corner.0 - 4.0, y), (right + 4.0, y)], INK, 1.2)?;
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

/// A cell of something that is not there. The lines of neighboring cells join.
fn hatch<DB: DrawingBackend>(canvas: &Canvas<'_, DB>, (left, top): Point, (right, bottom): Point) -> Drawn {
    canvas.rectangle((left, top), (right, bottom), PANE)?;
    // Lines on which x + y is a multiple of the distance.
    let mut sum = ((left + top) / HATCH).ceil() * HATCH;
    while sum < right + bottom {
        let from = (right.min(sum - top), (sum - right).max(top));
        let to = ((sum - bottom).max(left), bottom.min(sum - left));
        canvas.line(&[from, to], EDGE, 1.0)?;
        sum += HATCH;
    }
    Ok(())
}
