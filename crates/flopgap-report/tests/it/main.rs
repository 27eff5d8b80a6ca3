//! Integration tests: pictures and pages as a caller gets them.

mod browser;
mod browser_address;
mod browser_heatmaps;
mod charts;
mod heatmaps;
mod markup;
mod page;
mod pictures;
