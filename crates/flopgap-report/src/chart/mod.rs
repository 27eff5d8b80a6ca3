//! Charts of shares, of time and of points, as SVG.
//!
//! [`ShareBars`] shows of what one or several wholes are made, [`Timeline`] what happened when, [`LineChart`] values over an axis,
//! [`ScatterChart`] points over two. They know only labels, numbers and [`Colour`]s. Positions are percentages and letters have a fixed size, so that a chart fills whatever width it is given
//! and stays legible there: a label that does not fit is left out, and shown once there is room.
//!
//! A chart stands on its own ([`ShareBars::to_svg`]), or within the page of a [`Document`](crate::html::Document). Colours follow the
//! reader's choice of light or dark.

mod axis;
mod lines;
mod scatter;
mod shares;
mod style;
mod svg;
mod timeline;

pub use lines::{Line, LineChart};
pub use scatter::{Guide, PointGroup, ScatterChart};
pub use shares::{Bar, Part, ShareBars, Slice};
pub use style::Colour;
pub(crate) use style::page_style;
pub(crate) use timeline::script_json as timeline_json;
pub use timeline::{LaneId, NameId, RowId, Timeline};
