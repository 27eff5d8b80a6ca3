#![doc = include_str!("../README.md")]

#[cfg(feature = "browser")]
pub mod browser;
mod fixtures;
mod folder;
#[cfg(feature = "program")]
mod program;
mod skip;

pub use fixtures::{fixture, unpack, unpacked, unpacked_text};
pub use folder::paths;
#[cfg(feature = "program")]
pub use program::Ended;
pub use skip::{none, skip, turn};
