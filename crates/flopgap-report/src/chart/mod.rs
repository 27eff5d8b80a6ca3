//! Charts of shares, of time and of points, as SVG.
//!
//! [`ShareBars`] shows of what one or several wholes are made, [`Stacks`] the same of many on one
//! scale, [`Waterfall`] how one falls to nothing, part by part, [`Timeline`] what happened when,
//! [`Plot`] lines and points over two axes, [`SmallMultiples`] many small plots side by side. They
//! know only labels, numbers and [`Color`]s. Positions are percentages and letters have a fixed
//! size, so that a chart fills whatever width it is given and stays legible there: a label that
//! does not fit is left out, and shown once there is room.
//!
//! Within the page of a [`Document`](crate::html::Document), colors follow the reader's choice of
//! light or dark.

mod multiples;
mod panel;
mod plot;
mod shares;
mod stacks;
mod timeline;
mod waterfall;

pub use crate::svg::style::Color;
pub use multiples::SmallMultiples;
pub(crate) use panel::Panel;
pub use panel::{Guide, Series};
pub use plot::Plot;
pub use shares::{Bar, Part, ShareBars, Slice};
pub use stacks::Stacks;
pub(crate) use timeline::script_json as timeline_json;
pub use timeline::{LaneId, NameId, RowId, Timeline};
pub(crate) use waterfall::Drawn;
pub use waterfall::{Fall, Waterfall};

use crate::error::ReportError;

/// Refuses a point that is not finite, and a chart without any.
fn check_points<'a>(title: &str, series: impl IntoIterator<Item = &'a Series>) -> Result<(), ReportError> {
    let mut any = false;
    for Series { label, points, missing, .. } in series {
        let missing = missing.iter().map(|place| (*place, 0.0));
        if let Some((x, y)) =
            points.iter().copied().chain(missing).find(|(x, y)| !(x.is_finite() && y.is_finite()))
        {
            let reason = format!("series `{label}`: the point ({x}, {y})");
            return Err(ReportError::InvalidPlot { title: title.to_owned(), reason });
        }
        any |= !points.is_empty();
    }
    let none =
        || ReportError::NothingToDraw { title: title.to_owned(), reason: "no series has a point".to_owned() };
    any.then_some(()).ok_or_else(none)
}
