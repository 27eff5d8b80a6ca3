//! Stacked bars of shares.

use std::fmt::Write as _;

use super::Color;
use super::svg::{Drawing, escape, fitted, percent, shown_when, text_width};
use crate::{ReportError, numbers};

/// Of what one or several wholes are made: a bar for each, and below them a legend with the
/// numbers.
///
/// ```
/// use flopgap_report::chart::{Bar, Color, Part, ShareBars, Slice};
///
/// let part = |label: &str, n| Part { label: label.to_owned(), color: Color::nth(n) };
/// let slice = |ms: f64| Slice { value: ms, text: format!("{ms} ms") };
/// let shares = ShareBars::new(
///     "GPU time by class",
///     vec![part("matmul", 0), part("softmax", 1)],
///     vec![Bar { label: "inference".to_owned(), total: "8 ms".to_owned(), slices: vec![slice(6.0), slice(2.0)] }],
/// )?;
/// assert!(shares.to_svg().starts_with("<svg "));
/// assert_eq!(shares.to_text(8), "\
/// inference  8 ms
///   matmul   ██████     75.0%  6 ms
///   softmax  ██         25.0%  2 ms
/// ");
/// # Ok::<(), flopgap_report::ReportError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ShareBars {
    title: String,
    parts: Vec<Part>,
    bars: Vec<Bar>,
}

/// A kind of part, the same in every bar.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Its name.
    pub label: String,
    /// Its color.
    pub color: Color,
}

/// One whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// Its name.
    pub label: String,
    /// How large it is, as the reader sees it; may be empty.
    pub total: String,
    /// How much of each part there is, in the order of the parts.
    pub slices: Vec<Slice>,
}

/// How much there is of a part.
#[derive(Debug, Clone, PartialEq)]
pub struct Slice {
    /// The amount. Shares are of the sum over a bar.
    pub value: f64,
    /// The amount as the reader sees it.
    pub text: String,
}

/// Height of a bar, and of a line of text, in pixels.
const BAR: f64 = 30.0;
const LINE: f64 = 20.0;
/// Width of a column of shares in the legend, in pixels.
const SHARE: f64 = 68.0;
/// Pixels that the legend may take at the least width.
const ROOM: f64 = 440.0;

impl Bar {
    fn share(&self, at: usize) -> f64 {
        self.slices[at].value / self.slices.iter().map(|slice| slice.value).sum::<f64>()
    }
}

impl ShareBars {
    /// Bars over the same parts.
    ///
    /// # Errors
    /// [`ReportError::InvalidPlot`] when a bar has not one slice for each part, or a negative or
    /// infinite one; [`ReportError::NothingToDraw`] when there is no bar, or one whose amounts are
    /// all zero.
    pub fn new(title: impl Into<String>, parts: Vec<Part>, bars: Vec<Bar>) -> Result<Self, ReportError> {
        let title = title.into();
        let invalid = |reason| ReportError::InvalidPlot { title: title.clone(), reason };
        for bar in &bars {
            if bar.slices.len() != parts.len() {
                let (found, expected) = (bar.slices.len(), parts.len());
                return Err(invalid(format!(
                    "bar `{}` has {found} slices, there are {expected} parts",
                    bar.label
                )));
            }
            if let Some(at) =
                bar.slices.iter().position(|slice| !(slice.value >= 0.0 && slice.value.is_finite()))
            {
                let value = bar.slices[at].value;
                return Err(invalid(format!(
                    "bar `{}`, part `{}`: a share of {value}",
                    bar.label, parts[at].label
                )));
            }
        }
        let empty = bars.iter().find(|bar| bar.slices.iter().all(|slice| slice.value == 0.0));
        let reason = match empty {
            Some(bar) => format!("bar `{}` has only zeros", bar.label),
            None if bars.is_empty() => "there is no bar".to_owned(),
            None => return Ok(Self { title, parts, bars }),
        };
        Err(ReportError::NothingToDraw { title, reason })
    }

    /// What the chart shows.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The chart as an SVG document.
    pub fn to_svg(&self) -> String {
        self.draw().for_file()
    }

    /// The chart for a page.
    pub(crate) fn to_page(&self) -> String {
        self.draw().for_page()
    }

    /// The chart in letters, for a terminal: each part with a bar of at most `width` blocks.
    pub fn to_text(&self, width: usize) -> String {
        let columns = |text: &str| text.chars().count();
        let names = self.parts.iter().map(|part| columns(&part.label)).max().unwrap_or_default();
        let mut out = String::new();
        for bar in &self.bars {
            let _ = writeln!(out, "{}", format!("{}  {}", bar.label, bar.total).trim_end());
            for (at, (part, slice)) in self.parts.iter().zip(&bar.slices).enumerate() {
                let share = bar.share(at);
                let blocks = blocks(share, width);
                let share = numbers::percent(share, 1);
                let _ = writeln!(
                    out,
                    "  {}{}  {blocks}{}  {share:>6}  {}",
                    part.label,
                    " ".repeat(names - columns(&part.label)),
                    " ".repeat(width.saturating_sub(columns(&blocks))),
                    slice.text
                );
            }
        }
        out
    }

    /// A letter for each bar when there are several: the legend's columns are too narrow for names.
    fn letter(&self, bar: usize) -> Option<char> {
        if self.bars.len() < 2 { None } else { (b'A'..=b'Z').nth(bar).map(char::from) }
    }

    fn draw(&self) -> Drawing {
        let mut drawing = Drawing::new(&self.title);
        for (index, bar) in self.bars.iter().enumerate() {
            self.draw_bar(&mut drawing, index, bar);
        }
        self.draw_legend(&mut drawing);
        drawing
    }

    fn draw_bar(&self, drawing: &mut Drawing, index: usize, bar: &Bar) {
        let name =
            self.letter(index).map_or_else(|| bar.label.clone(), |letter| format!("{letter}  {}", bar.label));
        let y = drawing.height;
        // An inner drawing clips its text: a long name ends before the total.
        drawing.push(format_args!(
            "<svg y=\"{y:.0}\" height=\"{LINE}\" style=\"width:calc(100% - {:.0}px)\"><text class=\"fg-ink fg-strong\" x=\"0\" \
             y=\"15\">{}</text></svg>",
            text_width(&bar.total) + 12.0,
            escape(&name)
        ));
        drawing.push(format_args!(
            "<text class=\"fg-muted fg-end\" x=\"100%\" y=\"{:.0}\">{}</text>",
            y + 15.0,
            escape(&bar.total)
        ));
        let top = y + LINE + 2.0;
        let mut left = 0.0;
        for (at, part) in self.parts.iter().enumerate() {
            let share = bar.share(at);
            if share == 0.0 {
                continue;
            }
            let label = numbers::percent(share, usize::from(share < 0.1));
            drawing.push(format_args!(
                "<rect class=\"{} fg-cut\" x=\"{}\" y=\"{top:.0}\" width=\"{}\" height=\"{BAR}\"><title>{}: {} ({})</title></rect>",
                part.color.class(),
                percent(left),
                percent(share),
                escape(&part.label),
                numbers::percent(share, 2),
                escape(&bar.slices[at].text)
            ));
            // The name as well where there is always room for both.
            let long = format!("{} {label}", part.label);
            let always =
                |text: &str| shown_when(share, text_width(text) + 12.0).is_some_and(|class| class.is_empty());
            let label = if always(&long) { long } else { label };
            if let Some(class) = shown_when(share, text_width(&label) + 12.0) {
                drawing.push(format_args!(
                    "<text class=\"fg-on fg-on{} fg-middle{class}\" x=\"{}\" y=\"{:.0}\">{}</text>",
                    part.color.index(),
                    percent(left + share / 2.0),
                    top + 20.0,
                    escape(&label)
                ));
            }
            left += share;
        }
        drawing.height = top + BAR + 14.0;
    }

    fn draw_legend(&self, drawing: &mut Drawing) {
        let values =
            |bar: &Bar| bar.slices.iter().map(|slice| text_width(&slice.text)).fold(0.0, f64::max) + 8.0;
        let names = self.parts.iter().map(|part| text_width(&part.label)).fold(0.0, f64::max).min(190.0);
        let name_end = 22.0 + names;
        let count = self.bars.len() as f64;
        let with_values = name_end + self.bars.iter().map(values).sum::<f64>() + SHARE * count <= ROOM;
        let with_shares = name_end + SHARE * count <= ROOM;
        if self.bars.len() > 1 && with_shares {
            let mut x = name_end;
            for (index, bar) in self.bars.iter().enumerate() {
                x += SHARE;
                if let Some(letter) = self.letter(index) {
                    drawing.push(format_args!(
                        "<text class=\"fg-muted fg-strong fg-end\" x=\"{x:.0}\" y=\"{:.0}\">{letter}</text>",
                        drawing.height + 14.0
                    ));
                }
                if with_values {
                    x += values(bar);
                }
            }
            drawing.height += LINE;
        }
        for (at, part) in self.parts.iter().enumerate() {
            let base = drawing.height + 14.0;
            drawing.push(format_args!(
                "<rect class=\"{}\" x=\"1\" y=\"{:.0}\" width=\"12\" height=\"12\"/>",
                part.color.class(),
                base - 11.0
            ));
            drawing.push(format_args!(
                "<text class=\"fg-ink\" x=\"22\" y=\"{base:.0}\">{}</text>",
                escape(&fitted(&part.label, names))
            ));
            let mut x = name_end;
            for bar in self.bars.iter().filter(|_| with_shares) {
                x += SHARE;
                let zero = bar.slices[at].value == 0.0;
                let share = if zero { "-".to_owned() } else { numbers::percent(bar.share(at), 2) };
                drawing.push(format_args!(
                    "<text class=\"fg-ink fg-end\" x=\"{x:.0}\" y=\"{base:.0}\">{share}</text>"
                ));
                if with_values {
                    x += values(bar);
                    let text = if zero { String::new() } else { escape(&bar.slices[at].text) };
                    drawing.push(format_args!(
                        "<text class=\"fg-muted fg-end\" x=\"{x:.0}\" y=\"{base:.0}\">{text}</text>"
                    ));
                }
            }
            drawing.height += LINE;
        }
        drawing.height += 4.0;
    }
}

/// A share as blocks, to an eighth.
fn blocks(share: f64, width: usize) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share is between 0 and 1")]
    let eighths = (share * width as f64 * 8.0).round() as usize;
    let mut out = "█".repeat(eighths / 8);
    out.extend(['▏', '▎', '▍', '▌', '▋', '▊', '▉'].get((eighths % 8).wrapping_sub(1)));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars(values: &[&[f64]]) -> Result<ShareBars, ReportError> {
        let slice = |value: &f64| Slice { value: *value, text: format!("{value} <ms>") };
        let parts = (0..values[0].len()).map(|n| Part { label: format!("p&{n}"), color: Color::nth(n) });
        let bars = values.iter().map(|values| Bar {
            label: "a \"bar\"".to_owned(),
            total: "1 s".to_owned(),
            slices: values.iter().map(slice).collect(),
        });
        ShareBars::new("t", parts.collect(), bars.collect())
    }

    #[test]
    fn every_part_has_its_width_and_its_legend() {
        let svg = bars(&[&[3.0, 1.0, 0.0]]).unwrap().to_svg();
        assert!(
            svg.contains("x=\"0%\" y=\"22\" width=\"75%\"")
                && svg.contains("x=\"75%\" y=\"22\" width=\"25%\""),
            "{svg}"
        );
        assert!(svg.contains("p&amp;0: 75.00% (3 &lt;ms&gt;)"), "{svg}");
        // Three swatches, two slices.
        assert_eq!(svg.matches("<rect ").count(), 5);
    }

    #[test]
    fn several_bars_have_letters() {
        let svg = bars(&[&[3.0, 1.0], &[1.0, 1.0]]).unwrap().to_svg();
        assert!(svg.contains(">A  a &quot;bar&quot;<") && svg.contains(">B  a &quot;bar&quot;<"), "{svg}");
        assert!(svg.contains(">A</text>") && svg.contains(">B</text>"));
    }

    #[test]
    fn contradictions_are_refused() {
        assert_eq!(
            bars(&[&[1.0, -1.0]]).unwrap_err().to_string(),
            "plot `t`: bar `a \"bar\"`, part `p&1`: a share of -1"
        );
        assert!(matches!(bars(&[&[f64::NAN]]), Err(ReportError::InvalidPlot { .. })));
        assert!(matches!(bars(&[&[0.0]]), Err(ReportError::NothingToDraw { .. })));
        assert!(matches!(bars(&[&[1.0], &[1.0, 2.0]]), Err(ReportError::InvalidPlot { .. })));
        assert!(matches!(
            ShareBars::new("t", Vec::new(), Vec::new()),
            Err(ReportError::NothingToDraw { .. })
        ));
    }

    #[test]
    fn blocks_are_exact_to_an_eighth() {
        assert_eq!(blocks(1.0, 4), "████");
        assert_eq!(blocks(0.5, 3), "█▌");
        assert_eq!(blocks(0.0, 3), "");
    }
}
