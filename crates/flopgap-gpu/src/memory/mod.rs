//! Memory on a device: who owns it, who uses it, and when it is freed.
//!
//! Every safe call that queues work enters the memory that it uses
//! ([`Submission`](crate::Submission)). From that the crate knows which streams must wait for each
//! other ([`order`]), and what a graph must own.

mod allocation;
mod buffer;
mod order;
mod queue;

pub use buffer::{AnyBits, Buffer, DeviceSlice, DeviceSliceMut, View, ViewMut};

pub(crate) use allocation::{Allocation, free_later, wait_for_all};
pub(crate) use order::{Access, Order};
pub(crate) use queue::{Passing, Queue};
