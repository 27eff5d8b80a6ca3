//! The one way in which this crate draws: SVG, written element by element.
//!
//! A chart has no width of its own: places along it are shares, written as percentages, and what
//! needs room is shown by the style sheet once there is enough ([`Svg::rooms`]). A picture has a
//! width, so that shares become pixels, and can be written as PNG, for which its text becomes
//! outlines.

pub(crate) mod font;
pub(crate) mod labels;
pub(crate) mod picture;
pub(crate) mod style;

use std::fmt::{self, Display, Write as _};

use crate::palette::{Rgb, hex};
use crate::text::escape;

/// Height of letters in pixels where nothing else is said.
pub(crate) const TEXT: f64 = 13.0;

/// A point in pixels, x to the right and y down.
pub(crate) type Point = (f64, f64);

/// A place or length along the width.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Across {
    Pixels(f64),
    /// From 0 to 1 of the width that is drawn on.
    Share(f64),
}

use Across::{Pixels, Share};

/// Which end of a text stands at its place. Vertically, its middle does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// How a path looks.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Paint<'a> {
    Class(&'a str),
    /// The color that a group names as the current one.
    Current(Rgb),
    /// Color and width of the line.
    Stroke(Rgb, f64),
}

/// A drawing that grows; at first an empty chart.
#[derive(Debug, Default)]
pub(crate) struct Svg {
    body: String,
    /// The width that shares are of, in pixels; absent in a chart, which fills any width.
    width: Option<f64>,
    /// Whether letters are drawn as outlines, for a picture of pixels.
    pub(crate) outlines: bool,
    /// Where the drawing ends, for what is drawn line by line.
    pub(crate) height: f64,
}

impl Svg {
    pub(crate) fn rect(&mut self, class: &str, (x, y): (Across, f64), (width, height): (Across, f64)) {
        self.tile(Class(class).to_string().trim_start(), (x, y), (width, height));
    }

    /// A rectangle with these attributes.
    pub(crate) fn tile(&mut self, attributes: &str, (x, y): (Across, f64), (width, height): (Across, f64)) {
        let (x, width, y, height) = (self.across(x), self.across(width), Number(y), Number(height));
        let space = if attributes.is_empty() { "" } else { " " };
        self.push(format_args!(
            "<rect{space}{attributes} x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>"
        ));
    }

    /// Adds what is written as it is.
    pub(crate) fn raw(&mut self, elements: &str) {
        self.body.push_str(elements);
    }

    pub(crate) fn line(&mut self, class: &str, from: (Across, f64), to: (Across, f64)) {
        let (x1, x2) = (self.across(from.0), self.across(to.0));
        let (class, y1, y2) = (Class(class), Number(from.1), Number(to.1));
        self.push(format_args!("<line{class} x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\"/>"));
    }

    pub(crate) fn circle(&mut self, class: &str, (x, y): (Across, f64), radius: f64) {
        let (class, x, y) = (Class(class), self.across(x), Number(y));
        self.push(format_args!("<circle{class} cx=\"{x}\" cy=\"{y}\" r=\"{radius}\"/>"));
    }

    /// A dot in a picture with a rim, so that it shows on every color.
    pub(crate) fn dot(&mut self, (x, y): Point, radius: f64, color: Rgb) {
        let (x, y, color) = (Number(x), Number(y), hex(color));
        self.push(format_args!(
            "<circle class=\"fg-mark\" cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" fill=\"{color}\"/>"
        ));
    }

    /// Straight lines through points of a picture.
    pub(crate) fn path(&mut self, paint: Paint<'_>, points: &[Point]) {
        let look = match paint {
            Paint::Class(class) => Class(class).to_string(),
            Paint::Current(color) => format!(" color=\"{}\"", hex(color)),
            Paint::Stroke(color, width) => {
                format!(" fill=\"none\" stroke=\"{}\" stroke-width=\"{width}\"", hex(color))
            }
        };
        let mut places = String::new();
        for (index, (x, y)) in points.iter().enumerate() {
            let _ = write!(places, "{}{} {}", if index == 0 { "M" } else { "L" }, Number(*x), Number(*y));
        }
        self.push(format_args!("<path{look} d=\"{places}\"/>"));
    }

    /// A line of text.
    pub(crate) fn text(&mut self, class: &str, text: &str, at: (Across, f64), size: f64, anchor: Anchor) {
        self.letters(class, text, at, size, anchor, false);
    }

    /// A line of text that reads upwards, its middle at a place.
    pub(crate) fn text_upwards(&mut self, class: &str, text: &str, (x, y): Point, size: f64) {
        self.letters(class, text, (Pixels(x), y), size, Anchor::Middle, true);
    }

    fn letters(
        &mut self,
        class: &str,
        text: &str,
        (x, y): (Across, f64),
        size: f64,
        anchor: Anchor,
        upwards: bool,
    ) {
        let (class, at) = (Class(class), self.across(x));
        let turned =
            if upwards { format!(" transform=\"rotate(-90 {at} {})\"", Number(y)) } else { String::new() };
        let base = y + size * font::BELOW_MIDDLE;
        if let (true, &Across::Pixels(x)) = (self.outlines, &at.0) {
            let left = x - font::width(text, size)
                * match anchor {
                    Anchor::Start => 0.0,
                    Anchor::Middle => 0.5,
                    Anchor::End => 1.0,
                };
            let outline = font::outline(text, (left, base), size);
            return self.push(format_args!("<path{class}{turned} d=\"{outline}\"/>"));
        }
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let size = if size == TEXT { String::new() } else { format!(" font-size=\"{}\"", Number(size)) };
        let (base, text) = (Number(base), escape(text));
        self.push(format_args!("<text{class} x=\"{at}\" y=\"{base}\"{anchor}{size}{turned}>{text}</text>"));
    }

    /// Draws with shares of a part of the width, from its upper left corner.
    pub(crate) fn within(&mut self, left: Across, top: f64, width: Across, draw: impl FnOnce(&mut Self)) {
        let (left, part) = (self.across(left), self.across(width));
        let (whole, top) = (self.width, Number(top));
        let close = if let Written(Pixels(pixels)) = part
            && whole.is_some()
        {
            self.width = Some(pixels);
            self.push(format_args!("<g transform=\"translate({left} {top})\">"));
            "</g>"
        } else {
            self.push(format_args!("<svg x=\"{left}\" y=\"{top}\" width=\"{part}\" overflow=\"visible\">"));
            "</svg>"
        };
        draw(self);
        self.width = whole;
        self.push(format_args!("{close}"));
    }

    /// Draws a group with these attributes.
    pub(crate) fn group(&mut self, attributes: &str, draw: impl FnOnce(&mut Self)) {
        self.push(format_args!("<g {attributes}>"));
        draw(self);
        self.push(format_args!("</g>"));
    }

    /// Draws what shows a text where the mouse is over it.
    pub(crate) fn titled(&mut self, title: &str, draw: impl FnOnce(&mut Self)) {
        self.push(format_args!("<g><title>{}</title>", escape(title)));
        draw(self);
        self.push(format_args!("</g>"));
    }

    /// The widths in pixels that a share of the drawing may have, each with the class of what needs
    /// at least that; one width in a picture.
    pub(crate) fn rooms(&self, share: f64) -> impl Iterator<Item = (f64, String)> + use<> {
        let levels = if self.width.is_some() { 0..=0 } else { 0..=style::LEVELS };
        let width = self.width;
        levels.map(move |level| {
            (share * width.unwrap_or_else(|| f64::from(style::width_of(level))), style::class_of(level))
        })
    }

    fn push(&mut self, element: fmt::Arguments<'_>) {
        let _ = self.body.write_fmt(element);
        self.body.push('\n');
    }

    fn across(&self, place: Across) -> Written {
        Written(match (place, self.width) {
            (Share(share), Some(width)) => Pixels(share * width),
            _ => place,
        })
    }

    /// The chart within a page, whose style sheet has [`style::page_style`]. `attributes` say what
    /// it is to those who do not see it.
    pub(crate) fn for_page(&self, attributes: &str) -> String {
        self.element(&format!("{attributes} width=\"100%\" height=\"{}\"", Number(self.height)), "")
    }

    /// The chart as a file of its own.
    pub(crate) fn for_file(&self, title: &str) -> String {
        let title = escape(title);
        let attributes = format!("role=\"img\" width=\"100%\" height=\"{}\"", Number(self.height));
        self.element(
            &attributes,
            &format!("<title>{title}</title>\n<style>{}</style>\n", style::file_style()),
        )
    }

    fn element(&self, attributes: &str, head: &str) -> String {
        let body = &self.body;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"fg-chart\" {attributes}>\n{head}{body}</svg>\n"
        )
    }
}

/// The attribute of classes; none where there are none.
struct Class<'a>(&'a str);

impl Display for Class<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, " class=\"{}\"", self.0) }
    }
}

struct Written(Across);

impl Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Pixels(pixels) => write!(f, "{}", Number(pixels)),
            Share(share) => write!(f, "{}%", trimmed(&format!("{:.4}", share * 100.0))),
        }
    }
}

/// A length with as many digits as are seen.
struct Number(f64);

impl Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(trimmed(&format!("{:.2}", self.0)))
    }
}

fn trimmed(decimal: &str) -> &str {
    let text = decimal.trim_end_matches('0').trim_end_matches('.');
    if matches!(text, "" | "-" | "-0") { "0" } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(mut svg: Svg) -> String {
        svg.within(Share(0.1), 20.0, Share(0.5), |svg| {
            svg.rect("", (Share(0.123_456_789), -0.001), (Pixels(4.0), 8.5));
            svg.text("a", "x<y", (Share(1.0), 10.0), TEXT, Anchor::End);
        });
        svg.body
    }

    #[test]
    fn shares_are_percentages_in_a_chart_and_pixels_in_a_picture() {
        assert_eq!(
            drawn(Svg::default()),
            "<svg x=\"10%\" y=\"20\" width=\"50%\" overflow=\"visible\">\n\
             <rect x=\"12.3457%\" y=\"0\" width=\"4\" height=\"8.5\"/>\n\
             <text class=\"a\" x=\"100%\" y=\"14.68\" text-anchor=\"end\">x&lt;y</text>\n</svg>\n"
        );
        assert_eq!(
            drawn(Svg { width: Some(400.0), ..Svg::default() }),
            "<g transform=\"translate(40 20)\">\n<rect x=\"24.69\" y=\"0\" width=\"4\" height=\"8.5\"/>\n\
             <text class=\"a\" x=\"200\" y=\"14.68\" text-anchor=\"end\">x&lt;y</text>\n</g>\n"
        );
    }
}
