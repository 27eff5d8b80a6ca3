use std::sync::OnceLock;

use plotters::{
    coord::Shift,
    drawing::{DrawingArea, DrawingAreaErrorKind},
    element::{Circle, PathElement, Polygon, Rectangle},
    prelude::DrawingBackend,
    style::{
        Color, FontDesc, FontFamily, FontStyle, FontTransform, RGBColor, ShapeStyle, TextStyle,
        register_font,
        text_anchor::{HPos, Pos, VPos},
    },
};

use crate::palette::Rgb;
use crate::text::on_one_line;

/// The bundled font. The list is what an SVG viewer without it falls back to; Verdana has nearly
/// the same widths.
const FONT: &str = "DejaVu Sans, Verdana, sans-serif";
static FONT_FILE: &[u8] = include_bytes!("../../assets/fonts/DejaVuSans.ttf");

/// Plotters centers text on its line or on its lower-case letters; figures and capitals are
/// centered this share of the em farther down.
const BELOW_CENTER: f64 = 0.1;

/// What a drawing call returns: nothing, or what the backend said.
pub(crate) type Drawn = Result<(), String>;

/// A point in logical pixels, x to the right and y down.
pub(crate) type Point = (f64, f64);

/// A drawing area in logical pixels, independent of the resolution that the backend draws at.
///
/// Plotters places everything at whole backend pixels; a `scale` above 1 gives fractions of a
/// logical pixel.
pub(crate) struct Canvas<'a, DB: DrawingBackend> {
    area: &'a DrawingArea<DB, Shift>,
    scale: f64,
    /// Pieces of surface that the picture affords: more make smoother colors, and in vector formats
    /// a larger file.
    pub(crate) pieces: usize,
    /// Width in logical pixels.
    pub(crate) width: f64,
    /// Height in logical pixels.
    pub(crate) height: f64,
}

/// Where a text stands relative to its point, horizontally. Vertically it is always centered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Left,
    Center,
    Right,
}

impl<'a, DB: DrawingBackend> Canvas<'a, DB> {
    pub(crate) fn new(area: &'a DrawingArea<DB, Shift>, scale: f64, pieces: usize) -> Result<Self, String> {
        static REGISTERED: OnceLock<bool> = OnceLock::new();
        let registered =
            *REGISTERED.get_or_init(|| register_font(FONT, FontStyle::Normal, FONT_FILE).is_ok());
        if !registered {
            return Err("the bundled font could not be read".to_owned());
        }
        let (width, height) = area.dim_in_pixel();
        Ok(Self { area, scale, pieces, width: f64::from(width) / scale, height: f64::from(height) / scale })
    }

    pub(crate) fn clear(&self, color: Rgb) -> Drawn {
        self.area.fill(&rgb(color)).map_err(said)
    }

    pub(crate) fn polygon(&self, points: &[Point], color: Rgb) -> Drawn {
        let points: Vec<_> = points.iter().map(|point| self.pixel(*point)).collect();
        self.area.draw(&Polygon::new(points, rgb(color).filled())).map_err(said)
    }

    pub(crate) fn line(&self, points: &[Point], color: Rgb, width: f64) -> Drawn {
        let points: Vec<_> = points.iter().map(|point| self.pixel(*point)).collect();
        self.area.draw(&PathElement::new(points, self.stroke(color, width))).map_err(said)
    }

    pub(crate) fn rectangle(&self, corner: Point, opposite: Point, color: Rgb) -> Drawn {
        let corners = [self.pixel(corner), self.pixel(opposite)];
        self.area.draw(&Rectangle::new(corners, rgb(color).filled())).map_err(said)
    }

    /// A dot with a white rim, so that it shows on every color.
    pub(crate) fn dot(&self, center: Point, radius: f64, color: Rgb) -> Drawn {
        for (radius, color) in [(radius + 1.0, (255, 255, 255)), (radius, color)] {
            let circle = Circle::new(self.pixel(center), self.length(radius), rgb(color).filled());
            self.area.draw(&circle).map_err(said)?;
        }
        Ok(())
    }

    /// One line of text, centered vertically on `at`.
    pub(crate) fn text(&self, text: &str, at: Point, size: f64, color: Rgb, anchor: Anchor) -> Drawn {
        let horizontal = match anchor {
            Anchor::Left => HPos::Left,
            Anchor::Center => HPos::Center,
            Anchor::Right => HPos::Right,
        };
        let style = self.style(size, color).pos(Pos::new(horizontal, VPos::Center));
        let at = (at.0, at.1 + size * BELOW_CENTER);
        self.area.draw_text(&on_one_line(text), &style, self.pixel(at)).map_err(said)
    }

    /// One line of text that reads upwards, centered on `at`.
    pub(crate) fn text_upwards(&self, text: &str, at: Point, size: f64, color: Rgb) -> Drawn {
        let style = self
            .style(size, color)
            .transform(FontTransform::Rotate270)
            .pos(Pos::new(HPos::Center, VPos::Center));
        let at = (at.0 + size * BELOW_CENTER, at.1);
        self.area.draw_text(&on_one_line(text), &style, self.pixel(at)).map_err(said)
    }

    /// Width of a text in logical pixels.
    pub(crate) fn text_width(&self, text: &str, size: f64) -> Result<f64, String> {
        let (width, _) =
            self.area.estimate_text_size(&on_one_line(text), &self.style(size, (0, 0, 0))).map_err(said)?;
        Ok(f64::from(width) / self.scale)
    }

    /// The largest of the sizes from `size` down to `least` at which the text fits into `width`,
    /// and the text, which ends in an ellipsis if even the least size is too large.
    pub(crate) fn fit(&self, text: &str, size: f64, least: f64, width: f64) -> Result<(String, f64), String> {
        let mut fitted = size;
        while fitted > least && self.text_width(text, fitted)? > width {
            fitted -= 0.5;
        }
        let mut shown = text.to_owned();
        if self.text_width(&shown, fitted)? <= width {
            return Ok((shown, fitted));
        }
        while self.text_width(&format!("{shown}…"), fitted)? > width && shown.pop().is_some() {}
        Ok((format!("{}…", shown.trim_end()), fitted))
    }

    fn style(&self, size: f64, color: Rgb) -> TextStyle<'static> {
        // Plotters takes the line height, 1.164 times the em of this font; callers give the em.
        let font = FontDesc::new(FontFamily::Name(FONT), size * self.scale * 1.164, FontStyle::Normal);
        TextStyle { color: rgb(color).to_backend_color(), ..TextStyle::from(font) }
    }

    fn stroke(&self, color: Rgb, width: f64) -> ShapeStyle {
        rgb(color).stroke_width(self.length(width))
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "lengths are a few pixels and at least one"
    )]
    fn length(&self, logical: f64) -> u32 {
        (logical * self.scale).round().max(1.0) as u32
    }

    #[expect(clippy::cast_possible_truncation, reason = "a float cast saturates; nothing is drawn out there")]
    fn pixel(&self, (x, y): Point) -> (i32, i32) {
        ((x * self.scale).round() as i32, (y * self.scale).round() as i32)
    }
}

fn rgb((r, g, b): Rgb) -> RGBColor {
    RGBColor(r, g, b)
}

#[expect(clippy::needless_pass_by_value, reason = "so that it fits `map_err`")]
fn said<E: std::error::Error + Send + Sync>(error: DrawingAreaErrorKind<E>) -> String {
    error.to_string()
}
