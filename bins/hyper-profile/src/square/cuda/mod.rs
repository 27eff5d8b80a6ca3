//! The network on a GPU.

mod engine;
mod network;
mod pointwise;

pub use engine::{Engine, bytes_needed};
pub use network::Network;
