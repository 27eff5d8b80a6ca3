#![doc = include_str!("../README.md")]

pub mod cpu;
pub mod cuda;
pub mod encoding;
pub mod numerics;
pub mod reference;
#[cfg(feature = "vulkan")]
pub mod vulkan;

mod activation;
mod adamw;
mod element;
mod error;
mod file;
mod network;
mod parameters;
mod size;

pub use activation::LEAKY_SLOPE;
pub(crate) use activation::slope_from_output;
pub use adamw::AdamWSettings;
pub use cpu::{CorePeaks, Cpu};
pub use element::{Element, Precision};
pub use error::MlpError;
pub use file::FileError;
pub use flopgap_flops::Activation;
pub use network::Network;
pub use parameters::Parameters;
pub use size::Size;
