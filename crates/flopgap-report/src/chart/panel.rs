//! The part of a plot between its axes, in charts and pictures alike.

use super::Color;
use crate::numbers::{self, ValueFormat};
use crate::scale::Scale;
use crate::svg::Across::{Pixels, Share};
use crate::svg::font::fit;
use crate::svg::labels::{along, cross, upwards};
use crate::svg::{Anchor, Svg, TEXT};

/// Points of one color.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub label: String,
    /// Its color.
    pub color: Color,
    /// Place and value of each.
    pub points: Vec<(f64, f64)>,
    /// Whether each point is joined to the next.
    pub joined: bool,
    /// Places that were planned and not measured: they are crossed, and no line passes them.
    pub missing: Vec<f64>,
}

impl Series {
    /// Points that are not joined.
    pub fn points(label: impl Into<String>, color: Color, points: Vec<(f64, f64)>) -> Self {
        Self { label: label.into(), color, points, joined: false, missing: Vec::new() }
    }

    /// Points in the order in which they are joined.
    pub fn line(label: impl Into<String>, color: Color, points: Vec<(f64, f64)>) -> Self {
        Self { joined: true, ..Self::points(label, color, points) }
    }
}

/// A line behind the points, drawn as far as the points reach.
#[derive(Debug, Clone, PartialEq)]
pub struct Guide {
    /// Its name in the legend; guides without one are not in it.
    pub label: String,
    /// Where it bends. It is straight on the axes in between: on logarithmic ones, a power law.
    pub points: Vec<(f64, f64)>,
    /// Whether it is dashed.
    pub dashed: bool,
    /// Whether its name stands in the plot, next to it, and not in the legend.
    pub named: bool,
}

/// Points up to which the values of a picture's only line are written next to its marks.
const LABELED_POINTS: usize = 8;
/// Points from which on they are drawn small.
const MANY: usize = 400;

/// What is between two axes.
pub(crate) struct Panel<'a> {
    pub(crate) x: &'a Scale,
    pub(crate) y: &'a Scale,
    /// What stands below the axis.
    pub(crate) title: String,
    /// In pixels, without what is below.
    pub(crate) height: f64,
    /// Height of the letters.
    pub(crate) size: f64,
    /// Whether values have labels; panels of a row share them.
    pub(crate) labels_values: bool,
    /// How values are written.
    pub(crate) format: ValueFormat,
    pub(crate) series: &'a [Series],
    pub(crate) guides: &'a [Guide],
}

impl Panel<'_> {
    /// Pixels below the plot that labels and title of the axis take, for letters of a size.
    pub(crate) fn below(size: f64) -> f64 {
        3.2 * size
    }

    /// Draws the panel over the whole width, which is a `share` of a chart's.
    pub(crate) fn draw(&self, svg: &mut Svg, share: f64) {
        let size = self.size;
        svg.rect("fg-pane", (Share(0.0), 0.0), (Share(1.0), self.height));
        let values = self.y.marks();
        let labeled = upwards(self.height, values.iter().map(|mark| mark.0), size);
        for (index, (position, label)) in values.into_iter().enumerate() {
            let y = self.height * (1.0 - position);
            svg.line("fg-line", (Share(0.0), y), (Share(1.0), y));
            if self.labels_values && labeled.contains(&index) {
                svg.text("fg-muted", label, (Pixels(-8.0), y), size, Anchor::End);
            }
        }
        let marks = self.x.marks();
        for (position, _) in &marks {
            // Measured places, which have room at both ends, may be too many for lines.
            let top = if self.x.inset > 0.0 { self.height } else { 0.0 };
            svg.line("fg-line", (Share(*position), top), (Share(*position), self.height + 4.0));
        }
        for (index, class) in along(svg, share, &marks, size) {
            let (position, label) = marks[index];
            let class = format!("fg-muted {class}");
            svg.text(
                class.trim_end(),
                label,
                (Share(position), self.height + 1.1 * size),
                size,
                Anchor::Middle,
            );
        }
        let room = svg.rooms(share).last().map_or(f64::INFINITY, |(room, _)| room);
        let (title, title_size) = fit(&self.title, size, 8.0, room);
        let below = self.height + 2.5 * size;
        svg.text("fg-muted", &title, (Share(0.5), below), title_size, Anchor::Middle);
        for guide in self.guides {
            self.draw_guide(svg, guide);
        }
        svg.line("fg-edge", (Share(0.0), 0.0), (Share(0.0), self.height));
        svg.line("fg-edge", (Share(0.0), self.height), (Share(1.0), self.height));
        for series in self.series {
            self.draw_series(svg, series);
        }
    }

    fn draw_series(&self, svg: &mut Svg, series: &Series) {
        let at = |&(x, y): &(f64, f64)| (Share(self.x.position(x)), self.height * (1.0 - self.y.position(y)));
        for x in &series.missing {
            cross(svg, (Share(self.x.position(*x)), self.height - 8.0), 3.5);
        }
        let color = series.color.class();
        if !series.joined {
            let count: usize = self.series.iter().map(|series| series.points.len()).sum();
            let radius = if count > MANY { 1.8 } else { 3.0 };
            let class = format!("{color} fg-dot");
            series.points.iter().for_each(|point| svg.circle(&class, at(point), radius));
            return;
        }
        for pair in series.points.windows(2) {
            let span = pair[0].0.min(pair[1].0)..pair[0].0.max(pair[1].0);
            if !series.missing.iter().any(|missing| span.contains(missing)) {
                svg.line(&format!("{color} fg-series"), at(&pair[0]), at(&pair[1]));
            }
        }
        let labeled = self.labels_values && series.label.is_empty() && series.points.len() <= LABELED_POINTS;
        for (index, point) in series.points.iter().enumerate() {
            let (value, place) = (numbers::significant(point.1, self.format), numbers::exact(point.0));
            svg.titled(format!("{} {value} at {place}", series.label).trim_start(), |svg| {
                svg.circle(&format!("{color} fg-mark"), at(point), 3.5);
            });
            if labeled {
                // Where the line does not cross it: to the side on which it falls away, and below
                // only in a valley.
                let higher = |other: Option<usize>| {
                    other.and_then(|other| series.points.get(other)).is_some_and(|other| other.1 > point.1)
                };
                let (above, anchor) = match (higher(index.checked_sub(1)), higher(Some(index + 1))) {
                    (false, false) => (16.0, Anchor::Middle),
                    (true, false) => (12.0, Anchor::Start),
                    (false, true) => (12.0, Anchor::End),
                    (true, true) => (-16.0, Anchor::Middle),
                };
                let (x, y) = at(point);
                svg.text("fg-ink", &value, (x, y - above), self.size, anchor);
            }
        }
    }

    fn draw_guide(&self, svg: &mut Svg, guide: &Guide) {
        let class = if guide.dashed { "fg-guide fg-dashed" } else { "fg-guide" };
        let at = |&(x, y): &(f64, f64)| [self.x.unclamped(x), self.y.unclamped(y)];
        for (index, pair) in guide.points.windows(2).enumerate() {
            let Some([from, to]) = clipped(at(&pair[0]), at(&pair[1])) else { continue };
            let [(x1, y1), (x2, y2)] = [from, to].map(|[x, y]| (x, self.height * (1.0 - y)));
            if index == 0 && guide.named {
                // Level lines have their names at the right, others where they begin.
                let level = (y1 - y2).abs() < 0.01 * self.height;
                let (x, y, anchor) = if level {
                    (x2, y2 - 9.0, Anchor::End)
                } else {
                    (x1 + 0.01, y1 - 0.01 * self.height - 9.0, Anchor::Start)
                };
                svg.text("fg-muted", &guide.label, (Share(x), y), self.size, anchor);
            }
            svg.line(class, (Share(x1), y1), (Share(x2), y2));
        }
    }
}

/// Names of series and guides below each other.
pub(super) fn legend<'a>(svg: &mut Svg, series: impl Iterator<Item = &'a Series>, guides: &[Guide]) {
    let mut drawn: Vec<(&str, Color)> = Vec::new();
    let text = |svg: &mut Svg, label: &str, draw: &dyn Fn(&mut Svg, f64)| {
        let y = svg.height + 10.0;
        draw(svg, y);
        svg.text("fg-ink", &fit(label, TEXT, TEXT, 260.0).0, (Pixels(28.0), y), TEXT, Anchor::Start);
        svg.height += 20.0;
    };
    for series in series.filter(|series| !series.points.is_empty() && !series.label.is_empty()) {
        let entry = (series.label.as_str(), series.color);
        if !drawn.contains(&entry) {
            drawn.push(entry);
            let class = series.color.class();
            text(svg, entry.0, &|svg, y| svg.rect(&class, (Pixels(8.0), y - 6.0), (Pixels(12.0), 12.0)));
        }
    }
    for guide in guides.iter().filter(|guide| !guide.named && !guide.label.is_empty()) {
        let class = if guide.dashed { "fg-guide fg-dashed" } else { "fg-guide" };
        text(svg, &guide.label, &|svg, y| svg.line(class, (Pixels(6.0), y), (Pixels(22.0), y)));
    }
    svg.height += 8.0;
}

/// The piece of a line that lies within the unit square, by the algorithm of Liang and Barsky.
/// `None` where none does, or an end has no place on a logarithmic axis.
fn clipped(from: [f64; 2], to: [f64; 2]) -> Option<[[f64; 2]; 2]> {
    if from.iter().chain(&to).any(|place| !place.is_finite()) {
        return None;
    }
    let step = [to[0] - from[0], to[1] - from[1]];
    let (mut enters, mut leaves) = (0.0_f64, 1.0_f64);
    for axis in 0..2 {
        for (slope, room) in [(-step[axis], from[axis]), (step[axis], 1.0 - from[axis])] {
            if slope < 0.0 {
                enters = enters.max(room / slope);
            } else if slope > 0.0 {
                leaves = leaves.min(room / slope);
            } else if room < 0.0 {
                return None;
            }
        }
    }
    let at = |share: f64| [from[0] + share * step[0], from[1] + share * step[1]];
    (enters < leaves).then(|| [at(enters), at(leaves)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_off_at_the_ends_of_the_axes() {
        for (from, to, expected) in [
            ([-1.0, -1.0], [2.0, 2.0], Some([[0.0, 0.0], [1.0, 1.0]])),
            ([0.5, 0.5], [0.5, 3.0], Some([[0.5, 0.5], [0.5, 1.0]])),
            ([2.0, 0.0], [3.0, 1.0], None),
            ([f64::NEG_INFINITY, 0.0], [1.0, 1.0], None),
        ] {
            let found = clipped(from, to);
            assert_eq!(found.is_some(), expected.is_some(), "{from:?}");
            for (place, wanted) in found.iter().flatten().flatten().zip(expected.iter().flatten().flatten()) {
                assert!((place - wanted).abs() < 1e-12, "{found:?}");
            }
        }
    }
}
