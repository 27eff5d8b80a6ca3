#![doc = include_str!("../README.md")]

#[cfg(feature = "pages")]
pub mod axis;
#[cfg(feature = "pages")]
pub mod chart;
mod error;
#[cfg(feature = "pages")]
mod field;
#[cfg(feature = "pages")]
pub mod heatmap;
#[cfg(feature = "pages")]
pub mod html;
pub mod numbers;
#[cfg(feature = "pages")]
mod palette;
#[cfg(feature = "progress")]
pub mod progress;
#[cfg(feature = "pages")]
pub mod scale;
#[cfg(feature = "pages")]
pub mod surface;
#[cfg(feature = "pages")]
mod svg;
pub mod table;
pub mod text;

pub use error::ReportError;
