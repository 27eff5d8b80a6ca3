//! What the machine at hand can do at most, as measured.

use flopgap_flops::Precision;
use serde::{Deserialize, Serialize};

/// Measured ceilings of one device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ceilings {
    /// The device's name; the CPU's model.
    pub device: String,
    /// `cuda` or `cpu`.
    pub kind: String,
    /// Multiprocessors, or threads that compute.
    pub units: u32,
    /// Peak of each precision.
    pub peaks: Vec<Peak>,
    /// Bandwidth over working sets, smallest first.
    pub bandwidth: Vec<Bandwidth>,
    /// The levels of the memory hierarchy with their sizes and bandwidths, fastest first; the last is DRAM or HBM and has no size.
    pub levels: Vec<Level>,
    /// Nanoseconds of an empty launch on a stream, or of a parallel region of the CPU.
    pub launch_ns: Quantity,
    /// Nanoseconds of an empty node of a CUDA graph; absent on a CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph_node_ns: Option<Quantity>,
}

/// A measured number with its spread.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Quantity {
    /// The median.
    pub value: f64,
    /// Half of the distance between the quartiles, over the median.
    pub spread: f64,
}

/// A peak of arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Peak {
    /// The arithmetic.
    pub precision: Precision,
    /// Whether tensor cores (AMX on a CPU) did it.
    pub tensor: bool,
    /// Operations in a second: a multiply-add is two.
    pub ops_per_second: Quantity,
}

/// Bandwidth at one working set.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bandwidth {
    /// Bytes of the working set, of all units together.
    pub bytes: u64,
    /// Bytes in a second, read.
    pub read: Quantity,
    /// Bytes in a second, written.
    pub write: Quantity,
    /// Bytes in a second, read and written.
    pub copy: Quantity,
}

/// A level of the memory hierarchy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Level {
    /// `L1`, `L2`, `L3`, `DRAM`, `HBM`.
    pub name: String,
    /// Bytes it holds, of all units together; absent for the last.
    pub bytes: Option<u64>,
    /// Bytes in a second, read.
    pub read: f64,
    /// Bytes in a second, read and written by a copy.
    pub copy: f64,
}
