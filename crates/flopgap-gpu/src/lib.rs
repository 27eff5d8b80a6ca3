#![doc = include_str!("../README.md")]

pub mod blas;
pub mod blaslt;
mod capability;
pub mod compile;
pub mod counters;
pub mod dnn;
pub mod launch;
pub mod library;
pub mod timing;

mod capture;
mod captured;
mod context;
mod device;
mod digest;
mod error;
mod event;
mod foreign;
mod graph;
mod marks;
mod memory;
mod nodes;
mod stream;

pub use capability::ComputeCapability;
pub use context::{Context, Kernel, Memory, Module};
pub use device::{Device, DriverVersion, driver_version};
pub use digest::{Digester, digest_of};
pub use error::{GpuError, KernelError};
pub use event::Event;
pub use graph::Graph;
pub use marks::{MarkError, Marks};
pub use memory::{AnyBits, Buffer, DeviceSlice, DeviceSliceMut, View, ViewMut};
pub use nodes::KernelNode;
pub use stream::{Stream, Submission};

/// The bindings that this crate is built on, for what it does not wrap. Probe the library first
/// (see [`library`]): `cudarc` panics where one is missing.
pub use cudarc;
