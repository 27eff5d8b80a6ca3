#![doc = include_str!("../README.md")]

mod build;
mod eager;
mod error;
mod family;
mod graph;
mod import;
pub mod language;
mod live;
mod onnx;
pub mod op;
mod plan;
mod pt2;
mod read;
mod shapes;
mod step;
mod workload;

pub use error::GraphError;
pub use family::spec::{MlpSpec, ResnetSpec};
pub use graph::{Graph, Layer, Layout, Tensor};
pub use onnx::{initial_values, to_onnx};
pub use op::Op;
pub use plan::{each_layer, plan};
pub use read::{is_model, read, read_training};
pub use shapes::{Shapes, StatedShape};
pub use step::{Algorithm, Epilogue, KernelLaunch, PlannedStep, Step};
pub use workload::{FileSpec, Mode, Workload};
