#![doc = include_str!("../README.md")]

pub mod ask;
mod error;
pub mod open;
#[cfg(feature = "pages")]
pub mod page;
mod part;
pub mod screen;
pub mod sentences;
pub mod tables;

pub use ask::Answer;
pub use error::Error;
pub use open::Opened;
pub use part::Part;
