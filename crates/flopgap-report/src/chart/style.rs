//! Colours and the style sheet of charts.

use std::fmt::Write as _;

use super::svg::{FIRST_WIDTH, LEVELS, width_of};

/// A colour of the charts: one of sixteen that can be told apart, or grey for what is left over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Colour(u8);

impl Colour {
    /// For what stands out from nothing: the rest, or the unknown.
    pub const NEUTRAL: Self = Self(16);

    /// One of the sixteen, counted around: 0 and 16 are the same.
    #[expect(clippy::cast_possible_truncation, reason = "below 16")]
    pub const fn nth(index: usize) -> Self {
        Self((index % 16) as u8)
    }

    /// Its name in the style sheet.
    pub(super) fn class(self) -> String {
        format!("fg-c{}", self.0)
    }
}

/// On white, below white letters: each has a contrast of at least 4.5.
const LIGHT: [&str; 17] = [
    "#1f5fa8", "#b84a00", "#0f766e", "#8f3f97", "#3f7a20", "#b3261e", "#3b4cc0", "#8a6100", "#0b7285",
    "#b0338a", "#216e4e", "#7a4b2a", "#6f42c1", "#6b6b00", "#52606d", "#9c3b5b", "#6b7280",
];
/// On black, below black letters.
const DARK: [&str; 17] = [
    "#7db2f0", "#f5a26b", "#5ecfc2", "#d9a3e0", "#9bd17a", "#f28b82", "#98a5f5", "#e6b85c", "#67c9de",
    "#ec8fce", "#74cfa5", "#cfa07e", "#b79df0", "#cfcf5e", "#a9b7c4", "#e596b0", "#9aa3af",
];

const RULES: &str = "\
.fg-chart{display:block;font:13px system-ui,\"Segoe UI\",\"DejaVu Sans\",sans-serif;font-variant-numeric:tabular-nums}
.fg-ink{fill:var(--fg-ink)}.fg-muted{fill:var(--fg-muted)}.fg-on{fill:var(--fg-on);pointer-events:none}.fg-strong{font-weight:600}
.fg-end{text-anchor:end}.fg-middle{text-anchor:middle}
.fg-cut{stroke:var(--fg-paper);stroke-width:1}.fg-line{stroke:var(--fg-line);stroke-width:1}.fg-track{fill:var(--fg-raised)}
.fg-row{transform:translateX(var(--fg-scrolled,0))}
";

fn variables(
    paper: &str,
    raised: &str,
    ink: &str,
    muted: &str,
    line: &str,
    on: &str,
    colours: &[&str],
) -> String {
    let mut css = format!(
        "--fg-paper:{paper};--fg-raised:{raised};--fg-ink:{ink};--fg-muted:{muted};--fg-line:{line};--fg-on:{on};"
    );
    for (index, colour) in colours.iter().enumerate() {
        let _ = write!(css, "--fg-c{index}:{colour};");
    }
    css
}

/// `query` begins a rule that holds from a width on: `@container` within a page, `@media` in a file of its own.
fn style(query: &str) -> String {
    let light = variables("#ffffff", "#f1f3f6", "#1f2430", "#565d6b", "#d9dce2", "#ffffff", &LIGHT);
    let dark = variables("#15181e", "#1e222b", "#e6e9ef", "#a4abb8", "#363c48", "#10131a", &DARK);
    let mut css =
        format!(".fg-chart{{{light}}}\n@media (prefers-color-scheme:dark){{.fg-chart{{{dark}}}}}\n{RULES}");
    for index in 0..LIGHT.len() {
        let _ = write!(css, ".fg-c{index}{{fill:var(--fg-c{index});stroke:var(--fg-c{index})}}");
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

#[cfg(test)]
mod tests {
    use super::*;

    fn luminance(colour: &str) -> f64 {
        let channel = |at: usize| {
            let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    }

    fn contrast(a: &str, b: &str) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    /// The threshold is that of WCAG 2.1, level AA, for text.
    #[test]
    fn letters_stand_out_from_every_colour() {
        for (theme, letters) in [(LIGHT, "#ffffff"), (DARK, "#10131a")] {
            for colour in theme {
                assert!(contrast(colour, letters) >= 4.5, "{colour}: {}", contrast(colour, letters));
            }
        }
    }
}
