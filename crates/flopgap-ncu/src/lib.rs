//! Nsight Compute reports as typed launches and metrics.

mod error;
mod model;
mod rep;
mod source;

pub use error::Error;
pub use model::{Dim3, Launch, LaunchView, Metric, NvtxKind, NvtxRange, Strings, Symbol, Value, Warning};
