//! The plot of a grid with a single row or column: a line over the axis that is left.

use plotters::prelude::DrawingBackend;

use super::{
    Surface,
    axis::{Axis, exact},
};
use crate::field::Place;
use crate::numbers::{self, ValueFormat};
use crate::palette::{EDGE, GRID, INK, LINE, PANE, PAPER};
use crate::picture::canvas::{Anchor, Canvas, Drawn, Point};
use crate::picture::frame::{
    HEADING, LABEL_SIZE, MARGIN, TICK_SIZE, TextBox, cross, heading, without_overlap,
};
use crate::scale::Scale;

/// Points up to which each value is written next to its mark.
const LABELED_POINTS: usize = 8;

/// Draws the values over the axis that has more than one value, or over x when neither has.
pub(crate) fn draw<DB: DrawingBackend>(canvas: &Canvas<'_, DB>, plot: &Surface, scale: &Scale) -> Drawn {
    let axis = if plot.y.values.len() > 1 { &plot.y } else { &plot.x };
    canvas.clear(PAPER)?;
    heading(canvas, &plot.title, &plot.subtitle_with_notes(scale))?;

    let mut value_labels = 0.0_f64;
    for (_, label) in &scale.ticks {
        value_labels = value_labels.max(canvas.text_width(label, TICK_SIZE)?);
    }
    let (left, top) = (MARGIN + LABEL_SIZE + 14.0 + value_labels + 14.0, HEADING + 24.0);
    let (right, bottom) = (canvas.width - 2.0 * MARGIN, canvas.height - 92.0);
    // The outer points keep clear of the frame.
    let inset = (right - left) * 0.06;
    let x_of = |position: f64| left + inset + position * (right - left - 2.0 * inset);
    let y_of = |value: f64| bottom - scale.position(value) * (bottom - top);

    canvas.rectangle((left, top), (right, bottom), PANE)?;
    for (value, label) in &scale.ticks {
        let y = y_of(*value);
        canvas.line(&[(left, y), (right, y)], GRID, 1.0)?;
        canvas.text(label, (left - 10.0, y), TICK_SIZE, INK, Anchor::Right)?;
    }
    value_title(canvas, plot, scale, (top, bottom))?;
    position_axis(canvas, axis, x_of, (left, right, bottom))?;
    canvas.line(&[(left, top), (left, bottom), (right, bottom)], EDGE, 1.0)?;

    let points: Vec<Option<(Point, f64)>> = axis
        .positions()
        .into_iter()
        .zip(&plot.field.places)
        .map(|(position, place)| place.value().map(|value| ((x_of(position), y_of(value)), value)))
        .collect();
    for (position, _) in
        axis.positions().into_iter().zip(&plot.field.places).filter(|(_, place)| **place == Place::Missing)
    {
        cross(canvas, (x_of(position), bottom - 8.0), 4.0)?;
    }
    // A gap breaks the line: nothing is known between its neighbors.
    for run in points.split(Option::is_none) {
        let run: Vec<Point> = run.iter().flatten().map(|(point, _)| *point).collect();
        if run.len() > 1 {
            canvas.line(&run, LINE, 2.0)?;
        }
    }
    let label = points.len() <= LABELED_POINTS;
    for (index, point) in points.iter().enumerate() {
        let Some((place, value)) = *point else { continue };
        canvas.dot(place, 4.5, LINE)?;
        if label {
            let before = index.checked_sub(1).and_then(|i| points[i]).map(|(point, _)| point);
            let after = points.get(index + 1).copied().flatten().map(|(point, _)| point);
            let text = value_label(value, plot.format);
            let half = canvas.text_width(&text, TICK_SIZE)? / 2.0;
            let (x, y) = clear_of_line(place, before, after, half);
            let x = x.clamp(left + half + 6.0, canvas.width - half - 6.0);
            canvas.text(&text, (x, y), TICK_SIZE, INK, Anchor::Center)?;
        }
    }
    Ok(())
}

/// Where the label of a point is not crossed by the line: above it, to the side on which the line
/// falls away, and below it only in a valley.
fn clear_of_line(point: Point, before: Option<Point>, after: Option<Point>, half_width: f64) -> Point {
    // Pixels grow downwards: a neighbor with a smaller y is higher.
    let higher = |neighbor: Option<Point>| neighbor.is_some_and(|neighbor| neighbor.1 < point.1 - 2.0);
    match (higher(before), higher(after)) {
        (false, false) => (point.0, point.1 - 18.0),
        (true, false) => (point.0 + half_width + 5.0, point.1 - 14.0),
        (false, true) => (point.0 - half_width - 5.0, point.1 - 14.0),
        (true, true) => (point.0, point.1 + 18.0),
    }
}

fn value_title<DB: DrawingBackend>(
    canvas: &Canvas<'_, DB>,
    plot: &Surface,
    scale: &Scale,
    (top, bottom): (f64, f64),
) -> Drawn {
    let title = plot.z.title(scale.spacing.note());
    let (title, size) = canvas.fit(&title, LABEL_SIZE, 11.0, bottom - top)?;
    canvas.text_upwards(&title, (MARGIN + size / 2.0, f64::midpoint(top, bottom)), size, INK)
}

fn position_axis<DB: DrawingBackend>(
    canvas: &Canvas<'_, DB>,
    axis: &Axis,
    x_of: impl Fn(f64) -> f64,
    (left, right, bottom): (f64, f64, f64),
) -> Drawn {
    let mut boxes = Vec::new();
    let mut labels = Vec::new();
    for (position, value) in axis.positions().into_iter().zip(&axis.values) {
        let x = x_of(position);
        canvas.line(&[(x, bottom), (x, bottom + 6.0)], EDGE, 1.0)?;
        let label = exact(*value);
        boxes.push(TextBox::new((x, bottom + 20.0), canvas.text_width(&label, TICK_SIZE)?, TICK_SIZE));
        labels.push(label);
    }
    for index in without_overlap(&boxes, 8.0) {
        canvas.text(&labels[index], boxes[index].center, TICK_SIZE, INK, Anchor::Center)?;
    }
    let (title, size) = canvas.fit(&axis.title(), LABEL_SIZE, 11.0, right - left)?;
    canvas.text(&title, (f64::midpoint(left, right), bottom + 52.0), size, INK, Anchor::Center)
}

/// A value with four significant digits or, as a percentage, two decimals.
fn value_label(value: f64, format: ValueFormat) -> String {
    match format {
        ValueFormat::Percent => numbers::percent(value, 2),
        ValueFormat::Number if value.abs() >= 1e6 || (value != 0.0 && value.abs() < 1e-3) => {
            numbers::si(value)
        }
        ValueFormat::Number => {
            let integer_digits = if value.abs() < 1.0 { 0.0 } else { value.abs().log10().floor() + 1.0 };
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 4")]
            let decimals = (4.0 - integer_digits).max(0.0) as usize;
            numbers::float(value, decimals)
        }
    }
}
