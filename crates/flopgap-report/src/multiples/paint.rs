//! Drawing of small multiples.

use plotters::prelude::DrawingBackend;

use super::{Plot, PlotLine, SmallMultiples};
use crate::chart::Color;
use crate::palette::{EDGE, GRID, INK, MUTED, PANE, PAPER};
use crate::picture::Painting;
use crate::picture::canvas::{Anchor, Canvas, Drawn, Point};
use crate::picture::frame::{HEADING, MARGIN, TextBox, cross, heading, without_overlap};
use crate::scale::Scale;
use crate::surface::Axis;
use crate::surface::axis::exact;

const TEXT: f64 = 13.0;
/// The least width of a plot, and the most plots next to each other.
const LEAST_WIDTH: f64 = 230.0;
const MOST_COLUMNS: f64 = 4.0;
/// Height of a plot, of its name above and of the axis below.
const HEIGHT: f64 = 150.0;
const NAME: f64 = 22.0;
const BELOW: f64 = 42.0;
const GAP: f64 = 20.0;
/// Height of the legend, and of the title of the value axis.
const LEGEND: f64 = 44.0;
/// Room for labels of values.
const LABELS: f64 = 66.0;
/// Part of a plot's width that is kept free on both sides of the marks.
const INSET: f64 = 0.04;

/// Small multiples with all that is needed to draw them.
pub(super) struct Painted<'a> {
    picture: &'a SmallMultiples,
    scale: Scale,
    axis: Axis,
    columns: usize,
    width: f64,
}

impl<'a> Painted<'a> {
    pub(super) fn new(picture: &'a SmallMultiples, scale: Scale, places: Vec<f64>, width: f64) -> Self {
        let room = width - 2.0 * MARGIN - LABELS + GAP;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 1 to 4")]
        let columns = (room / (LEAST_WIDTH + GAP)).clamp(1.0, MOST_COLUMNS) as usize;
        let columns = columns.min(picture.plots.len()).max(1);
        let most = room / 2.0 - GAP;
        let width = (room / columns as f64 - GAP).min(most.max(LEAST_WIDTH));
        Self { picture, scale, axis: Axis::new(picture.x.clone(), places), columns, width }
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive; a cast saturates")]
    pub(super) fn height(&self) -> u32 {
        let lines = self.picture.plots.len().div_ceil(self.columns);
        let height = HEADING + LEGEND + lines as f64 * (NAME + HEIGHT + BELOW) + 12.0;
        (height.ceil() as u32).max(400)
    }

    /// The upper left corner of a plot.
    fn corner(&self, index: usize) -> Point {
        let (line, column) = (index / self.columns, index % self.columns);
        let x = MARGIN + LABELS + column as f64 * (self.width + GAP);
        (x, HEADING + LEGEND + line as f64 * (NAME + HEIGHT + BELOW) + NAME)
    }

    fn x_of(&self, corner: Point, position: f64) -> f64 {
        corner.0 + self.width * (INSET + (1.0 - 2.0 * INSET) * position)
    }

    fn y_of(&self, corner: Point, value: f64) -> f64 {
        corner.1 + HEIGHT * (1.0 - self.scale.position(value))
    }

    fn legend<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>) -> Drawn {
        let mut known: Vec<(&str, Color)> = Vec::new();
        for line in self.picture.plots.iter().flat_map(|plot| &plot.lines) {
            if !known.contains(&(line.label.as_str(), line.color)) {
                known.push((&line.label, line.color));
            }
        }
        let title = self.picture.y.title(self.scale.spacing().note());
        let (title, size) = canvas.fit(&title, TEXT + 1.0, 9.0, canvas.width * 0.4)?;
        let y = HEADING + 8.0;
        canvas.text(&title, (MARGIN, y), size, INK, Anchor::Left)?;
        let mut x = MARGIN + canvas.text_width(&title, size)? + 36.0;
        for (label, color) in known {
            canvas.line(&[(x, y), (x + 26.0, y)], color.rgb(), 2.5)?;
            canvas.dot((x + 13.0, y), 3.5, color.rgb())?;
            canvas.text(label, (x + 34.0, y), TEXT, INK, Anchor::Left)?;
            x += 34.0 + canvas.text_width(label, TEXT)? + 30.0;
        }
        Ok(())
    }

    fn plot<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>, index: usize, plot: &Plot) -> Drawn {
        let corner = self.corner(index);
        let (right, bottom) = (corner.0 + self.width, corner.1 + HEIGHT);
        canvas.rectangle(corner, (right, bottom), PANE)?;
        let (name, size) = canvas.fit(&plot.name, TEXT + 1.0, 9.0, self.width)?;
        canvas.text(
            &name,
            (corner.0 + self.width / 2.0, corner.1 - NAME / 2.0),
            size,
            INK,
            Anchor::Center,
        )?;

        let ticks = self.scale.ticks();
        let boxes: Vec<TextBox> = ticks
            .iter()
            .map(|(value, _)| TextBox::new((corner.0 - 8.0, self.y_of(corner, *value)), 40.0, TEXT))
            .collect();
        for (value, _) in ticks {
            let y = self.y_of(corner, *value);
            canvas.line(&[(corner.0, y), (right, y)], GRID, 1.0)?;
        }
        if index.is_multiple_of(self.columns) {
            for index in without_overlap(&boxes, 0.0) {
                canvas.text(&ticks[index].1, boxes[index].center, TEXT, MUTED, Anchor::Right)?;
            }
        }
        canvas.line(&[corner, (corner.0, bottom), (right, bottom)], EDGE, 1.0)?;
        self.places(canvas, corner)?;
        for line in &plot.lines {
            self.line(canvas, corner, line)?;
        }
        Ok(())
    }

    fn places<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>, corner: Point) -> Drawn {
        let bottom = corner.1 + HEIGHT;
        let labels: Vec<String> = self.axis.values.iter().map(|value| exact(*value)).collect();
        let mut boxes = Vec::new();
        for (position, label) in self.axis.positions().into_iter().zip(&labels) {
            let x = self.x_of(corner, position);
            canvas.line(&[(x, bottom), (x, bottom + 4.0)], EDGE, 1.0)?;
            boxes.push(TextBox::new((x, bottom + 14.0), canvas.text_width(label, TEXT)?, TEXT));
        }
        for index in without_overlap(&boxes, 8.0) {
            canvas.text(&labels[index], boxes[index].center, TEXT, MUTED, Anchor::Center)?;
        }
        let (title, size) = canvas.fit(&self.axis.title(), TEXT - 1.0, 8.0, self.width)?;
        canvas.text(&title, (corner.0 + self.width / 2.0, bottom + 31.0), size, MUTED, Anchor::Center)
    }

    fn line<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>, corner: Point, line: &PlotLine) -> Drawn {
        let positions = self.axis.positions();
        let position = |x: f64| {
            let index = self.axis.values.partition_point(|value| *value < x);
            positions.get(index).copied().unwrap_or(0.5)
        };
        let at = |&(x, value): &(f64, Option<f64>)| {
            value.map(|value| (self.x_of(corner, position(x)), self.y_of(corner, value)))
        };
        let points: Vec<Option<Point>> = line.points.iter().map(at).collect();
        // A gap breaks the line: nothing is known between its neighbors.
        for run in points.split(Option::is_none) {
            let run: Vec<Point> = run.iter().flatten().copied().collect();
            if run.len() > 1 {
                canvas.line(&run, line.color.rgb(), 2.0)?;
            }
        }
        for point in points.iter().flatten() {
            canvas.dot(*point, 2.5, line.color.rgb())?;
        }
        for (x, _) in line.points.iter().filter(|(_, value)| value.is_none()) {
            cross(canvas, (self.x_of(corner, position(*x)), corner.1 + HEIGHT - 7.0), 3.5)?;
        }
        Ok(())
    }
}

impl Painting for Painted<'_> {
    fn title(&self) -> &str {
        &self.picture.title
    }

    /// Each width has a layout of its own.
    fn design(&self) -> Option<(f64, f64)> {
        None
    }

    fn paint<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>) -> Drawn {
        canvas.clear(PAPER)?;
        heading(canvas, &self.picture.title, &self.picture.notes())?;
        self.legend(canvas)?;
        for (index, plot) in self.picture.plots.iter().enumerate() {
            self.plot(canvas, index, plot)?;
        }
        Ok(())
    }
}
