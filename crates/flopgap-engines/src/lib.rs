#![doc = include_str!("../README.md")]

mod engine;
mod error;

pub use engine::{Engine, Repetition, Session};
pub use error::EngineError;
