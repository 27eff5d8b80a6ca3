#![doc = include_str!("../README.md")]

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
