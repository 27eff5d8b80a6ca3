//! A step of each rank on each GPU, side by side.

use std::collections::BTreeMap;

use flopgap_gap::{Gap, Limit, Place, Step};
use flopgap_report::chart::{Bar, Color, Part, Slice, Stacks};
use flopgap_report::html::Block;
use flopgap_report::table::{Cell, Column, Table};

use crate::error::Error;
use crate::sentences::gap::group;
use crate::sentences::{lower_first, time};
use crate::tables::ms;

/// The groups of causes with their colors, in the order of a bar: what the GPU does, what is
/// exposed, why it does nothing.
const GROUPS: [(Limit, Color); 10] = [
    (Limit::Gpu, Color::nth(4)),
    (Limit::Communication, Color::nth(13)),
    (Limit::Skew, Color::nth(3)),
    (Limit::Copies, Color::nth(8)),
    (Limit::Launch, Color::nth(5)),
    (Limit::Host, Color::nth(11)),
    (Limit::Sync, Color::nth(15)),
    (Limit::Input, Color::nth(10)),
    (Limit::Allocation, Color::nth(7)),
    (Limit::Unknown, Color::NEUTRAL),
];

/// The measured steps of a place, with the time until the next.
#[derive(Default)]
struct Own {
    steps: u64,
    limits: BTreeMap<Limit, i64>,
}

impl Own {
    /// Of a mean step: all of it, or what a group of causes takes.
    fn each(&self, limit: Option<Limit>) -> f64 {
        let own = self.limits.iter().filter(|(own, _)| limit.is_none_or(|limit| **own == limit));
        own.map(|(_, ns)| *ns).sum::<i64>() as f64 / self.steps.max(1) as f64
    }
}

/// The bars and their table; nothing where there is one place.
pub(crate) fn section(found: &Gap) -> Result<Vec<Block>, Error> {
    let mut places: BTreeMap<Place, Own> = BTreeMap::new();
    let of = |step: &Step| Place { rank: step.rank, process: step.process, gpu: step.gpu };
    for step in found.steps.iter().filter(|step| !step.warm_up) {
        places.entry(of(step)).or_default().steps += 1;
    }
    for step in found.steps.iter().chain(&found.between).filter(|step| !step.warm_up) {
        let Some(own) = places.get_mut(&of(step)) else { continue };
        for part in &step.parts {
            *own.limits.entry(part.limit).or_default() += part.ns;
        }
    }
    if places.len() < 2 {
        return Ok(Vec::new());
    }
    let is_there = |limit: Limit| places.values().any(|own| own.limits.contains_key(&limit));
    let groups: Vec<(Limit, Color)> = GROUPS.into_iter().filter(|(limit, _)| is_there(*limit)).collect();
    let part = |(limit, color): &(Limit, Color)| Part { label: label(*limit), color: *color };
    let bar = |(place, own): (&Place, &Own)| {
        let slice = |(limit, _): &(Limit, Color)| {
            let ns = own.each(Some(*limit));
            Slice { value: ns, text: time(ns) }
        };
        let slices = groups.iter().map(slice).collect();
        Bar { label: place.to_string(), total: time(own.each(None)), slices }
    };
    let title = format!("A mean {} of each rank and GPU, on one scale", what(found));
    let chart = Stacks::new(&title, groups.iter().map(part).collect(), places.iter().map(bar).collect())?;
    let mut columns = vec![Column::text("place", "of"), Column::number("step_ms", "all").unit("ms")];
    columns.extend(groups.iter().map(|(limit, _)| {
        Column::number(format!("{}_ms", limit.as_str()), limit.as_str()).unit("ms").rank(1)
    }));
    let mut table = Table::new(format!("A mean {} of each rank and GPU", what(found)), columns)?;
    for (place, own) in &places {
        let groups = groups.iter().map(|(limit, _)| ms(own.each(Some(*limit))));
        table.push([Cell::text(place.to_string()), ms(own.each(None))].into_iter().chain(groups))?;
    }
    Ok(vec![Block::Heading("Ranks and GPUs".to_owned()), Block::Stacks(chart), Block::Table(table)])
}

/// `` `step_*` ``, or what is taken apart where there are no steps.
fn what(found: &Gap) -> String {
    if super::gap::is_whole(found) { "recording".to_owned() } else { format!("`{}`", found.step) }
}

/// What a group is, with its name where that is another word.
fn label(limit: Limit) -> String {
    let words = lower_first(group(limit));
    if words.starts_with(limit.as_str()) { words } else { format!("{}: {words}", limit.as_str()) }
}
