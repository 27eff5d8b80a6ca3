//! Charts of shares, of time and of points, as SVG.
//!
//! [`ShareBars`] shows of what one or several wholes are made, [`Timeline`] what happened when,
//! [`LineChart`] values over an axis, [`ScatterChart`] points over two. They know only labels,
//! numbers and [`Color`]s. Positions are percentages and letters have a fixed size, so that a chart
//! fills whatever width it is given and stays legible there: a label that does not fit is left out,
//! and shown once there is room.
//!
//! A chart stands on its own ([`ShareBars::to_svg`]), or within the page of a
//! [`Document`](crate::html::Document). Colors follow the reader's choice of light or dark.

mod axis;
mod lines;
mod scatter;
mod shares;
mod style;
mod svg;
mod timeline;
mod widths;

pub use lines::{Line, LineChart};
pub use scatter::{Guide, PointGroup, ScatterChart};
pub use shares::{Bar, Part, ShareBars, Slice};
pub use style::Color;
pub(crate) use style::page_style;
pub(crate) use timeline::script_json as timeline_json;
pub use timeline::{LaneId, NameId, RowId, Timeline};

use crate::error::ReportError;

/// Refuses a point that is not finite, and a chart without any. `what` names the parts that have
/// points: a line, a group.
fn check_points<'a>(
    title: &str,
    what: &str,
    parts: impl Iterator<Item = (&'a str, &'a [(f64, f64)])>,
) -> Result<(), ReportError> {
    let mut any = false;
    for (label, points) in parts {
        if let Some((x, y)) = points.iter().find(|(x, y)| !(x.is_finite() && y.is_finite())) {
            let reason = format!("{what} `{label}`: the point ({x}, {y})");
            return Err(ReportError::InvalidPlot { title: title.to_owned(), reason });
        }
        any |= !points.is_empty();
    }
    let none =
        || ReportError::NothingToDraw { title: title.to_owned(), reason: format!("no {what} has a point") };
    any.then_some(()).ok_or_else(none)
}
