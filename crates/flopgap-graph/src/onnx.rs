//! ONNX models, written.

mod write;

pub use write::{initial_values, to_onnx};
