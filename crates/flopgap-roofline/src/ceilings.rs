//! The measured ceilings of a machine.

use std::collections::BTreeMap;

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
    /// Peak of each precision; of several of one precision the fastest first.
    pub peaks: Vec<Peak>,
    /// Bandwidth over working sets, smallest first. On a GPU through the second-level cache, which
    /// all multiprocessors share.
    pub bandwidth: Vec<Bandwidth>,
    /// The levels of the memory hierarchy with their sizes and bandwidths, fastest first; the last
    /// is DRAM or HBM and has no size.
    pub levels: Vec<Level>,
    /// Nanoseconds of an empty launch on a stream, or of a parallel region of the CPU.
    pub launch_ns: Quantity,
    /// Nanoseconds of an empty node of a CUDA graph; absent on a CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph_node_ns: Option<Quantity>,
    /// When, on which machine exactly, and what else was measured.
    #[serde(default)]
    pub details: Details,
}

impl Ceilings {
    /// The fastest peak of a precision, where it was measured.
    pub fn peak(&self, precision: Precision) -> Option<&Peak> {
        let rate = |peak: &&Peak| peak.ops_per_second.value;
        let measured = self.peaks.iter().filter(|peak| peak.precision == precision);
        measured.max_by(|a, b| rate(a).total_cmp(&rate(b)))
    }

    /// A level by its name.
    pub fn level(&self, name: &str) -> Option<&Level> {
        self.levels.iter().find(|level| level.name == name)
    }
}

/// When and on which machine ceilings were measured, and what else was measured there. All of it
/// may be absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Details {
    /// When the measurement ended, RFC 3339 in UTC.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub created: String,
    /// What distinguishes this device from others of its kind, and what a measurement depends on:
    /// compute capability, flags of the CPU, caches.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, String>,
    /// Versions of driver and libraries.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub versions: BTreeMap<String, String>,
    /// The clock of the multiprocessors during the products, in kHz, measured by the kernels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_khz: Option<Quantity>,
    /// The state of the device between the measurements, where it reports it: `clock_mhz` (lowest
    /// to highest), `temperature_c` (highest), `throttle` (all reasons), by the names of a row's
    /// state.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub state: BTreeMap<String, String>,
    /// The peaks of a single CPU thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_thread: Option<OneThread>,
    /// Bandwidth through the first-level cache, with a separate part of the working set for every
    /// multiprocessor; empty on a CPU, where [`Ceilings::bandwidth`] is measured in this way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub own_slices: Vec<Bandwidth>,
    /// What was not measured here, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<String>,
}

/// The peaks of a single CPU thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OneThread {
    /// Peak of each precision.
    pub peaks: Vec<Peak>,
    /// Bandwidth over working sets, smallest first.
    pub bandwidth: Vec<Bandwidth>,
}

/// A measured number with its spread.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Quantity {
    /// The median; on a CPU, where other programs disturb most measurements, the best.
    pub value: f64,
    /// Half of the distance between the quartiles, over the median.
    pub spread: f64,
}

/// A peak of arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Peak {
    /// The precision.
    pub precision: Precision,
    /// Whether tensor cores (AMX on a CPU) were used.
    pub tensor: bool,
    /// Operations per second: a multiply-add is two.
    pub ops_per_second: Quantity,
    /// The instructions used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instruction: Option<Instruction>,
}

/// The instructions that reached a peak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Instruction {
    /// Fused multiply-adds of each thread of a GPU (`fma.rn.f32`).
    Fma,
    /// `mma.sync`: tensor cores, operands in registers.
    MmaSync,
    /// `wgmma`: tensor cores of Hopper, operands in shared memory.
    Wgmma,
    /// Multiply-adds of 128-bit vectors, as the compiler translates them.
    Vector128,
    /// Fused multiply-adds of 256-bit vectors (AVX2 with FMA).
    Avx2,
    /// Fused multiply-adds of 512-bit vectors (AVX-512F).
    Avx512,
    /// Sums of four products of 8-bit integers, 256 bits (AVX-VNNI).
    AvxVnni,
    /// Sums of four products of 8-bit integers, 512 bits (AVX-512 VNNI).
    Avx512Vnni,
    /// Sums of two products of bfloat16, 512 bits (AVX-512 BF16).
    Avx512Bf16,
    /// Tiles (AMX).
    Amx,
}

/// Bandwidth at one working set.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bandwidth {
    /// Bytes of the working set, of all units together.
    pub bytes: u64,
    /// Bytes per second, read.
    pub read: Quantity,
    /// Bytes per second, written.
    pub write: Quantity,
    /// Bytes per second, read and written.
    pub copy: Quantity,
}

/// A level of the memory hierarchy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Level {
    /// `L1`, `L2`, `L3`, `DRAM`, `HBM`.
    pub name: String,
    /// Bytes it holds, of all units together; absent for the last.
    pub bytes: Option<u64>,
    /// Bytes per second, read.
    pub read: f64,
    /// Bytes per second, read and written by a copy.
    pub copy: f64,
}
