//! The bundled font: how wide texts are, and their outlines for pictures of pixels.

use std::fmt::Write as _;
use std::sync::LazyLock;

use ttf_parser::{Face, OutlineBuilder};

use super::{Number, Point};
use crate::text::on_one_line;

static FACE: LazyLock<Option<Face<'static>>> =
    LazyLock::new(|| Face::parse(include_bytes!("../../assets/fonts/DejaVuSans.ttf"), 0).ok());

/// How far the base line is below the middle of digits and capitals, as a share of the letters'
/// height.
pub(super) const BELOW_MIDDLE: f64 = 0.36;
/// What is reserved for a character that the font does not have, as a share of its height.
const UNKNOWN: f64 = 1.1;

/// Width of a text in pixels. Other fonts without serifs are narrower.
pub(crate) fn width(text: &str, size: f64) -> f64 {
    let advance = |c| {
        let face = FACE.as_ref()?;
        let advance = face.glyph_hor_advance(face.glyph_index(c)?)?;
        Some(f64::from(advance) / f64::from(face.units_per_em()))
    };
    on_one_line(text).chars().map(|c| size * advance(c).unwrap_or(UNKNOWN)).sum()
}

/// The text at the largest of the sizes from `size` down to `least` at which it fits, and that
/// size; it ends in an ellipsis if even the least is too large.
pub(crate) fn fit(text: &str, size: f64, least: f64, room: f64) -> (String, f64) {
    let mut fitted = size;
    while fitted > least && width(text, fitted) > room {
        fitted -= 0.5;
    }
    if width(text, fitted) <= room {
        return (text.to_owned(), fitted);
    }
    let mut shown = text.to_owned();
    while width(&format!("{shown}…"), fitted) > room && shown.pop().is_some() {}
    (format!("{}…", shown.trim_end()), fitted)
}

/// The outlines of a text as the data of a path.
pub(super) fn outline(text: &str, (mut x, y): Point, size: f64) -> String {
    let Some(face) = FACE.as_ref() else { return String::new() };
    let scale = size / f64::from(face.units_per_em());
    let mut data = String::new();
    for c in on_one_line(text).chars() {
        // The first glyph stands for what the font does not have.
        let glyph = face.glyph_index(c).unwrap_or_default();
        face.outline_glyph(glyph, &mut Outline { data: &mut data, origin: (x, y), scale });
        x += f64::from(face.glyph_hor_advance(glyph).unwrap_or_default()) * scale;
    }
    data
}

struct Outline<'a> {
    data: &'a mut String,
    origin: Point,
    scale: f64,
}

impl Outline<'_> {
    fn command(&mut self, letter: char, points: &[(f32, f32)]) {
        self.data.push(letter);
        for (x, y) in points {
            let (x, y) = (f64::from(*x) * self.scale, f64::from(*y) * self.scale);
            let _ = write!(self.data, "{} {} ", Number(self.origin.0 + x), Number(self.origin.1 - y));
        }
    }
}

impl OutlineBuilder for Outline<'_> {
    fn move_to(&mut self, x: f32, y: f32) {
        self.command('M', &[(x, y)]);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        self.command('L', &[(x, y)]);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        self.command('Q', &[(x1, y1), (x, y)]);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        self.command('C', &[(x1, y1), (x2, y2), (x, y)]);
    }

    fn close(&mut self) {
        self.data.push('Z');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_does_not_fit_is_smaller_and_then_shortened() {
        // DejaVu Sans has figures of 1303 and spaces of 651 units, 2048 to the em.
        assert!((width("12 3", 20.48) - (3.0 * 13.03 + 6.51)).abs() < 1e-9);
        assert_eq!(fit("matmul", 13.0, 9.0, 200.0), ("matmul".to_owned(), 13.0));
        let (text, size) = fit("a long name", 13.0, 9.0, 70.0);
        assert!(text == "a long name" && size < 13.0 && width(&text, size) <= 70.0, "{size}");
        let (text, size) = fit("a long name of a kernel", 13.0, 13.0, 80.0);
        assert!(text.ends_with('…') && width(&text, size) <= 80.0, "{text}");
    }
}
