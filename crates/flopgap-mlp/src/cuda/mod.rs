//! The network on a GPU.
//!
//! [`Model`] is what a program uses. Below it, every implementation has a folder of its own, with
//! its kernels (`*.cu`) and the code that launches them behind one trait; kernels are CUDA C
//! without headers, compiled by NVRTC for the sizes of the network and the GPU at hand.
//! [`device_code`] walks through two of them.

mod budget;
mod choice;
mod coopmat;
mod coopvec;
mod device;
mod dispatch;
pub mod encoding;
mod files;
mod forloop;
mod gradients;
mod kernels;
mod model;
mod naive;
mod options;
mod padding;
mod reduce;
mod request;
mod source;
pub mod tangent;
mod target;
mod tile;
pub mod train;

#[doc = include_str!("../../docs/kernels.md")]
pub mod device_code {}

// For the implementations, beside `kernels` and `source`.
use flopgap_gpu::launch;

pub use device::DeviceFunction;
pub use dispatch::{compile_all, sources};
pub use kernels::KernelFacts;
pub use model::{Model, Tape};
pub use options::{Accumulate, Gradients, Implementation, Options, Reduction};
pub use source::{Compiled, Source};
pub use target::Target;
