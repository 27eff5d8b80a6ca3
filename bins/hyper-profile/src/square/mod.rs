#![doc = include_str!("../../docs/square.md")]

#[expect(unsafe_code, reason = "launching kernels is unsafe, and each place says why it may")]
pub mod cuda;
pub mod init;
pub mod reference;

mod backend;
mod cpu;
mod error;
mod shape;

pub use backend::Backend;
pub use cpu::Cpu;
pub use error::SquareError;
pub use shape::{Memory, Shape};
