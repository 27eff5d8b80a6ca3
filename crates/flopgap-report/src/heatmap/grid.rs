//! One grid of cells with its axes, in pictures and on pages.

use crate::axis::Axis;
use crate::svg::Across::{Pixels, Share};
use crate::svg::font::fit;
use crate::svg::labels::{along, upwards};
use crate::svg::{Anchor, Svg};

/// How cells without a value are filled: `missing` has lines in one direction, `refused` in two.
pub(crate) fn patterns() -> String {
    // Repeats are seen where their ends are rounded: they are several lines long.
    const SIDE: i32 = 32;
    let sums = || (0..=2 * SIDE).step_by(4);
    let up = sums().map(|sum| format!("M-1 {}L{} -1", sum + 1, sum + 1)).collect::<Vec<_>>().concat();
    let down =
        sums().map(|sum| format!("M-1 {}L{} {}", SIDE - sum - 1, sum, SIDE)).collect::<Vec<_>>().concat();
    let pattern = |name: &str, lines: &str| {
        format!(
            "<pattern id=\"{name}\" width=\"{SIDE}\" height=\"{SIDE}\" patternUnits=\"userSpaceOnUse\">\
             <path class=\"fg-pane\" d=\"M0 0H{SIDE}V{SIDE}H0Z\"/><path class=\"fg-edge\" d=\"{lines}\"/></pattern>\n"
        )
    };
    format!("<defs>\n{}{}</defs>\n", pattern("missing", &up), pattern("refused", &(up.clone() + &down)))
}

/// Cells lower than this have no line between them.
const SEPARATED: f64 = 5.0;

/// Cells of one size: every value of an axis gets the same room.
pub(crate) struct Grid<'a> {
    pub(crate) x: &'a Axis,
    pub(crate) y: &'a Axis,
    /// In pixels.
    pub(crate) cell_height: f64,
    /// Height of the letters.
    pub(crate) size: f64,
    /// Whether the upright axis has labels; grids of a row share them.
    pub(crate) labels_y: bool,
}

impl Grid<'_> {
    pub(crate) fn height(&self) -> f64 {
        self.cell_height * self.y.values.len() as f64
    }

    /// Pixels that labels and title of the axis below take.
    pub(crate) fn below(size: f64) -> f64 {
        3.3 * size
    }

    /// Pixels that labels and title of the upright axis take.
    pub(crate) fn before(y: &Axis, size: f64) -> f64 {
        y.scale.label_width(size) + 1.6 * size + 8.0
    }

    /// Draws the grid over the whole width, which is a `share` of a chart's. `look` has the
    /// attributes of a cell by its row, from the lowest value on, and its column, `None` where it
    /// is blank; `lined` says which have a line at their upper edge.
    pub(crate) fn draw(
        &self,
        svg: &mut Svg,
        share: f64,
        look: impl Fn(usize, usize) -> Option<String>,
        lined: impl Fn(usize, usize) -> bool,
    ) {
        let (columns, rows) = (self.x.values.len(), self.y.values.len());
        let width = 1.0 / columns as f64;
        let top = |row: usize| (rows - 1 - row) as f64 * self.cell_height;
        let class = if self.cell_height < SEPARATED { "" } else { " class=\"fg-cell\"" };
        for row in (0..rows).rev() {
            svg.group(&format!("role=\"row\"{class}"), |svg| {
                for column in 0..columns {
                    let at = (Share(column as f64 * width), top(row));
                    if let Some(attributes) = look(row, column) {
                        svg.tile(&attributes, at, (Share(width), self.cell_height));
                    }
                }
            });
        }
        svg.group("class=\"fg-steps\"", |svg| {
            // Nothing lies above the last row.
            for row in 0..rows.saturating_sub(1) {
                let marked: Vec<bool> = (0..columns).map(|column| lined(row, column)).collect();
                let mut from = 0;
                // Those of neighbors are one line.
                for run in marked.chunk_by(|a, b| a == b) {
                    let to = from + run.len();
                    if run[0] {
                        let [from, to] = [from, to].map(|column| (Share(column as f64 * width), top(row)));
                        svg.line("fg-step", from, to);
                    }
                    from = to;
                }
            }
        });
        self.draw_axes(svg, share);
    }

    fn draw_axes(&self, svg: &mut Svg, share: f64) {
        let (size, bottom) = (self.size, self.height());
        let middle = |index: usize, axis: &Axis| (index as f64 + 0.5) / axis.values.len() as f64;
        let labels = self.x.scale.ticks.iter().enumerate();
        let labels: Vec<(f64, &str)> =
            labels.map(|(index, (_, label))| (middle(index, self.x), label.as_str())).collect();
        for (index, class) in along(svg, share, &labels, size) {
            let (place, label) = labels[index];
            let class = format!("fg-muted {class}");
            svg.text(class.trim_end(), label, (Share(place), bottom + 1.1 * size), size, Anchor::Middle);
        }
        let room = svg.rooms(share).last().map_or(f64::INFINITY, |(room, _)| room);
        let (title, title_size) = fit(&self.x.label.title(None), size, 9.0, room);
        svg.text("fg-ink fg-title", &title, (Share(0.5), bottom + 2.5 * size), title_size, Anchor::Middle);
        if !self.labels_y {
            return;
        }
        let places = (0..self.y.values.len()).map(|index| middle(index, self.y));
        for index in upwards(bottom, places, size) {
            let (label, y) = (&self.y.scale.ticks[index].1, bottom * (1.0 - middle(index, self.y)));
            svg.text("fg-muted", label, (Pixels(-6.0), y), size, Anchor::End);
        }
        let (title, title_size) = fit(&self.y.label.title(None), size, 9.0, bottom);
        let left = 0.6 * size - Self::before(self.y, size);
        svg.text_upwards("fg-ink fg-title", &title, (left, bottom / 2.0), title_size);
    }
}
