//! The network on a Vulkan device: any GPU with a driver for Vulkan 1.3, or the processor by Mesa's
//! lavapipe.
//!
//! [`Model`] has the three implementations of the benchmark, forward and backward, in shaders that
//! are compiled when flopgap is developed: a user needs a driver and the loader, no compiler and
//! no CUDA.
//!
//! | `Implementation` | shader | needs |
//! |---|---|---|
//! | `Forloop` | a thread computes a sample with plain loops | Vulkan 1.3; for fp16 16-bit numbers |
//! | `Coopvec` | a thread has a vector of its own, the driver multiplies those of a subgroup by one matrix | `VK_NV_cooperative_vector`, fp16 |
//! | `Coopmat` | a workgroup takes a tile of samples through all layers in shared memory | `VK_KHR_cooperative_matrix` of fp16 with sums in fp32 |
//!
//! Sums of products are in 32 bits, except in `Coopvec`: its results have 16 bits, and how the
//! driver sums is its own. Gradients by the parameters are summed in a fixed order. Widths are
//! padded to multiples of 16 inside, and for `Coopvec` all hidden layers to the widest.
//!
//! ```no_run
//! use flopgap_mlp::cuda::Implementation;
//! use flopgap_mlp::vulkan::{Device, Model};
//! use flopgap_mlp::{Network, Parameters};
//! use half::f16;
//!
//! let (device, network) = (Device::new(0)?, Network::new(&[32, 64, 64, 8])?);
//! let mut model = Model::<f16>::new(&device, &network, Implementation::Auto)?;
//! model.upload(&Parameters::he(&network, 42))?;
//! let mut batch = model.batch(16_384, true)?;
//! batch.write_inputs(&vec![f16::ONE; 16_384 * 32])?;
//! batch.write_output_gradients(&vec![f16::ONE; 16_384 * 8])?;
//! model.forward_train(&mut batch)?;
//! model.backward(&mut batch)?;
//! let (y, gradients) = (batch.outputs()?, batch.gradients()?);
//! # Ok::<(), flopgap_mlp::MlpError>(())
//! ```

mod abilities;
mod batch;
mod coopvec;
mod device;
mod error;
mod memory;
mod model;
mod pipeline;
mod plan;
mod shape;
mod stored;

pub use batch::{Batch, Pass};
pub use device::Device;
pub use error::VulkanError;
pub use model::Model;
