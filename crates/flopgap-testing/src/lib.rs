#![doc = include_str!("../README.md")]

#[cfg(feature = "browser")]
pub mod browser;
#[cfg(feature = "program")]
mod program;
mod skip;

#[cfg(feature = "program")]
pub use program::Ended;
pub use skip::{none, skip, turn};
