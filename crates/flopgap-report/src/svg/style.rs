//! Colors and the style sheet of everything that is drawn.

use std::fmt::Write as _;

use crate::palette::{CATEGORIES_DARK, CATEGORIES_LIGHT, DARK, LIGHT, Theme, letters_on};

/// The number of widths, beyond the first, at which charts show more. Labels that need more than
/// the last are left out.
pub(crate) const LEVELS: u32 = 18;

/// The width of a level in pixels: 150, 200, 300, 400, 600, … 76,800.
pub(crate) const fn width_of(level: u32) -> u32 {
    let base = if level.is_multiple_of(2) { 150 } else { 200 };
    base << (level / 2)
}

/// The class of what is shown from a level on.
pub(crate) fn class_of(level: u32) -> String {
    if level == 0 { String::new() } else { format!("fg-n{level}") }
}

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

    /// Its number, below 17.
    pub(crate) const fn index(self) -> u8 {
        self.0
    }

    /// Its name in the style sheet.
    pub(crate) fn class(self) -> String {
        format!("fg-c{}", self.0)
    }
}

const RULES: &str = include_str!("../../assets/page/chart.css");

/// The names and values of a theme's colors.
fn variables(theme: Theme, categories: &[&str]) -> Vec<(String, String)> {
    let around = theme.into_iter().map(|(name, color)| (name.to_owned(), color));
    let categories = categories.iter().enumerate();
    let categories = categories.flat_map(|(index, color)| {
        [(format!("c{index}"), *color), (format!("on{index}"), letters_on(color))]
    });
    around.chain(categories).map(|(name, color)| (format!("--fg-{name}"), color.to_owned())).collect()
}

/// Rules of all classes, in variables.
fn rules() -> String {
    let mut css = String::new();
    for index in 0..CATEGORIES_LIGHT.len() {
        let _ = write!(
            css,
            ".fg-c{index}{{fill:var(--fg-c{index});stroke:var(--fg-c{index})}}.fg-on{index}{{fill:var(--fg-on{index})}}"
        );
    }
    // Below the colors, whose outline some replace.
    css + RULES
}

/// `query` begins a rule that holds from a width on: `@container` within a page, `@media` in a file
/// of its own.
fn chart_style(query: &str) -> String {
    let [light, dark] = [(LIGHT, CATEGORIES_LIGHT), (DARK, CATEGORIES_DARK)].map(|(theme, categories)| {
        let variables = variables(theme, &categories).into_iter();
        variables.map(|(name, color)| format!("{name}:{color};")).collect::<Vec<_>>().concat()
    });
    let mut css = format!(
        ".fg-chart{{{light}display:block;font-family:system-ui,\"Segoe UI\",\"DejaVu Sans\",sans-serif;font-variant-numeric:tabular-nums}}\n\
         @media (prefers-color-scheme:dark){{.fg-chart{{{dark}}}}}\n{}",
        rules()
    );
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
    let inner = ".fg-inner{container-type:inline-size;min-width:300px}\n";
    format!("{}{inner}", chart_style("@container"))
}

/// The style of a chart that is a file.
pub(super) fn file_style() -> String {
    chart_style("@media")
}

/// The style of a picture: always light, and without what only browsers know.
pub(super) fn picture_style() -> String {
    let mut css = rules();
    for (name, color) in variables(LIGHT, &CATEGORIES_LIGHT) {
        css = css.replace(&format!("var({name})"), &color);
    }
    format!(".fg-chart{{font-family:\"DejaVu Sans\",Verdana,sans-serif}}\n{css}")
}
