//! What was recorded, row by row.

mod calls;
mod labels;
mod operation;

pub use calls::ApiCall;
pub use labels::{copy_label, memory_label};
pub use operation::{Kernel, MemoryCopy, MemorySet, Placement};
