#![doc = include_str!("../README.md")]

pub mod dense;
pub mod square;

mod error;
mod matrix;

pub use error::MlpError;
