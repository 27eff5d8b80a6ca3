#![doc = include_str!("../../docs/engines.md")]

pub mod cpu;
pub mod cuda;
mod engine;
mod error;
mod measure;
mod native;
mod nvml;
mod ort;
mod placed;
mod reference;
mod repeat;
mod smallest;
mod torch;

pub use engine::{Engine, Repetition, Session};
pub use error::EngineError;
pub use measure::{Measure, MeasureError, Monitor, SHORTEST_WINDOW, Unwatched, measure};
pub use native::Native;
pub use nvml::Nvml;
pub use ort::{ModelFile, Ort};
pub use torch::{Torch, TorchMode, TorchSettings};
