//! The difference of two steps taken apart.

use flopgap_gap::Difference;
use flopgap_report::ReportError;
use flopgap_report::table::{Cell, Column, Table};

use super::ms;
use crate::sentences::words::inside;

/// The causes by which a step differs, with the largest detail of each: the rows add up to the
/// first one.
pub fn difference(found: &Difference) -> Result<Table, ReportError> {
    let [before, after] = &found.steps;
    let of_what = match (found.whole, before == after) {
        (true, _) => "The whole recording".to_owned(),
        (_, true) => format!("A mean `{after}`"),
        (_, false) => format!("A mean `{before}` before, a mean `{after}` after"),
    };
    let mut table = Table::new(
        format!("{of_what}: by cause"),
        [
            Column::text("part", "part"),
            Column::text("cause", "cause"),
            Column::number("before_ms", "before").unit("ms").rank(1),
            Column::number("after_ms", "after").unit("ms").rank(1),
            Column::number("difference_ms", "difference").unit("ms"),
            Column::number("detail_ms", "most").unit("ms").rank(2),
            Column::text("detail", "in").rank(2),
        ],
    )?;
    let row = |part: &str, cause: &str, ns: [i64; 3]| {
        let [before, after, difference] = ns.map(|ns| ms(ns as f64));
        vec![Cell::text(part), Cell::text(cause), before, after, difference]
    };
    let mut whole = row("all", "", [found.before_ns, found.after_ns, found.difference_ns]);
    whole.extend([Cell::Absent, Cell::Absent]);
    table.push(whole)?;
    for own in found.causes.iter().filter(|own| own.before_ns != 0 || own.after_ns != 0) {
        let ns = [own.before_ns, own.after_ns, own.difference_ns];
        let mut row = row(own.part.as_str(), own.cause.in_words(), ns);
        let most = own.details.first().filter(|detail| detail.difference_ns != 0);
        row.extend([
            Cell::optional(most, |detail| ms(detail.difference_ns as f64)),
            Cell::optional(most, |detail| {
                Cell::text(inside(detail.what.as_deref(), detail.by.as_deref()).replace('`', ""))
            }),
        ]);
        table.push(row)?;
    }
    Ok(table)
}
