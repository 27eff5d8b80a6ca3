//! The three-dimensional plot: box, axes, surface and color bar.

use std::collections::HashMap;

use super::Surface;
use super::mesh::Grid;
use super::view::{Vec3, View};
use crate::axis::Axis;
use crate::palette::darken;
use crate::scale::Scale;
use crate::svg::Across::Pixels;
use crate::svg::font::{fit, width};
use crate::svg::labels::{TextBox, cross, without_overlap};
use crate::svg::picture::{HEADING, LABEL_SIZE, MARGIN, TICK_SIZE};
use crate::svg::{Anchor, Paint, Point, Svg};

/// Width of the color bar.
const BAR_WIDTH: f64 = 22.0;
/// Pieces of surface that a picture affords: more make smoother colors and, in SVG, a larger file,
/// by 80 bytes each.
const PIECES: [usize; 2] = [2_100, 8_000];
/// Splits of a cell's side beyond which a difference of color is no longer seen.
const MOST_PARTS: u32 = 24;
/// What pieces of surface have in common.
const PIECE: &str = "fill=\"currentColor\" stroke=\"currentColor\" stroke-linejoin=\"round\"";
/// Length of a tick mark.
const TICK: f64 = 6.0;
/// Cells up to which grid lines help; beyond, they would cover the colors.
const LINED_CELLS: usize = 2_500;
/// Points up to which each measured point is marked.
const MARKED_POINTS: usize = 40;

/// Draws the surface. Both axes have at least two values, and there is at least one value.
pub(super) fn draw(svg: &mut Svg, surface: &Surface, scale: &Scale) {
    let positions = |axis: &Axis| axis.values.iter().map(|value| axis.scale.position(*value)).collect();
    let places = &surface.field.places;
    let grid = Grid {
        xs: positions(&surface.x),
        ys: positions(&surface.y),
        heights: places.iter().map(|place| place.flatten().map(|value| scale.position(value))).collect(),
    };
    let labels = scale.label_width(TICK_SIZE);
    let title = surface.z.title(scale.note());
    let bar_left = super::WIDTH - MARGIN - labels - 12.0 - BAR_WIDTH;
    // Left of the box stand the value axis's labels and title; below it two axes' labels and
    // titles.
    let top_left = (MARGIN + LABEL_SIZE + 14.0 + labels + 16.0, HEADING + 26.0);
    let view = View::fitted(top_left, (bar_left - 64.0, super::HEIGHT - 78.0));

    color_bar(svg, &title, scale, bar_left);
    walls(svg, &view, &grid, scale);
    value_axis(svg, &title, scale, &view);
    base_axis(svg, &view, &surface.x, true, bar_left);
    base_axis(svg, &view, &surface.y, false, bar_left);
    for (index, _) in places.iter().enumerate().filter(|(_, place)| **place == Some(None)) {
        let (row, column) = (index / grid.xs.len(), index % grid.xs.len());
        let (x, y) = view.project(Vec3::new(grid.xs[column], grid.ys[row], 0.0));
        cross(svg, (Pixels(x), y), 3.5);
    }
    // Pieces have an outline of their own color: neighbors overlap a little and leave no bright
    // seam.
    svg.group(PIECE, |svg| draw_surface(svg, &view, &grid, scale));
}

fn color_bar(svg: &mut Svg, title: &str, scale: &Scale, left: f64) {
    let (top, bottom) = (HEADING + 66.0, super::HEIGHT - 170.0);
    let (right, height) = (left + BAR_WIDTH, bottom - top);
    let steps = 128_u32;
    svg.group(PIECE, |svg| {
        for step in 0..steps {
            let [lower, upper] =
                [step, step + 1].map(|step| bottom - height * f64::from(step) / f64::from(steps));
            let band = [(left, upper), (right, upper), (right, lower), (left, lower)];
            svg.path(Paint::Current(scale.shade(f64::from(step) / f64::from(steps - 1))), &band);
        }
    });
    let outline = [(left, top), (right, top), (right, bottom), (left, bottom), (left, top)];
    svg.path(Paint::Class("fg-edge"), &outline);
    for (position, label) in scale.marks() {
        let y = bottom - height * position;
        svg.path(Paint::Class("fg-edge"), &[(right, y), (right + 5.0, y)]);
        svg.text("fg-ink", label, (Pixels(right + 10.0), y), TICK_SIZE, Anchor::Start);
    }
    let (title, size) = fit(title, LABEL_SIZE, 11.0, super::WIDTH * 0.55);
    svg.text("fg-ink", &title, (Pixels(super::WIDTH - MARGIN), top - 28.0), size, Anchor::End);
}

/// Floor and the two far walls, with a line at each tick.
fn walls(svg: &mut Svg, view: &View, grid: &Grid, scale: &Scale) {
    let faces = [
        [(0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (1.0, 1.0, 0.0), (0.0, 1.0, 0.0)],
        [(0.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 1.0, 1.0), (0.0, 0.0, 1.0)],
        [(0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (1.0, 0.0, 1.0), (0.0, 0.0, 1.0)],
    ];
    let mut path = |class: &str, points: &[(f64, f64, f64)]| {
        let points: Vec<Point> = points.iter().map(|&(x, y, z)| view.project(Vec3::new(x, y, z))).collect();
        svg.path(Paint::Class(class), &points);
    };
    for face in &faces {
        path("fg-pane", face);
    }
    for x in &grid.xs {
        path("fg-line", &[(*x, 1.0, 0.0), (*x, 0.0, 0.0), (*x, 0.0, 1.0)]);
    }
    for y in &grid.ys {
        path("fg-line", &[(1.0, *y, 0.0), (0.0, *y, 0.0), (0.0, *y, 1.0)]);
    }
    for (z, _) in scale.marks() {
        path("fg-line", &[(1.0, 0.0, z), (0.0, 0.0, z), (0.0, 1.0, z)]);
    }
    for [a, b, c, d] in faces {
        path("fg-edge", &[a, b, c, d, a]);
    }
}

/// Ticks, labels and title on the leftmost vertical edge.
fn value_axis(svg: &mut Svg, title: &str, scale: &Scale, view: &View) {
    let at = |z: f64| view.project(Vec3::new(1.0, 0.0, z));
    for (position, label) in scale.marks() {
        let (x, y) = at(position);
        svg.path(Paint::Class("fg-edge"), &[(x, y), (x - TICK, y)]);
        svg.text("fg-ink", label, (Pixels(x - TICK - 5.0), y), TICK_SIZE, Anchor::End);
    }
    let (x, y) = at(0.5);
    let (title, size) = fit(title, LABEL_SIZE, 11.0, super::HEIGHT * 0.6);
    let x = x - TICK - 5.0 - scale.label_width(TICK_SIZE) - 12.0 - size / 2.0;
    // A long title stays on the page.
    let half = width(&title, size) / 2.0;
    let y = y.min(super::HEIGHT - MARGIN - half).max(HEADING + half);
    svg.text_upwards("fg-ink", &title, (x, y), size);
}

/// Ticks, labels and title of the x or y axis, on the near edge of the floor.
fn base_axis(svg: &mut Svg, view: &View, axis: &Axis, is_x: bool, right_limit: f64) {
    let at = |position: f64, across: f64| {
        let (x, y) = if is_x { (position, across) } else { (across, position) };
        view.project(Vec3::new(x, y, 0.0))
    };
    let outward = direction(at(0.5, 1.0), at(0.5, 2.0));
    // Labels hang more below than next to their tick: next to the left end they would meet the
    // value axis's labels.
    let hang = direction((0.0, 0.0), (outward.0.signum() * 0.75, 1.0));

    let marks = axis.scale.marks();
    let mut boxes = Vec::new();
    for (position, label) in &marks {
        let from = at(*position, 1.0);
        let to = (from.0 + outward.0 * TICK, from.1 + outward.1 * TICK);
        svg.path(Paint::Class("fg-edge"), &[from, to]);
        boxes.push(TextBox::beside(to, hang, 9.0, width(label, TICK_SIZE), TICK_SIZE));
    }
    let shown: Vec<usize> = without_overlap(&boxes, 3.0);
    for index in &shown {
        let (x, y) = boxes[*index].center;
        svg.text("fg-ink", marks[*index].1, (Pixels(x), y), TICK_SIZE, Anchor::Middle);
    }

    let (title, size) = fit(&axis.title(), LABEL_SIZE, 11.0, super::WIDTH * 0.42);
    let half = width(&title, size) / 2.0;
    let mut gap = TICK;
    let mut place = TextBox::beside(at(0.5, 1.0), hang, gap, 2.0 * half, size);
    while shown.iter().any(|index| place.touches(&boxes[*index], 7.0)) && gap < 200.0 {
        gap += 1.0;
        place = TextBox::beside(at(0.5, 1.0), hang, gap, 2.0 * half, size);
    }
    let x = place.center.0.min(right_limit - MARGIN - half).max(MARGIN + half);
    let y = place.center.1.min(super::HEIGHT - MARGIN + 8.0);
    svg.text("fg-ink", &title, (Pixels(x), y), size, Anchor::Middle);
}

fn direction(from: Point, to: Point) -> Point {
    let (x, y) = (to.0 - from.0, to.1 - from.1);
    let length = x.hypot(y).max(f64::MIN_POSITIVE);
    (x / length, y / length)
}

fn draw_surface(svg: &mut Svg, view: &View, grid: &Grid, scale: &Scale) {
    let cells = grid.cells();
    let pieces = PIECES[usize::from(svg.outlines)];
    let afforded = |parts: &u32| cells.len() * (parts * parts) as usize <= pieces;
    let parts = (1..=MOST_PARTS).rev().find(afforded).unwrap_or(1);
    let mark = grid.heights.iter().flatten().count() <= MARKED_POINTS;
    // A point's mark is painted with the last cell that meets it, so that nearer cells cover it and
    // its own do not.
    let mut last_cell = HashMap::new();
    for (index, cell) in cells.iter().enumerate() {
        for corner in &cell.corners {
            last_cell.insert(place(*corner), index);
        }
    }
    let dot = |svg: &mut Svg, point: Vec3, radius: f64, color| {
        let (x, y) = view.project(point);
        svg.dot((x, y), radius, color);
    };
    for (index, cell) in cells.iter().enumerate() {
        for piece in cell.pieces(parts) {
            let height = piece.iter().map(|point| point.z).sum::<f64>() / 4.0;
            let [a, b, c, d] = piece.map(|point| view.project(point));
            svg.path(Paint::Current(scale.shade(height)), &[a, b, c, d, a]);
        }
        if cells.len() <= LINED_CELLS {
            let next = cell.corners.iter().cycle().skip(1);
            for (from, to) in cell.corners.iter().zip(next) {
                let color = darken(scale.shade(f64::midpoint(from.z, to.z)), 0.4);
                svg.path(Paint::Stroke(color, 0.75), &[view.project(*from), view.project(*to)]);
            }
        }
        if mark {
            for corner in cell.corners.iter().filter(|corner| last_cell[&place(**corner)] == index) {
                dot(svg, *corner, 3.0, darken(scale.shade(corner.z), 0.45));
            }
        }
    }
    // Measured points that bound no cell would not be seen otherwise.
    let all = (0..grid.ys.len()).flat_map(|row| (0..grid.xs.len()).map(move |column| (column, row)));
    let points = all.filter_map(|(column, row)| grid.point(column, row));
    for point in points.filter(|point| !last_cell.contains_key(&place(*point))) {
        let foot = Vec3 { z: 0.0, ..point };
        svg.path(Paint::Class("fg-edge"), &[view.project(foot), view.project(point)]);
        dot(svg, point, 4.0, scale.shade(point.z));
    }
}

/// A grid point's position as a key: equal for the cells that share the point.
fn place(point: Vec3) -> (u64, u64) {
    (point.x.to_bits(), point.y.to_bits())
}
