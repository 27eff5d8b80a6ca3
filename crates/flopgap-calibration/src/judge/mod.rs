//! Measurements with estimates that were made without them.

mod error;
mod fitted;
mod judged;
mod series;
mod tables;

pub use error::JudgeError;
pub use fitted::{FitRequest, Fitted, cross_validated};
pub use judged::{Doubt, Judged, Pair, WithKernels};
pub use series::{Series, observation, series};
pub use tables::of_sheet;
