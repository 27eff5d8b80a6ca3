#![doc = include_str!("../README.md")]

pub mod dense;
pub mod square;

mod error;

pub use error::MlpError;
