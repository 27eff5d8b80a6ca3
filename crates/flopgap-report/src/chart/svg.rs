//! What all charts share: text that is safe and fits, and the frame.

use std::fmt::Write as _;

use super::style::file_style;
use super::widths::{LEVELS, width_of};
use crate::text::on_one_line;

/// Text within an element or an attribute.
pub(super) fn escape(text: &str) -> String {
    on_one_line(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// About how many pixels a text takes at 13 pixels of height; rather too many than too few.
pub(super) fn text_width(text: &str) -> f64 {
    text.chars()
        .map(|c| match c {
            'i' | 'j' | 'l' | 't' | 'f' | 'r' | 'I' | '.' | ',' | ':' | ';' | '\'' | '|' | ' ' | '['
            | ']' | '(' | ')' => 5.5,
            'm' | 'w' | 'M' | 'W' | '%' | '@' => 13.0,
            'A'..='Z' => 10.0,
            c if c.is_ascii() => 8.5,
            c if (c as u32) < 0x1100 => 9.5,
            _ => 14.0,
        })
        .sum()
}

/// The longest beginning of a text that fits into `pixels`, with an ellipsis where something is
/// left out.
pub(super) fn fitted(text: &str, pixels: f64) -> String {
    if text_width(text) <= pixels {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut width = 13.0;
    for c in text.chars() {
        width += text_width(c.encode_utf8(&mut [0; 4]));
        if width > pixels {
            break;
        }
        kept.push(c);
    }
    kept + "…"
}

/// The class that shows something once the chart is so wide that `fraction` of it holds `pixels`;
/// `None` when that would be wider than any chart. The empty class is always shown.
pub(super) fn shown_when(fraction: f64, pixels: f64) -> Option<String> {
    let level = (0..=LEVELS).find(|level| fraction * f64::from(width_of(*level)) >= pixels)?;
    Some(class_of(level))
}

/// The class of what is shown from a level on.
pub(super) fn class_of(level: u32) -> String {
    if level == 0 { String::new() } else { format!(" fg-n{level}") }
}

/// A position or length as a percentage of the chart's width.
pub(super) fn percent(fraction: f64) -> String {
    let text = format!("{:.4}", fraction * 100.0);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{}%", if text.is_empty() || text == "-" { "0" } else { text })
}

/// A drawing that grows: its elements, and its height.
pub(super) struct Drawing {
    title: String,
    pub(super) body: String,
    pub(super) height: f64,
}

impl Drawing {
    pub(super) fn new(title: &str) -> Self {
        Self { title: title.to_owned(), body: String::new(), height: 0.0 }
    }

    /// Adds an element.
    pub(super) fn push(&mut self, element: std::fmt::Arguments<'_>) {
        let _ = self.body.write_fmt(element);
        self.body.push('\n');
    }

    /// The element for a page that has [`page_style`](super::page_style).
    pub(super) fn for_page(&self) -> String {
        self.element("")
    }

    /// A file of its own.
    pub(super) fn for_file(&self) -> String {
        self.element(&format!("<style>{}</style>\n", file_style()))
    }

    fn element(&self, style: &str) -> String {
        let title = escape(&self.title);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"fg-chart\" role=\"img\" aria-label=\"{title}\" width=\"100%\" \
             height=\"{:.0}\">\n<title>{title}</title>\n{style}{}</svg>\n",
            self.height, self.body
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_does_not_fit_is_shortened() {
        assert_eq!(fitted("matmul", 200.0), "matmul");
        let short = fitted("a long name of a kernel", 80.0);
        assert!(short.ends_with('…') && text_width(&short) <= 90.0, "{short}");
    }

    #[test]
    fn labels_wait_for_room() {
        assert_eq!(shown_when(0.5, 100.0).unwrap(), "");
        assert_eq!(shown_when(0.5, 200.0).unwrap(), " fg-n1");
        assert_eq!(shown_when(0.5, 201.0).unwrap(), " fg-n2");
        assert_eq!(shown_when(0.000_1, 200.0), None);
        assert_eq!(percent(0.123_456_789), "12.3457%");
        assert_eq!(
            (percent(0.0), percent(1.0), percent(-0.1)),
            ("0%".to_owned(), "100%".to_owned(), "-10%".to_owned())
        );
    }
}
