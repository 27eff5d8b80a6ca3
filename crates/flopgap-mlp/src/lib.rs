#![doc = include_str!("../README.md")]

pub mod dense;

mod error;

pub use error::MlpError;
