//! Labels that keep clear of each other, and other things that every plot has.

use super::{Across, Point, Svg, TEXT, font};

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

/// The labels of an axis below a plot, by their places from 0 to 1: which there is room for, each
/// with the class that shows it once there is.
pub(crate) fn along(svg: &Svg, share: f64, places: &[(f64, &str)], size: f64) -> Vec<(usize, String)> {
    let mut labels: Vec<(usize, String)> = Vec::new();
    for (room, class) in svg.rooms(share) {
        let text_box =
            |(place, text): &(f64, &str)| TextBox::new((place * room, 0.0), font::width(text, size), size);
        let boxes: Vec<TextBox> = places.iter().map(text_box).collect();
        for index in without_overlap(&boxes, 0.45 * size) {
            if labels.iter().all(|label| label.0 != index) {
                labels.push((index, class.clone()));
            }
        }
    }
    labels
}

/// The labels of an upright axis of this height, by their places from 0 to 1 upwards: those that
/// there is room for.
pub(crate) fn upwards(height: f64, places: impl Iterator<Item = f64>, size: f64) -> Vec<usize> {
    let boxes: Vec<TextBox> = places.map(|place| TextBox::new((0.0, -place * height), 1.0, size)).collect();
    without_overlap(&boxes, 0.0)
}

/// The class that shows a text once a share of the drawing has room for it; `None` when that would
/// be wider than any chart. The empty class is always shown.
pub(crate) fn shown_when(svg: &Svg, share: f64, text: &str) -> Option<String> {
    let pixels = font::width(text, TEXT) + 12.0;
    svg.rooms(share).find(|(room, _)| *room >= pixels).map(|(_, class)| class)
}

/// The mark of what was planned and not measured.
pub(crate) fn cross(svg: &mut Svg, (x, y): (Across, f64), half: f64) {
    svg.within(x, y, Across::Share(1.0), |svg| {
        for up in [-half, half] {
            svg.line("fg-missing", (Across::Pixels(-half), up), (Across::Pixels(half), -up));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::super::style::{LEVELS, width_of};
    use super::*;

    fn row(count: usize, pitch: f64) -> Vec<TextBox> {
        (0..count).map(|i| TextBox::new((i as f64 * pitch, 0.0), 30.0, 14.0)).collect()
    }

    #[test]
    fn labels_thin_out_at_equal_steps_and_keep_the_last() {
        for (count, pitch, expected) in [
            (4, 40.0, &[0, 1, 2, 3][..]),
            (5, 20.0, &[0, 2, 4]),
            (16, 12.0, &[3, 7, 11, 15]),
            (6, 20.0, &[1, 3, 5]),
            (2, 1.0, &[1]),
            (0, 1.0, &[]),
            (1, 1.0, &[0]),
        ] {
            assert_eq!(without_overlap(&row(count, pitch), 4.0), expected, "{count} at {pitch}");
        }
    }

    #[test]
    fn a_box_beside_a_point_keeps_its_gap() {
        let text = TextBox::beside((0.0, 0.0), (1.0, 0.0), 8.0, 40.0, 10.0);
        assert_eq!(text.center, (28.0, 0.0));
        assert!(text.touches(&TextBox::new((0.0, 0.0), 0.0, 0.0), 9.0));
        assert!(!text.touches(&TextBox::new((0.0, 0.0), 0.0, 0.0), 8.0));
    }

    /// Before, labels lay over each other on wide charts, and spans of the axis had none.
    #[test]
    fn labels_of_a_chart_never_touch_and_leave_no_gap() {
        let texts: Vec<String> = (0..=40).map(|n| (n * 50).to_string()).collect();
        let places: Vec<(f64, &str)> =
            texts.iter().enumerate().map(|(n, text)| (n as f64 / 40.0, text.as_str())).collect();
        let labels = along(&Svg::default(), 0.85, &places, TEXT);
        assert_eq!(labels.len(), 41);
        for level in 0..=LEVELS {
            let room = f64::from(width_of(level)) * 0.85;
            let is_shown = |class: &str| class.is_empty() || class[4..].parse::<u32>().unwrap() <= level;
            let mut shown: Vec<usize> =
                labels.iter().filter(|label| is_shown(&label.1)).map(|label| label.0).collect();
            shown.sort_unstable();
            assert_eq!(shown.last(), Some(&40));
            for pair in shown.windows(2) {
                let apart = (places[pair[1]].0 - places[pair[0]].0) * room;
                let [one, other] = [pair[0], pair[1]].map(|index| font::width(places[index].1, TEXT));
                assert!(apart >= f64::midpoint(one, other) + 5.8, "{pair:?} at {room}");
                assert!(apart <= 100.0 || shown.len() == 41, "nothing between {pair:?} at {room}");
            }
        }
    }

    #[test]
    fn text_waits_for_room() {
        // Ten figures of 8.27 pixels, and 12 around them.
        let class = |share| shown_when(&Svg::default(), share, "0123456789");
        for (share, expected) in
            [(0.7, Some("")), (0.5, Some("fg-n1")), (0.35, Some("fg-n2")), (0.000_1, None)]
        {
            assert_eq!(class(share).as_deref(), expected, "{share}");
        }
    }
}
