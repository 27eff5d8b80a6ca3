//! Reads and writes ONNX models.

mod read;
mod write;

pub(crate) use read::{is_model, read};
pub use write::{initial_values, to_onnx};
