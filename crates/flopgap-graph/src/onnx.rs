//! Reads and writes ONNX models.

mod read;
mod write;

pub(crate) use read::read;
pub use write::{initial_values, to_onnx};
