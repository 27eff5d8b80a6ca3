//! How far predictions are from measurements, and how far they may be.

mod bars;
mod errors;

pub use bars::{Accuracy, Bar, COVERAGE, Candidates, Verdict, accuracy, coverage, repeatability};
pub use errors::{Coverage, Errors, quantile};
