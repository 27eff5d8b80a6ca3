//! Stacked bars of shares.

use std::fmt::Write as _;

use super::Color;
use crate::svg::Across::{Pixels, Share};
use crate::svg::font::{fit, width};
use crate::svg::labels::shown_when;
use crate::svg::{Anchor, Svg, TEXT};
use crate::text::escape;
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
    pub(super) parts: Vec<Part>,
    pub(super) bars: Vec<Bar>,
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
/// Classes of what is shown at any width, from 300 pixels on.
const ALWAYS: [&str; 3] = ["", "fg-n1", "fg-n2"];
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

    /// The chart for a page.
    pub(crate) fn to_page(&self) -> String {
        self.draw().for_page(&format!("role=\"img\" aria-label=\"{}\"", escape(&self.title)))
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

    fn draw(&self) -> Svg {
        let mut svg = Svg::default();
        for (index, bar) in self.bars.iter().enumerate() {
            self.draw_bar(&mut svg, index, bar);
        }
        self.draw_legend(&mut svg);
        svg
    }

    fn draw_bar(&self, svg: &mut Svg, index: usize, bar: &Bar) {
        let name =
            self.letter(index).map_or_else(|| bar.label.clone(), |letter| format!("{letter}  {}", bar.label));
        let y = svg.height + LINE / 2.0;
        // A long name ends before the total, which stands on it.
        svg.text("fg-ink fg-strong", &name, (Pixels(0.0), y), TEXT, Anchor::Start);
        svg.text("fg-muted fg-total", &bar.total, (Share(1.0), y), TEXT, Anchor::End);
        let top = svg.height + LINE + 2.0;
        let mut left = 0.0;
        for (at, part) in self.parts.iter().enumerate() {
            let (share, color) = (bar.share(at), part.color.class());
            if share == 0.0 {
                continue;
            }
            let label = numbers::percent(share, usize::from(share < 0.1));
            let title = format!("{}: {} ({})", part.label, numbers::percent(share, 2), bar.slices[at].text);
            svg.titled(&title, |svg| {
                svg.rect(&format!("{color} fg-cut"), (Share(left), top), (Share(share), BAR));
            });
            // The name as well where there is always room for both.
            let long = format!("{} {label}", part.label);
            let always = shown_when(svg, share, &long).is_some_and(|class| ALWAYS.contains(&class.as_str()));
            let label = if always { long } else { label };
            if let Some(class) = shown_when(svg, share, &label) {
                let class = format!("fg-on fg-on{} {class}", part.color.index());
                let middle = (Share(left + share / 2.0), top + BAR / 2.0);
                svg.text(class.trim_end(), &label, middle, TEXT, Anchor::Middle);
            }
            left += share;
        }
        svg.height = top + BAR + 14.0;
    }

    fn draw_legend(&self, svg: &mut Svg) {
        let widest =
            |texts: &mut dyn Iterator<Item = &str>| texts.map(|text| width(text, TEXT)).fold(0.0, f64::max);
        let values = |bar: &Bar| widest(&mut bar.slices.iter().map(|slice| slice.text.as_str())) + 8.0;
        let names = widest(&mut self.parts.iter().map(|part| part.label.as_str())).min(190.0);
        let name_end = 22.0 + names;
        let count = self.bars.len() as f64;
        let with_values = name_end + self.bars.iter().map(values).sum::<f64>() + SHARE * count <= ROOM;
        let with_shares = name_end + SHARE * count <= ROOM;
        // Where the columns of the bars end: the shares, and the values behind them.
        let mut x = name_end;
        let columns: Vec<(f64, f64)> = self
            .bars
            .iter()
            .map(|bar| {
                let share = x + SHARE;
                x = share + if with_values { values(bar) } else { 0.0 };
                (share, x)
            })
            .collect();
        if self.bars.len() > 1 && with_shares {
            for (index, column) in columns.iter().enumerate() {
                let letter = self.letter(index).map(String::from).unwrap_or_default();
                let at = (Pixels(column.0), svg.height + LINE / 2.0);
                svg.text("fg-muted fg-strong", &letter, at, TEXT, Anchor::End);
            }
            svg.height += LINE;
        }
        for (at, part) in self.parts.iter().enumerate() {
            let y = svg.height + LINE / 2.0;
            svg.rect(&part.color.class(), (Pixels(1.0), y - 6.0), (Pixels(12.0), 12.0));
            svg.text(
                "fg-ink",
                &fit(&part.label, TEXT, TEXT, names).0,
                (Pixels(22.0), y),
                TEXT,
                Anchor::Start,
            );
            for (bar, column) in self.bars.iter().zip(&columns).filter(|_| with_shares) {
                let zero = bar.slices[at].value == 0.0;
                let share = if zero { "-".to_owned() } else { numbers::percent(bar.share(at), 2) };
                svg.text("fg-ink", &share, (Pixels(column.0), y), TEXT, Anchor::End);
                if with_values && !zero {
                    svg.text("fg-muted", &bar.slices[at].text, (Pixels(column.1), y), TEXT, Anchor::End);
                }
            }
            svg.height += LINE;
        }
        svg.height += 4.0;
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
        let svg = bars(&[&[3.0, 1.0, 0.0]]).unwrap().to_page();
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
        let svg = bars(&[&[3.0, 1.0], &[1.0, 1.0]]).unwrap().to_page();
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
