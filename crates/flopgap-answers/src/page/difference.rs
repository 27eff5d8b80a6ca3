//! Two traces taken apart, side by side, and what leads from one to the other.

use flopgap_gap::{CauseDifference, Difference, Gap};
use flopgap_report::chart::{Color, Fall, Waterfall};
use flopgap_report::html::Block;
use flopgap_report::table::{Cell, Column, Table};

use super::gap::{CAUSES, DETAILS, color, in_timeline, waterfall};
use crate::error::Error;
use crate::sentences::words::signed;
use crate::sentences::{shown, time};
use crate::tables::{self, ms};

/// The waterfalls of both on one scale, and that from one to the other; open parts are marked in
/// the timelines of each.
pub(crate) fn blocks(
    gaps: [&Gap; 2],
    found: &Difference,
    marks_in: &[Vec<String>],
) -> Result<Vec<Block>, Error> {
    let longest = found.before_ns.max(found.after_ns);
    if longest <= 0 {
        return Ok(Vec::new());
    }
    let mut blocks = Vec::new();
    for ((letter, gap), marks_in) in ["A", "B"].into_iter().zip(gaps).zip(marks_in) {
        blocks.extend(waterfall(gap, &format!("{letter}: "), Some(longest), marks_in)?.map(Block::Waterfall));
    }
    blocks.push(Block::Text(
        "What B takes longer begins where the bar above it ends; what it takes less ends there.".to_owned(),
    ));
    blocks.push(Block::Waterfall(bridge(found)?.marks_in(marks_in.concat())));
    Ok(blocks)
}

/// The causes of the difference as a section.
pub(crate) fn section(found: &Difference) -> Result<[Block; 2], Error> {
    Ok([Block::Heading("By cause".to_owned()), Block::Table(tables::difference(found)?)])
}

/// From a step of A to one of B: a bar for each cause, which add up to the difference.
fn bridge(found: &Difference) -> Result<Waterfall, Error> {
    let what = if found.whole { "recording" } else { "step" };
    let sum = |letter: &str, ns: i64| {
        let fall = Fall::new(format!("{letter}: a {what}"), [0.0, ns as f64], Color::NEUTRAL);
        fall.text(time(ns as f64)).strong()
    };
    let changed: Vec<&CauseDifference> = found.causes.iter().filter(|own| own.difference_ns != 0).collect();
    let (single, rest) = changed.split_at(shown(changed.len(), CAUSES));
    let mut falls = vec![sum("A", found.before_ns)];
    let mut until = found.before_ns;
    let mut add = |label: String, color: Color, ns: i64, details: Table, of: &[&CauseDifference]| {
        let at = [until.min(until + ns) as f64, until.max(until + ns) as f64];
        until += ns;
        let marks = of.iter().map(|own| in_timeline(own.cause)).collect();
        let fall = Fall::new(label, at, color).text(signed(ns as f64)).details(details).marks(marks);
        falls.push(if ns > 0 { fall.rising() } else { fall });
    };
    for own in single {
        let label = format!("{}: {}", own.part.as_str(), own.cause.in_words());
        let rows = own.details.iter().map(|detail| {
            let text = |text: &Option<String>| Cell::text(text.as_deref().unwrap_or_default());
            ([text(&detail.what), text(&detail.by)], [detail.before_ns, detail.after_ns])
        });
        let details = details(&label, ["kernel, copy or call", "in"], rows.collect())?;
        add(label, color(own.part), own.difference_ns, details, std::slice::from_ref(own));
    }
    if !rest.is_empty() {
        let label = format!("{} other causes", rest.len());
        let rows = rest.iter().map(|own| {
            let cause = [Cell::text(own.part.as_str()), Cell::text(own.cause.in_words())];
            (cause, [own.before_ns, own.after_ns])
        });
        let details = details(&label, ["part", "cause"], rows.collect())?;
        add(label, Color::NEUTRAL, rest.iter().map(|own| own.difference_ns).sum(), details, rest);
    }
    falls.push(sum("B", found.after_ns));
    Ok(Waterfall::new(format!("From a {what} of A to one of B, by cause"), falls)?)
}

/// What a bar consists of, largest difference first; the rows add up to it.
fn details(
    label: &str,
    [first, second]: [&str; 2],
    rows: Vec<([Cell; 2], [i64; 2])>,
) -> Result<Table, Error> {
    let columns = [
        Column::text("what", first),
        Column::text("by", second),
        Column::number("before_ms", "A").unit("ms"),
        Column::number("after_ms", "B").unit("ms"),
        Column::number("difference_ms", "difference").unit("ms"),
    ];
    let mut table = Table::new(label, columns)?;
    let mut push = |cells: [Cell; 2], [before, after]: [i64; 2]| {
        let times = [before, after, after - before].map(|ns| ms(ns as f64));
        table.push(cells.into_iter().chain(times))
    };
    let more = rows.len().saturating_sub(DETAILS);
    let sum = |at: usize| rows.iter().skip(DETAILS).map(|(_, ns)| ns[at]).sum::<i64>();
    let rest = [sum(0), sum(1)];
    for (cells, ns) in rows.into_iter().take(DETAILS) {
        push(cells, ns)?;
    }
    if more > 0 {
        push([Cell::text(format!("{more} more")), Cell::Absent], rest)?;
    }
    Ok(table)
}
