//! Colors and the style sheet of charts.

use std::fmt::Write as _;

use super::widths::{FIRST_WIDTH, LEVELS, width_of};
use crate::palette::{CATEGORIES_DARK, CATEGORIES_LIGHT, DARK, LIGHT, Rgb, Theme, hex, letters_on};

/// A color of the charts: one of sixteen that can be distinguished, or gray for the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Color(u8);

impl Color {
    /// For what stands out from nothing: the rest, or the unknown.
    pub const NEUTRAL: Self = Self(16);

    /// One of the sixteen, counted around: 0 and 16 are the same.
    #[expect(clippy::cast_possible_truncation, reason = "below 16")]
    pub const fn nth(index: usize) -> Self {
        Self((index % 16) as u8)
    }

    /// How many there are.
    pub(super) const COUNT: usize = 17;

    /// Its number, below [`Color::COUNT`].
    pub(super) const fn index(self) -> u8 {
        self.0
    }

    /// The color of a number.
    #[expect(clippy::cast_possible_truncation, reason = "below 17")]
    pub(super) const fn of_index(index: usize) -> Self {
        Self((index % Self::COUNT) as u8)
    }

    /// Its color on white paper.
    pub(crate) fn rgb(self) -> Rgb {
        hex(CATEGORIES_LIGHT[usize::from(self.0)])
    }

    /// Its name in the style sheet.
    pub(super) fn class(self) -> String {
        format!("fg-c{}", self.0)
    }
}

const RULES: &str = "\
.fg-chart{display:block;font:13px system-ui,\"Segoe UI\",\"DejaVu Sans\",sans-serif;font-variant-numeric:tabular-nums}
.fg-ink{fill:var(--fg-ink)}.fg-muted{fill:var(--fg-muted)}.fg-on{pointer-events:none}.fg-strong{font-weight:600}
.fg-end{text-anchor:end}.fg-middle{text-anchor:middle}
.fg-cut{stroke:var(--fg-paper);stroke-width:1}.fg-line{stroke:var(--fg-line);stroke-width:1}.fg-track{fill:var(--fg-raised)}
.fg-guide{stroke:var(--fg-muted);stroke-width:1.5}.fg-dashed{stroke-dasharray:5 4}.fg-dot{fill-opacity:.6;stroke:none}
";

fn variables(theme: &Theme, categories: &[&str]) -> String {
    let Theme { paper, raised, ink, muted, line } = theme;
    let mut css = format!(
        "--fg-paper:{paper};--fg-raised:{raised};--fg-ink:{ink};--fg-muted:{muted};--fg-line:{line};"
    );
    for (index, color) in categories.iter().enumerate() {
        let _ = write!(css, "--fg-c{index}:{color};--fg-on{index}:{};", letters_on(color));
    }
    css
}

/// `query` begins a rule that holds from a width on: `@container` within a page, `@media` in a file
/// of its own.
fn style(query: &str) -> String {
    let light = variables(&LIGHT, &CATEGORIES_LIGHT);
    let dark = variables(&DARK, &CATEGORIES_DARK);
    let mut css =
        format!(".fg-chart{{{light}}}\n@media (prefers-color-scheme:dark){{.fg-chart{{{dark}}}}}\n{RULES}");
    for index in 0..CATEGORIES_LIGHT.len() {
        let _ = write!(
            css,
            ".fg-c{index}{{fill:var(--fg-c{index});stroke:var(--fg-c{index})}}.fg-on{index}{{fill:var(--fg-on{index})}}"
        );
    }
    css.push('\n');
    for level in 1..=LEVELS {
        let width = width_of(level);
        let _ = write!(
            css,
            ".fg-n{level}{{display:none}}{query} (min-width:{width}px){{.fg-n{level}{{display:inline}}}}"
        );
    }
    css.push('\n');
    css
}

/// The style of charts within a page. They stand in an element of class `fg-inner`.
pub(crate) fn page_style() -> String {
    format!("{}.fg-inner{{container-type:inline-size;min-width:{FIRST_WIDTH}px}}\n", style("@container"))
}

/// The style of a chart that is a file.
pub(super) fn file_style() -> String {
    style("@media")
}
