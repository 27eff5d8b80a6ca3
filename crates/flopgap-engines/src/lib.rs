#![doc = include_str!("../README.md")]

mod engine;
mod error;
mod measure;

pub use engine::{Engine, Repetition, Session};
pub use error::EngineError;
pub use measure::{Measure, MeasureError, Monitor, SHORTEST_WINDOW, Unwatched, measure};
