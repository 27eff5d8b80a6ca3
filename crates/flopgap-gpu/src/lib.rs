#![doc = include_str!("../README.md")]

pub mod blas;
pub mod compile;
pub mod counters;
pub mod launch;
pub mod library;
pub mod nvtx;
pub mod timing;

mod context;
mod device;
mod error;
mod event;
mod graph;
mod marks;
mod stream;

pub use context::{Context, Kernel, Memory, Module};
pub use device::{ComputeCapability, Device, DriverVersion, driver_version};
pub use error::GpuError;
pub use event::Event;
pub use graph::Graph;
pub use marks::{MarkError, Marks};
pub use stream::{Buffer, Stream};

/// The bindings that this crate is built on, for what it does not wrap. Probe the library first (see [`library`]): `cudarc` panics where one is
/// missing.
pub use cudarc;
/// What [`Stream::launch_builder`] needs: arguments, and grid and block.
pub use cudarc::driver::{LaunchConfig, PushKernelArg};
