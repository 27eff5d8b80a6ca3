//! What comes first on a page: what limits a step, what it consists of, and what to change.

use std::cmp::Reverse;

use flopgap_gap::{FoundBy, Gap, Part, Share};
use flopgap_report::chart::{Color, Fall, Waterfall};
use flopgap_report::html::Block;
use flopgap_report::table::{Cell, Column, Table};

use crate::error::Error;
use crate::sentences::gap::{advice, caveats, near, steps, verdict};
use crate::sentences::{percent, time};
use crate::tables::ms;

/// Causes of one part that have a bar of their own; the rest have one together.
const CAUSES: usize = 8;
/// Rows of what a bar consists of.
const DETAILS: usize = 20;

/// The verdict, the waterfall from a step to what the GPU computes, and the advice.
pub(crate) fn blocks(found: &Gap) -> Result<Vec<Block>, Error> {
    let verdict: Vec<String> = [Some(verdict(found)), near(found)].into_iter().flatten().collect();
    let mut blocks = vec![Block::Text(verdict.join(" ")), Block::Text(steps(found))];
    if found.total_ns() > 0 {
        blocks.push(Block::Waterfall(waterfall(found)?));
    }
    let said = if found.advice.is_empty() {
        "Nothing to change was found that would shorten a step by 5 % or more."
    } else {
        "What to change first, and by how much a step becomes shorter at most:"
    };
    blocks.push(Block::Text(said.to_owned()));
    if !found.advice.is_empty() {
        blocks.push(Block::List(found.advice.iter().map(advice).collect()));
    }
    blocks.extend(caveats(found).into_iter().map(Block::Text));
    Ok(blocks)
}

/// From the measured step down to what the GPU computes, and on to nothing.
fn waterfall(found: &Gap) -> Result<Waterfall, Error> {
    let step = if found.found_by == FoundBy::None { "the recording" } else { "a step" };
    let sum = |ns: i64| format!("{}, {}", time(found.each(ns)), percent(found.share(ns)));
    let total = found.total_ns();
    let whole =
        |label: &str, ns: i64| Fall::new(label, [0.0, ns as f64], Color::NEUTRAL).text(sum(ns)).strong();
    let mut falls = vec![whole(step, total)];
    let mut until = total;
    for (part, color) in [(Part::Idle, 5), (Part::Exposed, 13), (Part::Busy, 4)] {
        let mut own: Vec<&Share> = found.parts.iter().filter(|share| share.part == part).collect();
        own.sort_by_key(|share| Reverse(share.ns));
        if part == Part::Busy && !own.is_empty() {
            falls.push(whole("what the GPU computes", until));
        }
        let shown = if own.len() > CAUSES + 1 { CAUSES } else { own.len() };
        let (single, rest) = own.split_at(shown);
        let single = single.iter().map(|share| (share.cause.in_words().to_owned(), vec![*share]));
        let rest = (!rest.is_empty()).then(|| (format!("{} other causes", rest.len()), rest.to_vec()));
        for (words, shares) in single.chain(rest) {
            let ns: i64 = shares.iter().map(|share| share.ns).sum();
            let label = format!("{}: {words}", part.as_str());
            let details = details(&label, found, &shares)?;
            let at = [(until - ns) as f64, until as f64];
            until -= ns;
            falls.push(Fall::new(label, at, Color::nth(color)).text(sum(ns)).details(details));
        }
    }
    let title = if found.found_by == FoundBy::None {
        "Everything recorded, taken apart".to_owned()
    } else {
        format!("A mean `{}`, taken apart", found.step)
    };
    Ok(Waterfall::new(title, falls)?)
}

/// What some causes consist of, largest first.
fn details(label: &str, found: &Gap, shares: &[&Share]) -> Result<Table, Error> {
    let several = shares.len() > 1;
    let mut columns = vec![];
    columns.extend(several.then(|| Column::text("cause", "cause")));
    columns.extend([
        Column::text("what", "kernel, copy or call"),
        Column::text("by", "in"),
        Column::number("time_ms", "time").unit("ms"),
        Column::number("share", "of the step"),
        Column::number("pieces", "pieces"),
    ]);
    let mut rows: Vec<_> =
        shares.iter().flat_map(|share| share.details.iter().map(|detail| (share.cause, detail))).collect();
    rows.sort_by_key(|(_, detail)| Reverse(detail.ns));
    let more = rows.len().saturating_sub(DETAILS);
    let rest: i64 = rows.iter().skip(DETAILS).map(|(_, detail)| detail.ns).sum();
    let mut table = Table::new(label, columns)?;
    let text = |text: &Option<String>| Cell::text(text.as_deref().unwrap_or_default());
    for (cause, detail) in rows.into_iter().take(DETAILS) {
        let mut row = vec![];
        row.extend(several.then(|| Cell::text(cause.in_words())));
        row.extend([
            text(&detail.what),
            text(&detail.by),
            ms(found.each(detail.ns)),
            Cell::percent(found.share(detail.ns), 2),
            Cell::float(detail.pieces as f64 / found.measured.max(1) as f64, 1),
        ]);
        table.push(row)?;
    }
    if more > 0 {
        let mut row = vec![];
        row.extend(several.then_some(Cell::Absent));
        row.extend([
            Cell::text(format!("{more} more")),
            Cell::Absent,
            ms(found.each(rest)),
            Cell::percent(found.share(rest), 2),
            Cell::Absent,
        ]);
        table.push(row)?;
    }
    Ok(table)
}
