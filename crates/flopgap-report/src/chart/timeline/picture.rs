//! The timeline as a picture.

use std::collections::BTreeMap;

use super::{Level, Timeline};
use crate::chart::Color;
use crate::chart::axis::ticks;
use crate::chart::svg::{Drawing, escape, fitted, percent};
use crate::numbers;

/// Heights in pixels.
const LINE: f64 = 20.0;
const LANE: f64 = 20.0;
/// Columns of a lane: what is narrower shares one with its neighbors.
const COLUMNS: u16 = 1_000;

pub(super) fn draw(timeline: &Timeline) -> Drawing {
    let mut rows = Drawing::new("");
    for row in timeline.drawn() {
        let mut label = row.label.clone();
        if row.left_out.count > 0 {
            let time = numbers::si_with_unit(row.left_out.nanoseconds as f64 / 1e9, "s");
            label = format!("{label} ({} more, {time}, not drawn)", row.left_out.count);
        }
        rows.push(format_args!(
            "<text class=\"fg-ink fg-strong\" x=\"0\" y=\"{:.0}\">{}</text>",
            rows.height + 15.0,
            escape(&fitted(&label, 440.0))
        ));
        rows.height += LINE;
        for lane in &row.lanes {
            for (at, level) in lane.levels.iter().enumerate() {
                let label = if at == 0 { lane.label.as_str() } else { "" };
                draw_level(timeline, level, label, &mut rows);
            }
        }
        rows.height += 8.0;
    }
    let mut drawing = Drawing::new(&timeline.title);
    // Lines of the axis lie below the intervals.
    let base = rows.height + 4.0;
    for tick in ticks(i64::try_from(timeline.extent).unwrap_or(i64::MAX)) {
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

/// The intervals that are wider than a column as they are; the others by column, one color above
/// the other.
fn draw_level(timeline: &Timeline, level: &Level, label: &str, drawing: &mut Drawing) {
    let (top, height) = (drawing.height, LANE - 2.0);
    drawing.push(format_args!(
        "<rect class=\"fg-track\" x=\"0\" y=\"{top:.0}\" width=\"100%\" height=\"{height:.0}\"/>"
    ));
    let extent = timeline.extent as f64;
    let column = 1.0 / f64::from(COLUMNS);
    let mut stacks: BTreeMap<u16, [f64; Color::COUNT]> = BTreeMap::new();
    let mut stack = |color: u8, start: f64, end: f64| {
        let mut at = start;
        while at < end {
            let (place, next) = place(at);
            let until = end.min(next);
            stacks.entry(place).or_insert([0.0; Color::COUNT])[usize::from(color)] += until - at;
            at = until;
        }
    };
    for interval in &level.intervals {
        let (name, color) = &timeline.names[interval.name as usize];
        let (start, end) = (interval.start as f64 / extent, interval.end as f64 / extent);
        if end - start < column {
            stack(color.index(), start, end);
            continue;
        }
        drawing.push(format_args!(
            "<rect class=\"{}\" stroke-width=\".4\" x=\"{}\" y=\"{top:.0}\" width=\"{}\" height=\"{height:.0}\"><title>{}: {}, from {}</title></rect>",
            color.class(),
            percent(start),
            percent(end - start),
            escape(name),
            duration(interval.end - interval.start),
            duration(interval.start),
        ));
    }
    let span = timeline.span();
    for ((at, color), sum) in &level.sums {
        let start = (u64::from(*at) * span) as f64 / extent;
        stack(*color, start, start + sum.nanoseconds as f64 / extent);
    }
    for (place, times) in stacks {
        let mut bottom = top + height;
        for (color, time) in times.iter().enumerate().filter(|(_, time)| **time > 0.0) {
            let part = (time / column).min(1.0) * height;
            bottom -= part;
            drawing.push(format_args!(
                "<rect class=\"{}\" stroke-width=\"0\" x=\"{}\" y=\"{bottom:.2}\" width=\"{}\" height=\"{part:.2}\"/>",
                Color::of_index(color).class(),
                percent(f64::from(place) * column),
                percent(column),
            ));
        }
    }
    if !label.is_empty() {
        drawing.push(format_args!(
            "<text class=\"fg-ink\" x=\"4\" y=\"{:.0}\" style=\"paint-order:stroke;stroke:var(--fg-paper);stroke-width:3\">{}</text>",
            top + 13.0,
            escape(&fitted(label, 200.0))
        ));
    }
    drawing.height += LANE;
}

/// The column that a place from 0 to 1 lies in, and where the next one begins.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "from 0 to the number of columns"
)]
fn place(at: f64) -> (u16, f64) {
    let columns = f64::from(COLUMNS);
    let place = ((at * columns + 1e-9) as u16).min(COLUMNS - 1);
    let next = f64::from(place + 1) / columns;
    // The last column holds what rounding moved beyond it.
    (place, if place == COLUMNS - 1 { f64::INFINITY } else { next })
}

/// A duration with three digits and its unit.
fn duration(nanoseconds: u64) -> String {
    match nanoseconds {
        0 => "0".to_owned(),
        1..1_000 => format!("{nanoseconds} ns"),
        _ => numbers::si_with_unit(nanoseconds as f64 / 1e9, "s"),
    }
}
