#![doc = include_str!("../README.md")]

pub mod chart;
mod error;
mod field;
pub mod heatmap;
pub mod html;
pub mod numbers;
mod palette;
pub mod progress;
pub mod scale;
pub mod surface;
mod svg;
pub mod table;
pub mod text;

pub use error::ReportError;
