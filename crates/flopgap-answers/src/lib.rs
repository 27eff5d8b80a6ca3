#![doc = include_str!("../README.md")]

mod error;
pub mod open;
pub mod page;
mod part;
pub mod sentences;
pub mod tables;

pub use error::Error;
pub use open::Opened;
pub use part::Part;
