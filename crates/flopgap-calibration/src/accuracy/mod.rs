//! How far predictions are from measurements.

mod errors;

pub use errors::{Coverage, Errors, quantile};
