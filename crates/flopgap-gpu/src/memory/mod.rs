//! Memory on a device: who owns it, who uses it, and when it is freed.
//!
//! Every safe call that queues work enters the memory that it uses
//! ([`Submission`](crate::Submission)). From that the crate knows which streams must wait for each
//! other ([`order`]), and what a graph must own.
//!
//! `cudarc` has memory that streams wait for, too (`CudaSlice`), but programs rely on what that
//! does not do. They capture graphs (`mlp-bench`, the engines, the probes of ceilings): a
//! `CudaSlice` that was used on another stream before makes the capture wait for an event from
//! outside of it, which the driver refuses, and a `CudaGraph` does not own the memory that it uses,
//! so that safe code could free it before a launch. And they use arrays of one stream on another
//! (`mlp-bench` its digests and its empty cache, a model its parameters), which costs no event for
//! arrays that one stream alone uses.

mod allocation;
mod buffer;
mod order;
mod queue;

pub use buffer::{AnyBits, Buffer, DeviceSlice, DeviceSliceMut, View, ViewMut};

pub(crate) use allocation::{Allocation, free_later};
pub(crate) use order::{Access, Order};
pub(crate) use queue::{Passing, Queue};
