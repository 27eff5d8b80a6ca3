//! Offline pages: one file each, that loads nothing.
//!
//! [`Document`] is a page of headings, prose, tables and charts, in HTML, Markdown or JSON. With a
//! [`Block::Explorer`], readers turn a surface with the mouse and choose metric and selection.
//!
//! [`Document::to_html`] writes a file that opens from a disk, an attachment or a web server
//! alike, and loads nothing: script, style and data are inside, and a content security policy
//! forbids the rest. Tables are sorted by a click on a heading; tables and facts need no
//! JavaScript.

mod data;
mod document;
mod explorer;
mod policy;
mod view;

pub use document::{Block, Document};
pub use explorer::{Explorer, Metric, Point, Step};
