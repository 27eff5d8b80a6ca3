#![doc = include_str!("../README.md")]

mod difference;
mod matrix;
mod random;

pub use difference::relative_error;
pub use matrix::{Matrix, product};
pub use random::uniform;
