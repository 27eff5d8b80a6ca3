//! What comes first on a page: what limits a step, what it consists of, and what to change.

use std::cmp::Reverse;

use flopgap_gap::{Bar, Cause, Detail, FloorPart, FoundBy, Gap, Part, Share};
use flopgap_report::chart::{Color, Fall, Waterfall};
use flopgap_report::html::Block;
use flopgap_report::table::{Cell, Column, Table};

use crate::error::Error;
use crate::sentences::caveats::caveats;
use crate::sentences::floor::work;
use crate::sentences::gap::{advice, before_advice, near, steps, verdict};
use crate::sentences::{percent, shown, time};
use crate::tables::ms;

/// Causes of one part that have a bar of their own; the rest have one together.
pub(crate) const CAUSES: usize = 8;
/// Rows of what a bar consists of.
pub(crate) const DETAILS: usize = 20;

/// The color of a part.
pub(crate) fn color(part: Part) -> Color {
    Color::nth(match part {
        Part::Busy => 4,
        Part::Exposed => 13,
        Part::Idle => 5,
    })
}

/// What the pieces of a cause are called in a timeline.
pub(crate) fn in_timeline(cause: Cause) -> String {
    format!("{}: {}", cause.part().as_str(), cause.in_words())
}

/// Whether there are no steps, and all is one.
pub(crate) fn is_whole(found: &Gap) -> bool {
    found.found_by == FoundBy::None
}

/// The verdict, the waterfall from a step to what the GPU computes unless it stands elsewhere, and
/// the advice. Open parts are marked in some timelines.
pub(crate) fn blocks(found: &Gap, falls: bool, marks_in: &[String]) -> Result<Vec<Block>, Error> {
    let verdict: Vec<String> = [Some(verdict(found)), near(found)].into_iter().flatten().collect();
    let mut blocks = vec![Block::Text(verdict.join(" ")), Block::Text(steps(found))];
    blocks.extend(work(found).map(Block::Text));
    if falls {
        blocks.extend(waterfall(found, "", None, marks_in)?.map(Block::Waterfall));
    }
    blocks.push(Block::Text(before_advice(found).to_owned()));
    if !found.advice.is_empty() {
        blocks.push(Block::List(found.advice.iter().map(|it| advice(it, &found.gpus)).collect()));
    }
    blocks.extend(caveats(found).into_iter().map(Block::Text));
    Ok(blocks)
}

/// From the measured step down to what the GPU computes, and on to what that needs, or where this
/// is not known, to nothing; on the scale of a step of some nanoseconds. Nothing without time.
pub(crate) fn waterfall(
    found: &Gap,
    name: &str,
    step_ns: Option<i64>,
    marks_in: &[String],
) -> Result<Option<Waterfall>, Error> {
    if found.total_ns() <= 0 {
        return Ok(None);
    }
    let is_whole = is_whole(found);
    let mut falls = Falls { found, all: Vec::new(), until: found.total_ns() };
    falls.sum(if is_whole { "the recording" } else { "a step" });
    for part in [Part::Idle, Part::Exposed] {
        falls.causes(part, part.as_str(), color(part), |share| share.ns)?;
    }
    if found.parts.iter().any(|share| share.part == Part::Busy) {
        falls.sum("what the GPU computes");
    }
    let floor = found.floor.as_ref().filter(|floor| floor.peaks.is_some());
    let (part, color) = (Part::Busy, color(Part::Busy));
    if let Some(floor) = floor {
        let of = |share: &Share, ns: fn(&FloorPart) -> i64| {
            floor.parts.iter().filter(|own| own.cause == share.cause).map(ns).sum::<i64>()
        };
        falls.causes(part, Bar::AboveFloor.in_words(), color, |share| of(share, FloorPart::above_ns))?;
        falls.causes(part, Bar::Executed.in_words(), color, |share| of(share, |own| own.executed_ns))?;
        falls.causes(part, Bar::Repeated.in_words(), color, |share| of(share, |own| own.repeated_ns))?;
        let first = falls.all.len();
        let unknown = |own: &FloorPart| own.ns - own.known_ns;
        falls.causes(part, Bar::FloorUnknown.in_words(), Color::NEUTRAL, |share| of(share, unknown))?;
        let hatched: Vec<Fall> = falls.all.drain(first..).map(Fall::unknown).collect();
        falls.all.extend(hatched);
        falls.sum(Bar::Needed.in_words());
    } else {
        falls.causes(part, part.as_str(), color, |share| share.ns)?;
    }
    let what = if is_whole { "Everything recorded".to_owned() } else { format!("A mean `{}`", found.step) };
    let waterfall = Waterfall::new(format!("{name}{what}, taken apart"), falls.all)?;
    // The bars are sums over all steps.
    let scale = step_ns.map_or(0.0, |ns| ns as f64 * found.measured.max(1) as f64);
    Ok(Some(waterfall.on_scale_of(scale).marks_in(marks_in.to_vec())))
}

/// Bars of a waterfall, each from where the one before it ends.
struct Falls<'a> {
    found: &'a Gap,
    all: Vec<Fall>,
    until: i64,
}

impl Falls<'_> {
    fn text(&self, ns: i64) -> String {
        format!("{}, {}", time(self.found.each(ns)), percent(self.found.share(ns)))
    }

    /// What is left.
    fn sum(&mut self, label: &str) {
        let fall = Fall::new(label, [0.0, self.until as f64], Color::NEUTRAL);
        self.all.push(fall.text(self.text(self.until)).strong());
    }

    /// What the causes of a part take of it, a bar each, and one for the rest.
    fn causes(
        &mut self,
        part: Part,
        label: &str,
        color: Color,
        ns: impl Fn(&Share) -> i64,
    ) -> Result<(), Error> {
        let own = self.found.parts.iter().filter(|share| share.part == part);
        let mut own: Vec<(&Share, i64)> =
            own.map(|share| (share, ns(share))).filter(|own| own.1 > 0).collect();
        own.sort_by_key(|(_, ns)| Reverse(*ns));
        let (single, rest) = own.split_at(shown(own.len(), CAUSES));
        let single = single.iter().map(|own| (own.0.cause.in_words().to_owned(), std::slice::from_ref(own)));
        let rest = (!rest.is_empty()).then(|| (format!("{} other causes", rest.len()), rest));
        for (words, all) in single.chain(rest) {
            let ns: i64 = all.iter().map(|(_, ns)| ns).sum();
            let shares: Vec<&Share> = all.iter().map(|(share, _)| *share).collect();
            let label = format!("{label}: {words}");
            let details = details(&label, self.found, &shares)?;
            let at = [(self.until - ns) as f64, self.until as f64];
            self.until -= ns;
            let marks = shares.iter().map(|share| in_timeline(share.cause)).collect();
            self.all.push(Fall::new(label, at, color).text(self.text(ns)).details(details).marks(marks));
        }
        Ok(())
    }
}

/// What some causes consist of, largest first.
fn details(label: &str, found: &Gap, shares: &[&Share]) -> Result<Table, Error> {
    let several = shares.len() > 1;
    // A column without a value is left out.
    let has = |is: fn(&Detail) -> bool| shares.iter().any(|share| share.details.iter().any(is));
    let (has_what, has_by) = (has(|detail| detail.what.is_some()), has(|detail| detail.by.is_some()));
    let mut columns = vec![];
    columns.extend(several.then(|| Column::text("cause", "cause")));
    columns.extend(has_what.then(|| Column::text("what", "kernel, copy or call")));
    columns.extend(has_by.then(|| Column::text("by", "in")));
    columns.extend([
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
        row.extend(has_what.then(|| text(&detail.what)));
        row.extend(has_by.then(|| text(&detail.by)));
        row.extend([
            ms(found.each(detail.ns)),
            Cell::percent(found.share(detail.ns), 2),
            Cell::float(detail.pieces as f64 / found.measured.max(1) as f64, 1),
        ]);
        table.push(row)?;
    }
    if more > 0 {
        let mut row = vec![];
        row.extend(several.then_some(Cell::Absent));
        row.push(Cell::text(format!("{more} more")));
        row.extend((has_what && has_by).then_some(Cell::Absent));
        row.extend([ms(found.each(rest)), Cell::percent(found.share(rest), 2), Cell::Absent]);
        table.push(row)?;
    }
    Ok(table)
}
