#![doc = include_str!("../README.md")]

pub mod chart;
mod error;
pub mod html;
pub mod numbers;
mod palette;
pub mod progress;
pub mod surface;
pub mod table;

pub use error::ReportError;
