//! Intervals over time.

use super::Colour;
use super::axis::ticks;
use super::svg::{Drawing, escape, fitted, percent, shown_when, text_width};
use crate::{ReportError, numbers};

/// What happened when: rows of labelled intervals over one axis of time. Intervals of a row that overlap stand in lanes below
/// each other, outer ones above.
///
/// ```
/// use flopgap_report::chart::{Colour, Interval, Timeline, TimelineRow};
///
/// let interval = |label: &str, start, end| Interval { label: label.to_owned(), start, end, colour: Colour::nth(0) };
/// let timeline = Timeline::new("A step", vec![
///     TimelineRow { label: "host".to_owned(), intervals: vec![interval("step", 0, 9_000_000), interval("forward", 0, 4_000_000)] },
///     TimelineRow { label: "GPU".to_owned(), intervals: vec![interval("forward", 1_000_000, 8_000_000)] },
/// ])?;
/// assert!(timeline.to_svg().contains("forward: 4.00 ms, from 0"));
/// # Ok::<(), flopgap_report::ReportError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Timeline {
    title: String,
    rows: Vec<TimelineRow>,
    start: i64,
    extent: i64,
}

/// A row of a timeline.
#[derive(Debug, Clone, PartialEq)]
pub struct TimelineRow {
    /// What it shows, such as a thread.
    pub label: String,
    /// Its intervals, in any order.
    pub intervals: Vec<Interval>,
}

/// A stretch of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interval {
    /// What it is.
    pub label: String,
    /// When it began, in nanoseconds.
    pub start: i64,
    /// When it ended, in nanoseconds.
    pub end: i64,
    /// Its colour.
    pub colour: Colour,
}

/// Heights in pixels.
const LINE: f64 = 20.0;
const LANE: f64 = 20.0;
/// More lanes of a row are not drawn.
const LANES: usize = 12;
/// More intervals of a lane are drawn together with their neighbours.
const DRAWN: usize = 2_000;

impl Timeline {
    /// A timeline from the first beginning to the last end.
    ///
    /// # Errors
    /// [`ReportError::InvalidPlot`] when an interval ends before it begins or the whole is longer than an `i64` of nanoseconds;
    /// [`ReportError::NothingToDraw`] without intervals, or when all are one instant.
    pub fn new(title: impl Into<String>, rows: Vec<TimelineRow>) -> Result<Self, ReportError> {
        let title = title.into();
        let intervals = || rows.iter().flat_map(|row| &row.intervals);
        if let Some(wrong) = intervals().find(|interval| interval.end < interval.start) {
            let reason = format!("`{}` ends before it begins", wrong.label);
            return Err(ReportError::InvalidPlot { title, reason });
        }
        let start = intervals().map(|interval| interval.start).min();
        let end = intervals().map(|interval| interval.end).max();
        let (Some(start), Some(end)) = (start, end) else {
            return Err(ReportError::NothingToDraw { title, reason: "there are no intervals".to_owned() });
        };
        let Some(extent) = end.checked_sub(start) else {
            return Err(ReportError::InvalidPlot { title, reason: "it is longer than 292 years".to_owned() });
        };
        if extent == 0 {
            return Err(ReportError::NothingToDraw { title, reason: "everything is one instant".to_owned() });
        }
        Ok(Self { title, rows, start, extent })
    }

    /// What the timeline shows.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The timeline as an SVG document.
    pub fn to_svg(&self) -> String {
        self.draw().for_file()
    }

    /// The timeline for a page.
    pub(crate) fn to_page(&self) -> String {
        self.draw().for_page()
    }

    fn draw(&self) -> Drawing {
        let mut rows = Drawing::new("");
        for row in &self.rows {
            self.draw_row(&mut rows, row);
        }
        let mut drawing = Drawing::new(&self.title);
        // Lines of the axis lie below the intervals.
        let base = rows.height + 4.0;
        for tick in ticks(self.extent) {
            let x = percent(tick.place);
            drawing.push(format_args!(
                "<line class=\"fg-line{}\" x1=\"{x}\" x2=\"{x}\" y1=\"0\" y2=\"{:.0}\"/>",
                tick.line_class,
                base + 16.0
            ));
            if let Some(class) = tick.label_class {
                drawing.push(format_args!(
                    "<text class=\"fg-muted{class}\" x=\"{x}\" dx=\"4\" y=\"{:.0}\">{}</text>",
                    base + 14.0,
                    tick.label
                ));
            }
        }
        drawing.body.push_str(&rows.body);
        drawing.height = base + LINE + 2.0;
        drawing
    }

    fn draw_row(&self, drawing: &mut Drawing, row: &TimelineRow) {
        let (lanes, left_out) = lanes(&row.intervals);
        let mut label = row.label.clone();
        if left_out > 0 {
            label = format!("{label} ({left_out} in deeper levels not drawn)");
        }
        drawing.push(format_args!(
            "<text class=\"fg-ink fg-strong fg-row\" x=\"0\" y=\"{:.0}\">{}</text>",
            drawing.height + 15.0,
            escape(&fitted(&label, 440.0))
        ));
        drawing.height += LINE;
        for lane in &lanes {
            let top = drawing.height;
            drawing.push(format_args!(
                "<rect class=\"fg-track\" x=\"0\" y=\"{top:.0}\" width=\"100%\" height=\"{:.0}\"/>",
                LANE - 2.0
            ));
            for interval in together(lane, self.extent) {
                self.draw_interval(drawing, top, &interval);
            }
            drawing.height += LANE;
        }
        drawing.height += 8.0;
    }

    fn draw_interval(&self, drawing: &mut Drawing, top: f64, interval: &Interval) {
        let extent = self.extent as f64;
        let length = interval.end - interval.start;
        let (x, width) = ((interval.start - self.start) as f64 / extent, length as f64 / extent);
        let height = LANE - 2.0;
        let class = interval.colour.class();
        let title = format!(
            "{}: {}, from {}",
            escape(&interval.label),
            duration(length),
            duration(interval.start - self.start)
        );
        let (x, width) = (percent(x), (percent(width), width));
        match shown_when(width.1, text_width(&interval.label) + 8.0) {
            None => drawing.push(format_args!(
                "<rect class=\"{class}\" stroke-width=\".4\" x=\"{x}\" y=\"{top:.0}\" width=\"{}\" height=\"{height}\"><title>{title}</title></rect>",
                width.0
            )),
            // The inner drawing clips its label, whatever the reader's font.
            Some(shown) => drawing.push(format_args!(
                "<svg x=\"{x}\" y=\"{top:.0}\" width=\"{}\" height=\"{height}\"><rect class=\"{class} fg-cut\" width=\"100%\" \
                 height=\"{height}\"><title>{title}</title></rect><text class=\"fg-on{shown}\" x=\"4\" y=\"13\">{}</text></svg>",
                width.0,
                escape(&interval.label)
            )),
        }
    }
}

/// A duration with three digits and its unit.
fn duration(nanoseconds: i64) -> String {
    match nanoseconds {
        0 => "0".to_owned(),
        1..1_000 => format!("{nanoseconds} ns"),
        _ => numbers::si_with_unit(nanoseconds as f64 / 1e9, "s"),
    }
}

/// Intervals in lanes in which none overlap, and how many found no place.
fn lanes(intervals: &[Interval]) -> (Vec<Vec<&Interval>>, usize) {
    let mut sorted: Vec<&Interval> = intervals.iter().collect();
    sorted.sort_by_key(|interval| (interval.start, std::cmp::Reverse(interval.end)));
    let mut lanes: Vec<Vec<&Interval>> = Vec::new();
    let mut left_out = 0;
    for interval in sorted {
        let free = lanes.iter().position(|lane| lane.last().is_none_or(|last| last.end <= interval.start));
        match free {
            Some(lane) => lanes[lane].push(interval),
            None if lanes.len() < LANES => lanes.push(vec![interval]),
            None => left_out += 1,
        }
    }
    (lanes, left_out)
}

/// A lane's intervals, neighbours with small gaps drawn as one when there are too many.
fn together(lane: &[&Interval], extent: i64) -> Vec<Interval> {
    let mut gap = extent / 100_000;
    loop {
        let merged = merged(lane, if lane.len() <= DRAWN { -1 } else { gap });
        if merged.len() <= DRAWN {
            return merged;
        }
        gap = gap.saturating_mul(2).max(1);
    }
}

/// Joins neighbours that are at most `gap` apart; they take the colour of the longest.
fn merged(lane: &[&Interval], gap: i64) -> Vec<Interval> {
    let mut out: Vec<(Interval, usize, i64)> = Vec::new();
    for interval in lane {
        let length = interval.end - interval.start;
        match out.last_mut() {
            Some((last, count, longest)) if interval.start - last.end <= gap => {
                last.end = interval.end;
                *count += 1;
                if length > *longest {
                    *longest = length;
                    last.colour = interval.colour;
                    last.label.clone_from(&interval.label);
                }
            }
            _ => out.push(((*interval).clone(), 1, length)),
        }
    }
    let named = out.into_iter().map(|(mut interval, count, _)| {
        if count > 1 {
            interval.label = format!("{} and {} more", interval.label, count - 1);
        }
        interval
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(start: i64, end: i64) -> Interval {
        Interval { label: format!("{start}<{end}"), start, end, colour: Colour::nth(1) }
    }

    fn row(intervals: Vec<Interval>) -> TimelineRow {
        TimelineRow { label: "r".to_owned(), intervals }
    }

    #[test]
    fn nested_intervals_stand_below_each_other() {
        let intervals = [interval(0, 100), interval(0, 50), interval(50, 100), interval(10, 20)];
        let (lanes, left_out) = lanes(&intervals);
        assert_eq!(lanes.iter().map(Vec::len).collect::<Vec<_>>(), [1, 2, 1]);
        assert_eq!(left_out, 0);
        let deep: Vec<Interval> = (0..20).map(|n| interval(n, 100)).collect();
        assert_eq!(super::lanes(&deep).1, 8);
    }

    #[test]
    fn many_intervals_are_drawn_together_and_none_is_lost() {
        let many: Vec<Interval> = (0..10_000).map(|n| interval(n * 10, n * 10 + 5 + n % 3)).collect();
        let lane: Vec<&Interval> = many.iter().collect();
        let drawn = together(&lane, 100_000);
        assert!(drawn.len() <= DRAWN, "{}", drawn.len());
        assert_eq!((drawn[0].start, drawn.last().unwrap().end), (0, many.last().unwrap().end));
        let few = together(&lane[..3], 100_000);
        assert_eq!(few, many[..3]);
    }

    #[test]
    fn an_interval_is_where_its_time_is() {
        let svg = Timeline::new("t", vec![row(vec![interval(-100, 100), interval(0, 50)])]).unwrap().to_svg();
        assert!(svg.contains("x=\"50%\" y=\"40\" width=\"25%\""), "{svg}");
        assert!(svg.contains("0&lt;50: 50 ns, from 100 ns"), "{svg}");
    }

    #[test]
    fn contradictions_are_refused() {
        let error = |rows| Timeline::new("t", rows).unwrap_err().to_string();
        assert_eq!(error(vec![row(vec![interval(5, 4)])]), "plot `t`: `5<4` ends before it begins");
        assert_eq!(error(vec![row(Vec::new())]), "plot `t` has nothing to draw: there are no intervals");
        assert_eq!(
            error(vec![row(vec![interval(4, 4)])]),
            "plot `t` has nothing to draw: everything is one instant"
        );
        assert!(error(vec![row(vec![interval(i64::MIN, i64::MAX)])]).contains("292 years"));
    }

    proptest::proptest! {
        #[test]
        fn any_intervals_are_drawn(raw in proptest::collection::vec((-1000_i64..1000, 0_i64..500, ".{0,8}"), 1..40)) {
            let intervals = raw.into_iter().map(|(start, length, label)| Interval { label, start, end: start + length, colour: Colour::NEUTRAL });
            if let Ok(timeline) = Timeline::new("t", vec![row(intervals.collect())]) {
                let svg = timeline.to_svg();
                proptest::prop_assert!(!svg.contains("NaN") && !svg.contains("inf"));
            }
        }
    }
}
