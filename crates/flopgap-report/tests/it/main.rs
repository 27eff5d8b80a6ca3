//! Integration tests: pictures and pages as a caller gets them.

mod browser;
mod charts;
mod heatmaps;
mod markup;
mod page;
mod pictures;
