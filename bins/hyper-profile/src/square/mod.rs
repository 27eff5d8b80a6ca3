#![doc = include_str!("../../docs/square.md")]

#[expect(unsafe_code, reason = "launching kernels is unsafe, and each place says why it may")]
pub mod cuda;

mod error;
mod shape;

pub use error::SquareError;
pub use shape::{Memory, Shape};
