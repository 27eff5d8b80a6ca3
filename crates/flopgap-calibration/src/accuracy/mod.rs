//! Errors of predictions, and the errors allowed.

mod bars;
mod errors;

pub use bars::{Accuracy, Bar, COVERAGE, Candidates, Verdict, accuracy, coverage, repeatability};
pub use errors::{Coverage, Errors, quantile};
