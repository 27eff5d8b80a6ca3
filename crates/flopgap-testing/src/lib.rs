#![doc = include_str!("../README.md")]

#[cfg(feature = "browser")]
pub mod browser;
mod folder;
#[cfg(feature = "program")]
mod program;
mod skip;

pub use folder::paths;
#[cfg(feature = "program")]
pub use program::Ended;
pub use skip::{none, skip, turn};
