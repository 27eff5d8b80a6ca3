//! Offline pages: one file each, that loads nothing.
//!
//! [`Document`] is a page of headings, prose, tables and charts, in HTML, Markdown or JSON.
//! [`ReportPage`] is the page around an interactive surface: `report.html`.
//!
//! [`ReportPage::to_html`] writes a file that opens from a disk, an attachment or a web server
//! alike, and loads nothing: script, style and data are inside, and a content security policy
//! forbids the rest. Readers turn the surface with the mouse, choose metric and selection, sort
//! tables by a click on a heading; tables and facts need no JavaScript.

mod data;
mod document;
mod page;
mod policy;
mod view;

pub use document::{Block, Document};
pub use page::{Explorer, Metric, Point, ReportPage, Step};
