//! What every plot has: colors, heading, labels that keep clear of each other.

use plotters::prelude::DrawingBackend;

use super::canvas::{Anchor, Canvas, Drawn, Point};
use crate::palette::{INK, MUTED};

/// Space between the contents and the border of the picture, in logical pixels.
pub(crate) const MARGIN: f64 = 28.0;
pub(crate) const TICK_SIZE: f64 = 14.0;
pub(crate) const LABEL_SIZE: f64 = 16.0;
/// Height of the heading: nothing else is drawn above.
pub(crate) const HEADING: f64 = 84.0;

const TITLE_SIZE: f64 = 23.0;
const SUBTITLE_SIZE: f64 = 15.0;
const LEAST_SIZE: f64 = 11.0;

/// Draws title and subtitle, shrunk to the width of the picture if need be.
pub(crate) fn heading<DB: DrawingBackend>(canvas: &Canvas<'_, DB>, title: &str, subtitle: &str) -> Drawn {
    let width = canvas.width - 2.0 * MARGIN;
    let (title, size) = canvas.fit(title, TITLE_SIZE, LEAST_SIZE, width)?;
    canvas.text(&title, (MARGIN, 36.0), size, INK, Anchor::Left)?;
    let (subtitle, size) = canvas.fit(subtitle, SUBTITLE_SIZE, LEAST_SIZE, width)?;
    canvas.text(&subtitle, (MARGIN, 66.0), size, MUTED, Anchor::Left)
}

/// The mark of what was planned and not measured.
pub(crate) fn cross<DB: DrawingBackend>(canvas: &Canvas<'_, DB>, (x, y): Point, half: f64) -> Drawn {
    canvas.line(&[(x - half, y - half), (x + half, y + half)], MUTED, 1.2)?;
    canvas.line(&[(x - half, y + half), (x + half, y - half)], MUTED, 1.2)
}

/// The upright rectangle that a text covers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TextBox {
    pub(crate) center: Point,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

impl TextBox {
    /// The box of a text of this width and size around `center`.
    pub(crate) fn new(center: Point, width: f64, size: f64) -> Self {
        Self { center, width, height: size * 1.2 }
    }

    /// The box next to a point: moved along `direction` until its border is `gap` away.
    pub(crate) fn beside(point: Point, direction: Point, gap: f64, width: f64, size: f64) -> Self {
        let reach = gap + direction.0.abs() * width / 2.0 + direction.1.abs() * size * 0.6;
        Self::new((point.0 + direction.0 * reach, point.1 + direction.1 * reach), width, size)
    }

    /// Whether two boxes come nearer than `gap`.
    pub(crate) fn touches(&self, other: &Self, gap: f64) -> bool {
        (self.center.0 - other.center.0).abs() < f64::midpoint(self.width, other.width) + gap
            && (self.center.1 - other.center.1).abs() < f64::midpoint(self.height, other.height) + gap
    }
}

/// The densest choice of labels at equal steps that keep `gap` from each other: every one, every
/// second, every fourth and so on, the last one included. Sizes come in powers of two, and so do
/// the ones that are labeled.
///
/// Returns indices into `boxes`.
pub(crate) fn without_overlap(boxes: &[TextBox], gap: f64) -> Vec<usize> {
    let Some(last) = boxes.len().checked_sub(1) else { return Vec::new() };
    let clear =
        |chosen: &[usize]| chosen.windows(2).all(|pair| !boxes[pair[0]].touches(&boxes[pair[1]], gap));
    let mut step = 1;
    loop {
        let chosen: Vec<usize> = (last % step..=last).step_by(step).collect();
        if chosen.len() == 1 || clear(&chosen) {
            return chosen;
        }
        step *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(count: usize, pitch: f64) -> Vec<TextBox> {
        (0..count).map(|i| TextBox::new((i as f64 * pitch, 0.0), 30.0, 14.0)).collect()
    }

    #[test]
    fn labels_thin_out_at_equal_steps_and_keep_the_last() {
        assert_eq!(without_overlap(&row(4, 40.0), 4.0), [0, 1, 2, 3]);
        assert_eq!(without_overlap(&row(5, 20.0), 4.0), [0, 2, 4]);
        assert_eq!(without_overlap(&row(16, 12.0), 4.0), [3, 7, 11, 15]);
        assert_eq!(without_overlap(&row(6, 20.0), 4.0), [1, 3, 5]);
        assert_eq!(without_overlap(&row(2, 1.0), 4.0), [1]);
        assert_eq!(without_overlap(&[], 4.0), Vec::<usize>::new());
        assert_eq!(without_overlap(&row(1, 1.0), 4.0), [0]);
    }

    #[test]
    fn a_box_beside_a_point_keeps_its_gap() {
        let text = TextBox::beside((0.0, 0.0), (1.0, 0.0), 8.0, 40.0, 10.0);
        assert_eq!(text.center, (28.0, 0.0));
        assert!(text.touches(&TextBox::new((0.0, 0.0), 0.0, 0.0), 9.0));
        assert!(!text.touches(&TextBox::new((0.0, 0.0), 0.0, 0.0), 8.0));
    }
}
