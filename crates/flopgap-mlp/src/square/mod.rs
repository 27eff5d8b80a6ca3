//! The square sigmoid network: N layers of D x D weights without bias on M samples, in 32-bit floats; the workload whose FLOPs this workspace
//! counts. Every backend is checked against a 64-bit [`reference`](mod@reference), and that against finite differences.

pub mod cuda;
pub mod init;
pub mod reference;

mod backend;
mod cpu;
mod shape;

pub use backend::Backend;
pub use cpu::Cpu;
pub use shape::{Memory, Shape};
