//! A whole that falls to nothing, part by part.

use std::fmt::Write as _;

use super::Color;
use crate::ReportError;
use crate::svg::Across::Share;
use crate::svg::Svg;
use crate::table::Table;
use crate::text::{columns, shorten};

/// What a whole consists of, from top to bottom: each part begins where the one before ended, and
/// opens what it consists of. Parts that rise lead from one whole to another.
///
/// ```
/// use flopgap_report::chart::{Color, Fall, Waterfall};
///
/// let fall = |label: &str, at: [f64; 2], n| Fall::new(label, at, Color::nth(n));
/// let waterfall = Waterfall::new(
///     "A step",
///     vec![
///         fall("step", [0.0, 8.0], 0).text("8 ms").strong(),
///         fall("idle", [6.0, 8.0], 1).text("2 ms"),
///         fall("floor", [0.0, 6.0], 2).unknown(),
///     ],
/// )?;
/// assert_eq!(waterfall.to_text(8), "\
/// step   8 ms  ████████
/// idle   2 ms        ██
/// floor        ░░░░░░
/// ");
/// # Ok::<(), flopgap_report::ReportError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Waterfall {
    title: String,
    falls: Vec<Fall>,
    whole: f64,
    marks_in: Vec<String>,
}

/// A part of a [`Waterfall`].
#[derive(Debug, Clone, PartialEq)]
pub struct Fall {
    label: String,
    text: String,
    at: [f64; 2],
    color: Color,
    is_strong: bool,
    is_known: bool,
    rises: bool,
    details: Option<Table>,
    marks: Vec<String>,
}

impl Fall {
    /// A part from one place to another, in the unit of the whole.
    pub fn new(label: impl Into<String>, at: [f64; 2], color: Color) -> Fall {
        Fall {
            label: label.into(),
            text: String::new(),
            at,
            color,
            is_strong: false,
            is_known: true,
            rises: false,
            details: None,
            marks: Vec::new(),
        }
    }

    /// How much it is, as the reader sees it.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Fall {
        self.text = text.into();
        self
    }

    /// A sum of others, which stands out.
    #[must_use]
    pub fn strong(mut self) -> Fall {
        self.is_strong = true;
        self
    }

    /// What is not known is hatched.
    #[must_use]
    pub fn unknown(mut self) -> Fall {
        self.is_known = false;
        self
    }

    /// What is added: it begins at its smaller place.
    #[must_use]
    pub fn rising(mut self) -> Fall {
        self.rises = true;
        self
    }

    /// What its intervals are called in the rows of parts of timelines, in which a page marks them
    /// while the part is open.
    #[must_use]
    pub fn marks(mut self, names: Vec<String>) -> Fall {
        self.marks = names;
        self
    }

    /// Where it begins.
    fn begin(&self) -> f64 {
        self.at[usize::from(!self.rises)]
    }

    /// What it consists of, which a page opens.
    #[must_use]
    pub fn details(mut self, table: Table) -> Fall {
        self.details = Some(table);
        self
    }
}

/// A part as a page shows it.
pub(crate) struct Drawn<'a> {
    pub(crate) label: &'a str,
    pub(crate) text: &'a str,
    pub(crate) is_strong: bool,
    pub(crate) svg: String,
    pub(crate) details: Option<&'a Table>,
    pub(crate) marks: &'a [String],
}

/// Height of a row and of the bar in it, in pixels.
pub(super) const ROW: f64 = 26.0;
const BAR: f64 = 16.0;

impl Waterfall {
    /// Parts of one whole, the largest place of any, which fills the width.
    ///
    /// # Errors
    /// [`ReportError::InvalidPlot`] when a part ends before it begins, or below 0;
    /// [`ReportError::NothingToDraw`] when there is none, or all are empty.
    pub fn new(title: impl Into<String>, falls: Vec<Fall>) -> Result<Waterfall, ReportError> {
        let title = title.into();
        let is_valid = |[from, to]: [f64; 2]| from >= 0.0 && to >= from && to.is_finite();
        if let Some(fall) = falls.iter().find(|fall| !is_valid(fall.at)) {
            let reason = format!("part `{}`: from {} to {}", fall.label, fall.at[0], fall.at[1]);
            return Err(ReportError::InvalidPlot { title, reason });
        }
        let whole = falls.iter().map(|fall| fall.at[1]).fold(0.0, f64::max);
        if whole > 0.0 {
            return Ok(Waterfall { title, falls, whole, marks_in: Vec::new() });
        }
        Err(ReportError::NothingToDraw { title, reason: "there is no part".to_owned() })
    }

    /// On the scale of a larger whole, so that two can be compared.
    #[must_use]
    pub fn on_scale_of(mut self, whole: f64) -> Waterfall {
        self.whole = self.whole.max(whole);
        self
    }

    /// The timelines on the same page in which open parts are marked, by their
    /// [`subject`](super::Timeline::subject)s.
    #[must_use]
    pub fn marks_in(mut self, subjects: Vec<String>) -> Waterfall {
        self.marks_in = subjects;
        self
    }

    pub(crate) fn subjects(&self) -> &[String] {
        &self.marks_in
    }

    /// What the chart shows.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Whether a part is hatched.
    pub(crate) fn has_unknown(&self) -> bool {
        self.falls.iter().any(|fall| !fall.is_known)
    }

    /// The parts for a page.
    pub(crate) fn to_page(&self) -> impl Iterator<Item = Drawn<'_>> {
        self.falls.iter().enumerate().map(|(index, fall)| Drawn {
            label: &fall.label,
            text: &fall.text,
            is_strong: fall.is_strong,
            svg: self.draw(index),
            details: fall.details.as_ref(),
            marks: &fall.marks,
        })
    }

    /// The bar of a part, with lines to those above and below that touch it.
    fn draw(&self, index: usize) -> String {
        let fall = &self.falls[index];
        let [from, to] = fall.at.map(|place| place / self.whole);
        let (top, bottom) = ((ROW - BAR) / 2.0, f64::midpoint(ROW, BAR));
        let mut svg = Svg::default();
        if index > 0 {
            let begin = fall.begin() / self.whole;
            svg.line("fg-edge", (Share(begin), 0.0), (Share(begin), top));
        }
        if let Some(next) = self.falls.get(index + 1) {
            let end = next.begin() / self.whole;
            svg.line("fg-edge", (Share(end), bottom), (Share(end), ROW));
        }
        let class = if fall.is_known { fall.color.class() } else { "fg-unknown".to_owned() };
        svg.rect(&class, (Share(from), top), (Share(to - from), BAR));
        svg.height = ROW;
        svg.for_page("aria-hidden=\"true\"")
    }

    /// The chart in letters, for a terminal: bars of at most `width` blocks.
    pub fn to_text(&self, width: usize) -> String {
        let longest =
            |of: fn(&Fall) -> &str| self.falls.iter().map(|fall| columns(of(fall))).max().unwrap_or_default();
        let (labels, texts) = (longest(|fall| &fall.label), longest(|fall| &fall.text));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to width")]
        let place = |at: f64| (at / self.whole * width as f64).round() as usize;
        let mut out = String::new();
        for fall in &self.falls {
            let [from, to] = fall.at.map(place);
            // What is there at all has a block.
            let from = if fall.at[1] > fall.at[0] { from.min(to.max(1) - 1) } else { from };
            let mark = if fall.is_known { "█" } else { "░" };
            let pad = |text: &str, most: usize| " ".repeat(most.saturating_sub(columns(text)));
            let line = format!(
                "{}{}  {}{}  {}{}",
                fall.label,
                pad(&fall.label, labels),
                pad(&fall.text, texts),
                fall.text,
                " ".repeat(from),
                mark.repeat(to.max(from + usize::from(fall.at[1] > fall.at[0])) - from)
            );
            let _ = writeln!(out, "{}", line.trim_end());
        }
        out
    }

    /// The chart in letters, in lines of at most `width` columns where bars can be as short.
    pub(crate) fn to_text_within(&self, most: usize, width: usize) -> String {
        const SHORTEST: usize = 10;
        let longest = self.to_text(most).lines().map(columns).max().unwrap_or_default();
        let bars = most.saturating_sub(longest.saturating_sub(width)).max(SHORTEST);
        self.to_text(bars).lines().map(|line| shorten(line, width) + "\n").collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn falls() -> Vec<Fall> {
        let fall = |label: &str, at, n| Fall::new(label, at, Color::nth(n)).text(format!("<{label}>"));
        vec![
            fall("all", [0.0, 10.0], 0).strong(),
            fall("a", [6.0, 10.0], 1),
            fall("b", [0.0, 6.0], 2).unknown(),
        ]
    }

    #[test]
    fn parts_lie_where_the_one_before_ends() {
        let waterfall = Waterfall::new("t", falls()).unwrap();
        let drawn: Vec<Drawn<'_>> = waterfall.to_page().collect();
        assert!(drawn[0].is_strong && !drawn[1].is_strong);
        assert!(drawn[1].svg.contains("class=\"fg-c1\" x=\"60%\" y=\"5\" width=\"40%\""), "{}", drawn[1].svg);
        assert!(drawn[1].svg.contains("x1=\"60%\" y1=\"21\" x2=\"60%\" y2=\"26\""), "{}", drawn[1].svg);
        assert!(
            drawn[2].svg.contains("class=\"fg-unknown\" x=\"0%\" y=\"5\" width=\"60%\""),
            "{}",
            drawn[2].svg
        );
        assert!(waterfall.has_unknown());
    }

    #[test]
    fn what_rises_begins_at_its_smaller_place() {
        let bridge = vec![
            Fall::new("before", [0.0, 4.0], Color::NEUTRAL).strong(),
            Fall::new("longer", [4.0, 8.0], Color::NEUTRAL).rising(),
            Fall::new("after", [0.0, 8.0], Color::NEUTRAL).strong(),
        ];
        let waterfall = Waterfall::new("t", bridge).unwrap();
        let drawn: Vec<Drawn<'_>> = waterfall.to_page().collect();
        // The line from the sum before leads to it, and on from its end.
        assert!(drawn[0].svg.contains("x1=\"50%\" y1=\"21\" x2=\"50%\" y2=\"26\""), "{}", drawn[0].svg);
        assert!(drawn[1].svg.contains("x1=\"50%\" y1=\"0\" x2=\"50%\" y2=\"5\""), "{}", drawn[1].svg);
        assert!(drawn[1].svg.contains("x1=\"100%\" y1=\"21\" x2=\"100%\" y2=\"26\""), "{}", drawn[1].svg);
        assert_eq!(waterfall.to_text(8), "before    ████\nlonger        ████\nafter     ████████\n");
    }

    #[test]
    fn two_on_one_scale_compare() {
        let of = |most: f64| Waterfall::new("t", vec![Fall::new("x", [0.0, most], Color::NEUTRAL)]).unwrap();
        assert_eq!(of(4.0).on_scale_of(8.0).to_text(8), "x    ████\n");
        assert_eq!(of(8.0).on_scale_of(4.0).to_text(8), "x    ████████\n");
        let svg = of(4.0).on_scale_of(8.0).to_page().next().unwrap().svg;
        assert!(svg.contains("width=\"50%\""), "{svg}");
    }

    #[test]
    fn small_parts_have_a_block() {
        let small = vec![
            Fall::new("all", [0.0, 100.0], Color::NEUTRAL),
            Fall::new("small", [99.9, 100.0], Color::NEUTRAL),
            Fall::new("first", [0.0, 0.1], Color::NEUTRAL),
            Fall::new("none", [5.0, 5.0], Color::NEUTRAL),
        ];
        let text = Waterfall::new("t", small).unwrap().to_text(10);
        assert_eq!(text, "all      ██████████\nsmall             █\nfirst    █\nnone\n");
        let narrow = Waterfall::new("t", falls()).unwrap().to_text_within(40, 30);
        assert!(narrow.lines().all(|line| columns(line) <= 30), "{narrow}");
    }

    #[test]
    fn contradictions_are_refused() {
        let of = |at| Waterfall::new("t", vec![Fall::new("x", at, Color::NEUTRAL)]);
        assert_eq!(of([2.0, 1.0]).unwrap_err().to_string(), "plot `t`: part `x`: from 2 to 1");
        assert!(matches!(of([-1.0, 1.0]), Err(ReportError::InvalidPlot { .. })));
        assert!(matches!(of([0.0, f64::INFINITY]), Err(ReportError::InvalidPlot { .. })));
        assert!(matches!(of([0.0, 0.0]), Err(ReportError::NothingToDraw { .. })));
        assert!(matches!(Waterfall::new("t", Vec::new()), Err(ReportError::NothingToDraw { .. })));
    }
}
