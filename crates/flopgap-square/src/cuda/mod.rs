//! The network on a GPU.

mod chain;
mod compile;
mod engine;
mod fused;
mod kernels;
mod network;
mod plan;
mod pointwise;
mod small;

pub use compile::OPTIONS;
pub use engine::{Engine, Options, Products, bytes_needed};
pub use kernels::{SOURCES, compile_all};
pub use network::{Network, Recorded, Work};
