#![doc = include_str!("../README.md")]

mod graph;
pub mod op;
mod step;
mod workload;

pub use graph::{Graph, Layer, Tensor};
pub use op::Op;
pub use step::{Algorithm, Epilogue, PlannedStep, Step};
pub use workload::{FileSpec, MlpSpec, Mode, ResnetSpec, Workload};
