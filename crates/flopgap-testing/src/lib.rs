#![doc = include_str!("../README.md")]

#[cfg(feature = "browser")]
pub mod browser;
mod skip;

pub use skip::{none, skip, turn};
