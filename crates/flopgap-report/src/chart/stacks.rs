//! Small stacked bars on one scale.

use std::fmt::Write as _;

use super::waterfall::{Drawn, ROW};
use super::{Bar, Part, ShareBars};
use crate::svg::Across::Share;
use crate::svg::Svg;
use crate::text::{columns, shorten};
use crate::{ReportError, numbers};

/// Of what some wholes are made, which are compared: a small bar for each, as long as it is.
///
/// ```
/// use flopgap_report::chart::{Bar, Color, Part, Slice, Stacks};
///
/// let part = |label: &str, n| Part { label: label.to_owned(), color: Color::nth(n) };
/// let slice = |ms: f64| Slice { value: ms, text: format!("{ms} ms") };
/// let bar = |label: &str, ms: [f64; 2]| Bar {
///     label: label.to_owned(),
///     total: format!("{} ms", ms[0] + ms[1]),
///     slices: ms.map(slice).to_vec(),
/// };
/// let stacks = Stacks::new(
///     "A step by rank",
///     vec![part("computing", 0), part("waiting", 1)],
///     vec![bar("rank 0", [6.0, 2.0]), bar("rank 1", [4.0, 0.0])],
/// )?;
/// assert_eq!(stacks.to_text(8), "\
/// rank 0  8 ms  AAAAAABB
/// rank 1  4 ms  AAAA
/// A computing, B waiting
/// ");
/// # Ok::<(), flopgap_report::ReportError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Stacks(ShareBars);

/// Height of a bar, in pixels.
const BAR: f64 = 18.0;

impl Stacks {
    /// Bars over the same parts. A part that no bar has does not appear.
    ///
    /// # Errors
    /// Those of [`ShareBars::new`].
    pub fn new(title: impl Into<String>, parts: Vec<Part>, bars: Vec<Bar>) -> Result<Stacks, ReportError> {
        ShareBars::new(title, parts, bars).map(Stacks)
    }

    /// What the chart shows.
    pub fn title(&self) -> &str {
        self.0.title()
    }

    fn whole(bar: &Bar) -> f64 {
        bar.slices.iter().map(|slice| slice.value).sum()
    }

    /// What fills the width: the longest bar.
    fn longest(&self) -> f64 {
        self.0.bars.iter().map(Self::whole).fold(0.0, f64::max)
    }

    /// The parts that a bar has, by their place.
    fn parts(&self) -> impl Iterator<Item = (usize, &Part)> {
        let is_there = |at: usize| self.0.bars.iter().any(|bar| bar.slices[at].value > 0.0);
        self.0.parts.iter().enumerate().filter(move |(at, _)| is_there(*at))
    }

    /// The legend for a page: the number of a color, and what has it.
    pub(crate) fn legend(&self) -> Vec<(u8, &str)> {
        self.parts().map(|(_, part)| (part.color.index(), part.label.as_str())).collect()
    }

    /// The bars for a page.
    pub(crate) fn to_page(&self) -> impl Iterator<Item = Drawn<'_>> {
        self.0.bars.iter().map(|bar| Drawn {
            label: &bar.label,
            text: &bar.total,
            is_strong: false,
            svg: self.draw(bar),
            details: None,
            marks: &[],
        })
    }

    fn draw(&self, bar: &Bar) -> String {
        let (longest, whole) = (self.longest(), Self::whole(bar));
        let mut svg = Svg::default();
        let mut left = 0.0;
        for (at, part) in self.parts() {
            let slice = &bar.slices[at];
            let wide = slice.value / longest;
            if wide > 0.0 {
                let share = numbers::percent(slice.value / whole, 1);
                let title = format!("{}: {} ({share})", part.label, slice.text);
                let class = format!("{} fg-cut", part.color.class());
                svg.titled(&title, |svg| {
                    svg.rect(&class, (Share(left), (ROW - BAR) / 2.0), (Share(wide), BAR));
                });
            }
            left += wide;
        }
        svg.height = ROW;
        svg.for_page("aria-hidden=\"true\"")
    }

    /// The chart in letters, for a terminal: the longest bar has `width` of them, a letter for each
    /// part, which a last line names.
    pub fn to_text(&self, width: usize) -> String {
        let widest =
            |of: fn(&Bar) -> &str| self.0.bars.iter().map(|bar| columns(of(bar))).max().unwrap_or_default();
        let (labels, totals) = (widest(|bar| &bar.label), widest(|bar| &bar.total));
        let longest = self.longest();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to width")]
        let place = |at: f64| (at / longest * width as f64).round() as usize;
        let letters: Vec<(char, usize, &Part)> =
            ('A'..='Z').cycle().zip(self.parts()).map(|(letter, (at, part))| (letter, at, part)).collect();
        let mut out = String::new();
        for bar in &self.0.bars {
            let mut until = 0.0;
            let mut stack = String::new();
            for (letter, at, _) in &letters {
                let from = place(until);
                until += bar.slices[*at].value;
                stack.extend(std::iter::repeat_n(*letter, place(until) - from));
            }
            let pad = |text: &str, most: usize| " ".repeat(most - columns(text));
            let (label, total) = (&bar.label, &bar.total);
            let line = format!("{label}{}  {}{total}  {stack}", pad(label, labels), pad(total, totals));
            let _ = writeln!(out, "{}", line.trim_end());
        }
        let named: Vec<String> =
            letters.iter().map(|(letter, _, part)| format!("{letter} {}", part.label)).collect();
        let _ = writeln!(out, "{}", named.join(", "));
        out
    }

    /// The chart in letters, in lines of at most `width` columns.
    pub(crate) fn to_text_within(&self, most: usize, width: usize) -> String {
        const SHORTEST: usize = 10;
        let text = self.to_text(most);
        let bars = text.lines().take(self.0.bars.len()).map(columns).max().unwrap_or_default();
        let text = self.to_text(most.saturating_sub(bars.saturating_sub(width)).max(SHORTEST));
        text.lines().map(|line| shorten(line, width) + "\n").collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::{Color, Slice};

    fn stacks(bars: &[[f64; 3]]) -> Stacks {
        let part = |n: usize| Part { label: format!("p&{n}"), color: Color::nth(n) };
        let bars = bars.iter().map(|values| Bar {
            label: "a <bar>".to_owned(),
            total: "1 s".to_owned(),
            slices: values.iter().map(|value| Slice { value: *value, text: format!("{value} ms") }).collect(),
        });
        Stacks::new("t", (0..3).map(part).collect(), bars.collect()).unwrap()
    }

    #[test]
    fn bars_have_one_scale_and_say_their_shares() {
        let stacks = stacks(&[[3.0, 0.0, 1.0], [1.0, 0.0, 1.0]]);
        let drawn: Vec<Drawn<'_>> = stacks.to_page().collect();
        assert!(drawn[0].svg.contains("x=\"0%\" y=\"4\" width=\"75%\""), "{}", drawn[0].svg);
        assert!(drawn[0].svg.contains("x=\"75%\" y=\"4\" width=\"25%\""), "{}", drawn[0].svg);
        // Half as long, and half of it each.
        assert!(drawn[1].svg.contains("x=\"25%\" y=\"4\" width=\"25%\""), "{}", drawn[1].svg);
        assert!(drawn[1].svg.contains("p&amp;2: 1 ms (50.0%)"), "{}", drawn[1].svg);
        assert_eq!(stacks.legend(), [(0, "p&0"), (2, "p&2")]);
    }

    #[test]
    fn letters_fill_the_width_together() {
        let text = stacks(&[[1.0, 1.0, 1.0]]).to_text(10);
        assert_eq!(text, "a <bar>  1 s  AAABBBBCCC\nA p&0, B p&1, C p&2\n");
        let narrow = stacks(&[[1.0, 1.0, 1.0]]).to_text_within(40, 26);
        assert!(narrow.lines().all(|line| columns(line) <= 26), "{narrow}");
        assert!(narrow.starts_with("a <bar>  1 s  AAAA"), "{narrow}");
    }
}
