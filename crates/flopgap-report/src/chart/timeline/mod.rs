//! Intervals over time.

mod encode;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use super::Color;
use crate::ReportError;
pub(crate) use encode::script_json;

/// What happened when: rows of lanes of intervals over one axis of time.
///
/// Intervals of a lane that overlap stand in levels below each other, outer ones above. On a page,
/// readers move and zoom the timeline. Wherever intervals are narrower than a pixel, a column of
/// pixels is divided among the colors as their time is: the area of a color is its time, at every
/// zoom.
///
/// ```
/// use flopgap_report::chart::{Color, Timeline};
///
/// let mut timeline = Timeline::new("A step", 0..9_000_000)?;
/// let host = timeline.row("Host");
/// let thread = timeline.lane(host, "thread 1");
/// let forward = timeline.name("forward", Color::nth(0));
/// timeline.push(thread, forward, 0..4_000_000);
/// let gpu = timeline.row_of_work("GPU 0");
/// let stream = timeline.lane(gpu, "stream 7");
/// timeline.kind("matmul", Color::nth(1));
/// let kernel = timeline.name("sgemm_128x64", Color::nth(1));
/// timeline.push(stream, kernel, 1_000_000..8_000_000);
/// assert!(!timeline.is_empty());
/// # Ok::<(), flopgap_report::ReportError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Timeline {
    title: String,
    subject: String,
    start: i64,
    extent: u64,
    /// From here on, single intervals are kept; before, sums.
    detail: u64,
    names: Vec<(String, Color)>,
    known: HashMap<(String, Color), NameId>,
    kinds: Vec<(String, Color)>,
    parts: Vec<(String, Color)>,
    rows: Vec<Row>,
}

/// A row of a [`Timeline`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowId(usize);

/// A lane of a [`Timeline`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneId(usize, usize);

/// What intervals of a [`Timeline`] are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameId(u32);

#[derive(Debug, Clone, PartialEq)]
struct Row {
    label: String,
    counted: Counted,
    lanes: Vec<Lane>,
    /// How many intervals found no level, and their time in nanoseconds.
    left_out: Sum,
}

/// In which legend the time of a row is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
enum Counted {
    No,
    Work,
    Parts,
}

#[derive(Debug, Clone, PartialEq)]
struct Lane {
    label: String,
    levels: Vec<Level>,
}

/// Intervals of which none overlap, by time.
#[derive(Debug, Clone, Default, PartialEq)]
struct Level {
    intervals: Vec<Interval>,
    /// Where the last one ends.
    end: u64,
    /// By span of time and color: what began before `detail`.
    sums: BTreeMap<(u32, u8), Sum>,
}

/// Offsets in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Interval {
    start: u64,
    end: u64,
    name: u32,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sum {
    count: u64,
    nanoseconds: u64,
}

/// A page stays below about 3 MB with as many intervals; where there are more, the last ones are
/// kept.
const KEPT: usize = 500_000;
/// Into how many spans of time earlier ones are summed up.
const SPANS: u64 = 4_096;
/// Intervals that overlap deeper, and further lanes of a row, are not drawn; the row says how many.
const LEVELS: usize = 12;
const LANES: usize = 48;
/// What a number of JavaScript holds exactly: 104 days.
const LONGEST: u64 = 1 << 53;

impl Timeline {
    /// An empty timeline of the time in `window`, in nanoseconds.
    ///
    /// # Errors
    /// [`ReportError::NothingToDraw`] when the window is empty, [`ReportError::InvalidPlot`] when
    /// it is longer than 104 days.
    pub fn new(title: impl Into<String>, window: Range<i64>) -> Result<Self, ReportError> {
        let title = title.into();
        if window.is_empty() {
            return Err(ReportError::NothingToDraw { title, reason: "everything is one instant".to_owned() });
        }
        let extent = window.end.abs_diff(window.start);
        if extent > LONGEST {
            return Err(ReportError::InvalidPlot { title, reason: "it is longer than 104 days".to_owned() });
        }
        Ok(Self {
            title,
            subject: String::new(),
            start: window.start,
            extent,
            detail: 0,
            names: Vec::new(),
            known: HashMap::new(),
            kinds: Vec::new(),
            parts: Vec::new(),
            rows: Vec::new(),
        })
    }

    /// How many intervals a timeline keeps one by one; with more, call [`Timeline::keep_from`].
    pub const fn capacity() -> usize {
        KEPT
    }

    /// Keeps single intervals only from `time` on. Of those that begin before, the sums by color
    /// over 4,096 spans of the window are kept: the areas stay right.
    #[must_use]
    pub fn keep_from(mut self, time: i64) -> Self {
        self.detail = self.offset(time);
        self
    }

    /// What it is of, by which waterfalls on the same page mark their parts in it
    /// ([`Waterfall::marks_in`](super::Waterfall::marks_in)).
    #[must_use]
    pub fn subject(mut self, subject: impl Into<String>) -> Self {
        self.subject = subject.into();
        self
    }

    pub(crate) fn subject_name(&self) -> &str {
        &self.subject
    }

    /// What the timeline shows.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Adds a row.
    pub fn row(&mut self, label: impl Into<String>) -> RowId {
        self.add_row(label.into(), Counted::No)
    }

    /// Adds a row whose time is counted in the legend.
    pub fn row_of_work(&mut self, label: impl Into<String>) -> RowId {
        self.add_row(label.into(), Counted::Work)
    }

    /// Adds a row of intervals into which the time of the rows below it is divided, up to the next
    /// such row. The open parts of a waterfall are marked in it by what its intervals are called,
    /// and in the rows below it.
    pub fn row_of_parts(&mut self, label: impl Into<String>) -> RowId {
        self.add_row(label.into(), Counted::Parts)
    }

    fn add_row(&mut self, label: String, counted: Counted) -> RowId {
        self.rows.push(Row { label, counted, lanes: Vec::new(), left_out: Sum::default() });
        RowId(self.rows.len() - 1)
    }

    /// Adds a lane to a row, such as a stream; its label may be empty.
    pub fn lane(&mut self, row: RowId, label: impl Into<String>) -> LaneId {
        let lanes = &mut self.rows[row.0].lanes;
        lanes.push(Lane { label: label.into(), levels: Vec::new() });
        LaneId(row.0, lanes.len() - 1)
    }

    /// Adds an entry to the legend: what is drawn in a color.
    pub fn kind(&mut self, label: impl Into<String>, color: Color) {
        let entry = (label.into(), color);
        if !self.kinds.contains(&entry) {
            self.kinds.push(entry);
        }
    }

    /// Adds an entry to the legend of the rows of parts.
    pub fn part(&mut self, label: impl Into<String>, color: Color) {
        let entry = (label.into(), color);
        if !self.parts.contains(&entry) {
            self.parts.push(entry);
        }
    }

    /// What intervals are called, and their color.
    pub fn name(&mut self, label: &str, color: Color) -> NameId {
        let key = (label.to_owned(), color);
        let next = NameId(u32::try_from(self.names.len()).unwrap_or(u32::MAX));
        *self.known.entry(key).or_insert_with_key(|key| {
            self.names.push(key.clone());
            next
        })
    }

    /// Adds the part of an interval that lies within the window. Intervals of a lane come by their
    /// start, outer ones first; one that ends before it begins is not drawn.
    pub fn push(&mut self, lane: LaneId, name: NameId, interval: Range<i64>) {
        let last = self.start.saturating_add_unsigned(self.extent);
        if interval.end < interval.start || interval.end < self.start || interval.start >= last {
            return;
        }
        let (start, end) = (self.offset(interval.start), self.offset(interval.end));
        let color = self.names.get(name.0 as usize).map_or(Color::NEUTRAL, |name| name.1);
        let (detail, span) = (self.detail, self.span());
        let row = &mut self.rows[lane.0];
        let levels = &mut row.lanes[lane.1].levels;
        let level = match levels.iter().position(|level| level.end <= start) {
            Some(level) => &mut levels[level],
            None if levels.len() < LEVELS && lane.1 < LANES => {
                levels.push(Level::default());
                let last = levels.len() - 1;
                &mut levels[last]
            }
            None => return row.left_out.add(1, end - start),
        };
        level.end = end;
        if start >= detail {
            level.intervals.push(Interval { start, end, name: name.0 });
        } else {
            level.sum_up(start..end, color, span);
        }
    }

    /// The length of the spans of time by which early intervals are summed up.
    fn span(&self) -> u64 {
        self.extent.div_ceil(SPANS).max(1)
    }

    /// A time as an offset within the window.
    fn offset(&self, time: i64) -> u64 {
        if time <= self.start { 0 } else { time.abs_diff(self.start).min(self.extent) }
    }

    /// What is in the rows that have anything.
    fn drawn(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.lanes.iter().any(|lane| !lane.levels.is_empty()))
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.drawn().next().is_none()
    }
}

impl Level {
    /// Adds an interval to the sums of the spans that it touches, and itself to that in which it
    /// begins.
    fn sum_up(&mut self, interval: Range<u64>, color: Color, span: u64) {
        let (mut start, mut count) = (interval.start, 1);
        loop {
            let place = start / span;
            let end = interval.end.min((place + 1) * span);
            let key = (u32::try_from(place).unwrap_or(u32::MAX), color.index());
            self.sums.entry(key).or_default().add(count, end - start);
            if end == interval.end {
                return;
            }
            (start, count) = (end, 0);
        }
    }
}

impl Sum {
    fn add(&mut self, count: u64, nanoseconds: u64) {
        self.count = self.count.saturating_add(count);
        self.nanoseconds = self.nanoseconds.saturating_add(nanoseconds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A timeline of one lane.
    fn timeline(window: Range<i64>, intervals: &[Range<i64>]) -> Timeline {
        let mut timeline = Timeline::new("t", window).unwrap();
        let row = timeline.row("r");
        let lane = timeline.lane(row, "");
        let name = timeline.name("a<b", Color::nth(1));
        for interval in intervals {
            timeline.push(lane, name, interval.clone());
        }
        timeline
    }

    #[test]
    fn nested_intervals_stand_below_each_other() {
        let nested = timeline(0..100, &[0..100, 0..50, 10..20, 50..100]);
        let levels = &nested.rows[0].lanes[0].levels;
        assert_eq!(levels.iter().map(|level| level.intervals.len()).collect::<Vec<_>>(), [1, 2, 1]);
        let deep: Vec<Range<i64>> = (0..20).map(|n| n..100).collect();
        assert_eq!(
            timeline(0..100, &deep).rows[0].left_out,
            Sum { count: 8, nanoseconds: 100 * 8 - (12..20).sum::<u64>() }
        );
    }

    #[test]
    fn what_lies_outside_is_cut_off() {
        let cut = timeline(-10..20, &[-50..-5, Range { start: -5, end: -6 }, 5..500, 20..30, 40..50]);
        let level = &cut.rows[0].lanes[0].levels[0];
        let kept: Vec<(u64, u64)> = level.intervals.iter().map(|one| (one.start, one.end)).collect();
        assert_eq!(kept, [(0, 5), (15, 30)]);
    }

    #[test]
    fn early_intervals_are_summed_up_and_none_is_lost() {
        let intervals: Vec<Range<i64>> = (0..10_000).map(|n| n * 100..n * 100 + 30 + n % 50).collect();
        let whole = timeline(0..1_000_000, &intervals);
        let mut part = Timeline::new("t", 0..1_000_000).unwrap().keep_from(700_050);
        let row = part.row("r");
        let lane = part.lane(row, "");
        let name = part.name("a", Color::nth(1));
        for interval in &intervals {
            part.push(lane, name, interval.clone());
        }
        let time = |timeline: &Timeline| {
            let level = &timeline.rows[0].lanes[0].levels[0];
            let kept: u64 = level.intervals.iter().map(|one| one.end - one.start).sum();
            let summed: u64 = level.sums.values().map(|sum| sum.nanoseconds).sum();
            let count: u64 = level.sums.values().map(|sum| sum.count).sum();
            (kept + summed, level.intervals.len() as u64 + count)
        };
        assert_eq!(time(&part), time(&whole));
        assert_eq!(part.rows[0].lanes[0].levels[0].intervals.len(), 2_999);
    }

    #[test]
    fn windows_that_cannot_be_drawn_are_refused() {
        let error = |window| Timeline::new("t", window).unwrap_err().to_string();
        assert_eq!(error(4..4), "plot `t`: nothing to draw: everything is one instant");
        assert!(error(i64::MIN..i64::MAX).contains("104 days"));
    }

    proptest::proptest! {
        #[test]
        fn any_intervals_are_drawn(raw in proptest::collection::vec((-1000_i64..1000, 0_i64..500), 1..40), detail in -1000_i64..1000) {
            let mut timeline = timeline(-900..900, &[]).keep_from(detail);
            let name = timeline.name("b", Color::nth(3));
            for (start, length) in raw {
                timeline.push(LaneId(0, 0), name, start..start + length);
            }
            for level in &timeline.rows[0].lanes[0].levels {
                proptest::prop_assert!(level.intervals.windows(2).all(|pair| pair[0].end <= pair[1].start));
            }
            proptest::prop_assert!(script_json(&timeline).is_ok());
        }
    }
}
