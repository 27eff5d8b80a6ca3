//! Fully connected networks: `in -> hidden -> ... -> out`, for batches of independent samples.
//!
//! On a GPU ([`cuda`]) the same function is there in several implementations, in 32-bit floats,
//! half precision and bfloat16; on the CPU ([`Cpu`]) in 32-bit floats. All are checked against a
//! 64-bit [`reference`](mod@reference).

pub mod cpu;
pub mod cuda;
pub mod reference;

mod activation;
mod adamw;
mod element;
mod file;
mod network;
mod parameters;
mod size;

pub use activation::LEAKY_SLOPE;
pub(crate) use activation::slope_from_output;
pub use adamw::AdamWSettings;
pub use cpu::{CorePeaks, Cpu};
pub use element::{Element, Precision};
pub use file::FileError;
pub use flopgap_flops::Activation;
pub use network::Network;
pub use parameters::Parameters;
pub use size::Size;
