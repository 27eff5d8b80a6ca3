//! The three-dimensional plot: box, axes, surface and color bar.

use std::collections::HashMap;

use plotters::prelude::DrawingBackend;

use super::{
    Surface,
    axis::{Axis, exact},
    mesh::Grid,
    view::{NEAR, Vec3, View},
};
use crate::field::Place;
use crate::palette::{EDGE, GRID, INK, MUTED, PANE, PAPER, Rgb, darken, ramp};
use crate::picture::canvas::{Anchor, Canvas, Drawn, Point};
use crate::picture::frame::{
    HEADING, LABEL_SIZE, MARGIN, TICK_SIZE, TextBox, cross, heading, without_overlap,
};
use crate::scale::Scale;

/// Width of the color bar.
const BAR_WIDTH: f64 = 22.0;
/// Splits of a cell's side beyond which a difference of color is no longer seen.
const MOST_PARTS: u32 = 24;
/// Length of a tick mark.
const TICK: f64 = 6.0;
/// Cells up to which grid lines help; beyond, they would cover the colors.
const LINED_CELLS: usize = 2_500;
/// Points up to which each measured point is marked.
const MARKED_POINTS: usize = 40;

/// Draws the surface. Both axes have at least two values, and there is at least one value.
pub(crate) fn draw<DB: DrawingBackend>(canvas: &Canvas<'_, DB>, plot: &Surface, scale: &Scale) -> Drawn {
    canvas.clear(PAPER)?;
    heading(canvas, &plot.title, &plot.subtitle_with_notes(scale))?;
    let grid = Grid {
        xs: plot.x.positions(),
        ys: plot.y.positions(),
        heights: plot.field.places.iter().map(|place| place.value().map(|v| scale.position(v))).collect(),
    };
    let shades = scale.shades();
    let shade = |height: f64| ramp(Scale::shade_at(&shades, height));
    let value_labels = widest(canvas, scale.ticks.iter().map(|(_, label)| label.as_str()))?;

    let bar_left = canvas.width - MARGIN - value_labels - 12.0 - BAR_WIDTH;
    // Left of the box stand the value axis's labels and title; below it two axes' labels and
    // titles.
    let top_left = (MARGIN + LABEL_SIZE + 14.0 + value_labels + 16.0, HEADING + 26.0);
    let bottom_right = (bar_left - 64.0, canvas.height - 78.0);
    let view = View::fitted(NEAR, top_left, bottom_right);

    color_bar(canvas, plot, scale, &shade, bar_left)?;
    walls(canvas, &view, &grid, scale)?;
    value_axis(canvas, plot, scale, &view, value_labels)?;
    base_axis(canvas, &view, &plot.x, true, bar_left)?;
    base_axis(canvas, &view, &plot.y, false, bar_left)?;
    missing(canvas, &view, &grid, &plot.field.places)?;
    surface(canvas, &view, &grid, &shade)
}

fn widest<'t, DB: DrawingBackend>(
    canvas: &Canvas<'_, DB>,
    texts: impl Iterator<Item = &'t str>,
) -> Result<f64, String> {
    let mut widest = 0.0_f64;
    for text in texts {
        widest = widest.max(canvas.text_width(text, TICK_SIZE)?);
    }
    Ok(widest)
}

fn color_bar<DB: DrawingBackend>(
    canvas: &Canvas<'_, DB>,
    plot: &Surface,
    scale: &Scale,
    shade: &impl Fn(f64) -> Rgb,
    left: f64,
) -> Drawn {
    let (top, bottom) = (HEADING + 66.0, canvas.height - 170.0);
    let right = left + BAR_WIDTH;
    let height = bottom - top;
    let steps = 256_u32;
    for step in 0..steps {
        let from = f64::from(step) / f64::from(steps);
        let upper = bottom - height * f64::from(step + 1) / f64::from(steps);
        // Each band reaches down to the bottom of the bar, so that no rounding leaves a seam
        // between two bands.
        let lower = if step == 0 { bottom } else { (bottom - height * from + 1.0).min(bottom) };
        canvas.rectangle((left, upper), (right, lower), shade(from))?;
    }
    canvas.line(&[(left, top), (right, top), (right, bottom), (left, bottom), (left, top)], EDGE, 1.0)?;
    for (value, label) in &scale.ticks {
        let y = bottom - height * scale.position(*value);
        canvas.line(&[(right, y), (right + 5.0, y)], EDGE, 1.0)?;
        canvas.text(label, (right + 10.0, y), TICK_SIZE, INK, Anchor::Left)?;
    }
    let title = plot.z.title(scale.spacing.note());
    let (title, size) = canvas.fit(&title, LABEL_SIZE, 11.0, canvas.width * 0.55)?;
    canvas.text(&title, (canvas.width - MARGIN, top - 26.0), size, INK, Anchor::Right)
}

/// Floor and the two far walls, with a line at each tick.
fn walls<DB: DrawingBackend>(canvas: &Canvas<'_, DB>, view: &View, grid: &Grid, scale: &Scale) -> Drawn {
    let corner = view.corner();
    let far_x = if corner.x_high { 0.0 } else { 1.0 };
    let far_y = if corner.y_high { 0.0 } else { 1.0 };
    let faces = [
        [(0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (1.0, 1.0, 0.0), (0.0, 1.0, 0.0)],
        [(far_x, 0.0, 0.0), (far_x, 1.0, 0.0), (far_x, 1.0, 1.0), (far_x, 0.0, 1.0)],
        [(0.0, far_y, 0.0), (1.0, far_y, 0.0), (1.0, far_y, 1.0), (0.0, far_y, 1.0)],
    ];
    let at = |(x, y, z): (f64, f64, f64)| view.project(Vec3::new(x, y, z));
    for face in faces {
        canvas.polygon(&face.map(at), PANE)?;
    }
    let line = |points: &[(f64, f64, f64)]| {
        let points: Vec<Point> = points.iter().map(|point| at(*point)).collect();
        canvas.line(&points, GRID, 1.0)
    };
    for x in &grid.xs {
        line(&[(*x, 1.0 - far_y, 0.0), (*x, far_y, 0.0), (*x, far_y, 1.0)])?;
    }
    for y in &grid.ys {
        line(&[(1.0 - far_x, *y, 0.0), (far_x, *y, 0.0), (far_x, *y, 1.0)])?;
    }
    for (value, _) in &scale.ticks {
        let z = scale.position(*value);
        line(&[(1.0 - far_x, far_y, z), (far_x, far_y, z), (far_x, 1.0 - far_y, z)])?;
    }
    for face in faces {
        let mut outline: Vec<Point> = face.map(at).to_vec();
        outline.push(outline[0]);
        canvas.line(&outline, EDGE, 1.0)?;
    }
    Ok(())
}

/// Ticks, labels and title on the leftmost vertical edge.
fn value_axis<DB: DrawingBackend>(
    canvas: &Canvas<'_, DB>,
    plot: &Surface,
    scale: &Scale,
    view: &View,
    label_width: f64,
) -> Drawn {
    let bases = [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0)];
    let left = |base: &(f64, f64)| view.project(Vec3::new(base.0, base.1, 0.0)).0;
    let Some(base) = bases.into_iter().min_by(|a, b| left(a).total_cmp(&left(b))) else { return Ok(()) };
    let at = |z: f64| view.project(Vec3::new(base.0, base.1, z));
    for (value, label) in &scale.ticks {
        let (x, y) = at(scale.position(*value));
        canvas.line(&[(x, y), (x - TICK, y)], EDGE, 1.0)?;
        canvas.text(label, (x - TICK - 5.0, y), TICK_SIZE, INK, Anchor::Right)?;
    }
    let (x, y) = at(0.5);
    let title = plot.z.title(scale.spacing.note());
    let (title, size) = canvas.fit(&title, LABEL_SIZE, 11.0, canvas.height * 0.6)?;
    let x = x - TICK - 5.0 - label_width - 12.0 - size / 2.0;
    // A long title stays on the page.
    let half = canvas.text_width(&title, size)? / 2.0;
    let y = y.min(canvas.height - MARGIN - half).max(HEADING + half);
    canvas.text_upwards(&title, (x, y), size, INK)
}

/// Ticks, labels and title of the x or y axis, on the near edge of the floor.
fn base_axis<DB: DrawingBackend>(
    canvas: &Canvas<'_, DB>,
    view: &View,
    axis: &Axis,
    is_x: bool,
    right_limit: f64,
) -> Drawn {
    let corner = view.corner();
    let near = f64::from(u8::from(if is_x { corner.y_high } else { corner.x_high }));
    let outside = near + if near > 0.5 { 1.0 } else { -1.0 };
    let at = |position: f64, across: f64| {
        let (x, y) = if is_x { (position, across) } else { (across, position) };
        view.project(Vec3::new(x, y, 0.0))
    };
    let outward = direction(at(0.5, near), at(0.5, outside));
    // Labels hang more below than next to their tick: next to the left end they would meet the
    // value axis's labels.
    let hang = direction((0.0, 0.0), (outward.0.signum() * 0.75, 1.0));

    let mut boxes = Vec::new();
    let mut labels = Vec::new();
    for (position, value) in axis.positions().into_iter().zip(&axis.values) {
        let from = at(position, near);
        let to = (from.0 + outward.0 * TICK, from.1 + outward.1 * TICK);
        canvas.line(&[from, to], EDGE, 1.0)?;
        let label = exact(*value);
        boxes.push(TextBox::beside(to, hang, 9.0, canvas.text_width(&label, TICK_SIZE)?, TICK_SIZE));
        labels.push(label);
    }
    let shown: Vec<usize> = without_overlap(&boxes, 3.0);
    for index in &shown {
        canvas.text(&labels[*index], boxes[*index].center, TICK_SIZE, INK, Anchor::Center)?;
    }

    let middle = at(0.5, near);
    let limit = right_limit - MARGIN;
    let (title, size) = canvas.fit(&axis.title(), LABEL_SIZE, 11.0, canvas.width * 0.42)?;
    let width = canvas.text_width(&title, size)?;
    let mut gap = TICK;
    let mut place = TextBox::beside(middle, hang, gap, width, size);
    while shown.iter().any(|index| place.touches(&boxes[*index], 7.0)) && gap < 200.0 {
        gap += 1.0;
        place = TextBox::beside(middle, hang, gap, width, size);
    }
    let x = place.center.0.min(limit - width / 2.0).max(MARGIN + width / 2.0);
    let y = place.center.1.min(canvas.height - MARGIN + 8.0);
    canvas.text(&title, (x, y), size, INK, Anchor::Center)
}

fn direction(from: Point, to: Point) -> Point {
    let (x, y) = (to.0 - from.0, to.1 - from.1);
    let length = x.hypot(y).max(f64::MIN_POSITIVE);
    (x / length, y / length)
}

/// A cross on the floor at each place that was planned and not measured.
fn missing<DB: DrawingBackend>(canvas: &Canvas<'_, DB>, view: &View, grid: &Grid, places: &[Place]) -> Drawn {
    for (row, y) in grid.ys.iter().enumerate() {
        for (column, x) in grid.xs.iter().enumerate() {
            if places[row * grid.xs.len() + column] == Place::Missing {
                cross(canvas, view.project(Vec3::new(*x, *y, 0.0)), 3.5)?;
            }
        }
    }
    Ok(())
}

fn surface<DB: DrawingBackend>(
    canvas: &Canvas<'_, DB>,
    view: &View,
    grid: &Grid,
    shade: &impl Fn(f64) -> Rgb,
) -> Drawn {
    let cells = grid.cells(view.corner());
    let parts = parts_per_cell(cells.len(), canvas.pieces);
    let mark = grid.heights.iter().flatten().count() <= MARKED_POINTS;
    // A point's mark is painted with the last cell that meets it, so that nearer cells cover it and
    // its own do not.
    let mut last_cell = HashMap::new();
    for (index, cell) in cells.iter().enumerate() {
        for corner in &cell.corners {
            last_cell.insert(place(*corner), index);
        }
    }
    for (index, cell) in cells.iter().enumerate() {
        for piece in cell.pieces(parts, view.corner()) {
            let height = piece.iter().map(|point| point.z).sum::<f64>() / piece.len() as f64;
            let outline: Vec<Point> = piece.iter().map(|point| view.project(*point)).collect();
            canvas.polygon(&grown(&outline, 0.6), shade(height))?;
        }
        if cells.len() <= LINED_CELLS {
            let next = cell.corners.iter().cycle().skip(1);
            for (from, to) in cell.corners.iter().zip(next) {
                let color = darken(shade(f64::midpoint(from.z, to.z)), 0.4);
                canvas.line(&[view.project(*from), view.project(*to)], color, 0.75)?;
            }
        }
        if mark {
            for corner in cell.corners.iter().filter(|corner| last_cell.get(&place(**corner)) == Some(&index))
            {
                canvas.dot(view.project(*corner), 3.0, darken(shade(corner.z), 0.45))?;
            }
        }
    }
    for point in grid.lone_points() {
        let foot = view.project(Vec3 { z: 0.0, ..point });
        canvas.line(&[foot, view.project(point)], MUTED, 1.0)?;
        canvas.dot(view.project(point), 4.0, shade(point.z))?;
    }
    Ok(())
}

/// A grid point's position as a key: equal for the cells that share the point.
fn place(point: Vec3) -> (u64, u64) {
    (point.x.to_bits(), point.y.to_bits())
}

fn parts_per_cell(cells: usize, pieces: usize) -> u32 {
    (1..=MOST_PARTS).rev().find(|parts| cells * (parts * parts) as usize <= pieces).unwrap_or(1)
}

/// The outline with each corner moved away from the middle: neighbors overlap a little and leave no
/// bright seam.
fn grown(outline: &[Point], by: f64) -> Vec<Point> {
    let count = outline.len() as f64;
    let middle = (
        outline.iter().map(|point| point.0).sum::<f64>() / count,
        outline.iter().map(|point| point.1).sum::<f64>() / count,
    );
    outline
        .iter()
        .map(|point| {
            let (dx, dy) = direction(middle, *point);
            (point.0 + dx * by, point.1 + dy * by)
        })
        .collect()
}
