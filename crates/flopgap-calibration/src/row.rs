//! A measured row.

use std::collections::BTreeMap;

use flopgap_flops::Precision;
use flopgap_graph::{Algorithm, Mode, Workload};
use serde::{Deserialize, Serialize};

/// One workload, measured on one engine of one machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The workload.
    #[serde(flatten)]
    pub workload: Workload,
    /// What ran it: `native`, `ort`, `cuda`, `fused`, `torch-eager`, …
    pub engine: String,
    /// How it was launched.
    pub mode: Mode,
    /// The precision.
    pub precision: Precision,
    /// Threads of the CPU that computed; 0 on a GPU.
    pub threads: u32,
    /// The measurement.
    #[serde(flatten)]
    pub measurement: Measurement,
}

/// The key of a row: a sweep measures each key once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RowKey {
    /// The workload.
    pub workload: Workload,
    /// The engine.
    pub engine: String,
    /// How it was launched.
    pub mode: Mode,
    /// The precision.
    pub precision: Precision,
    /// Threads of the CPU that computed; 0 on a GPU.
    pub threads: u32,
}

impl Row {
    /// The key of this row.
    pub fn key(&self) -> RowKey {
        RowKey {
            workload: self.workload.clone(),
            engine: self.engine.clone(),
            mode: self.mode,
            precision: self.precision,
            threads: self.threads,
        }
    }
}

/// The name of a mode in JSON, in tables and on command lines.
pub fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Call => "call",
        Mode::Stream => "stream",
        Mode::Graph => "graph",
    }
}

/// The mode of this name; none for another text.
pub fn mode_by_name(name: &str) -> Option<Mode> {
    [Mode::Call, Mode::Stream, Mode::Graph].into_iter().find(|mode| mode_name(*mode) == name)
}

/// The measurement of a workload. Values that were not measured, or cannot be on this device, are
/// absent and never 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Time of a run.
    pub time: Timing,
    /// The most bytes that the engine's allocator held, parameters included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// The most bytes of the device or process in use, those of libraries included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_memory_bytes: Option<u64>,
    /// Joules of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy: Option<Energy>,
    /// FLOPs of a run, by hardware counters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_flops: Option<u64>,
    /// How each step was computed, in their order; empty if the engine does not report it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub algorithms: Vec<Algorithm>,
    /// The deviation of the output from the reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<Check>,
    /// The state of the device while it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<DeviceState>,
    /// Remarks of the engine: `fp16 computed as fp32`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

impl Measurement {
    /// A measurement of the time alone.
    pub fn of_time(time: Timing) -> Measurement {
        Measurement {
            time,
            memory_bytes: None,
            device_memory_bytes: None,
            energy: None,
            counted_flops: None,
            algorithms: Vec::new(),
            check: None,
            state: None,
            remarks: Vec::new(),
        }
    }

    /// The first field that cannot have been measured, with its value: a time, a power or an energy
    /// that is zero, negative, or not a number.
    pub fn fault(&self) -> Option<(&'static str, f64)> {
        let time = &self.time;
        let mut numbers = vec![
            ("median_ns", time.median_ns),
            ("low_ns", time.low_ns),
            ("high_ns", time.high_ns),
            ("minimum_ns", time.minimum_ns),
        ];
        numbers.extend(time.wall_ns.map(|wall| ("wall_ns", wall)));
        if let Some(energy) = &self.energy {
            numbers.extend([
                ("joules", energy.joules),
                ("window_s", energy.window_s),
                ("watts", energy.watts),
            ]);
        }
        numbers.into_iter().find(|(_, value)| !(value.is_finite() && *value > 0.0))
    }
}

/// Nanoseconds of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// The median; on a CPU, and where a GPU waits for one, the median ratio to interleaved
    /// references, times the best reference of the session. On one thread it is of the time in
    /// which the thread ran; on several it is of wall time, and the lower quartile.
    pub median_ns: f64,
    /// Bounds of the 95 % confidence interval of `median_ns`.
    pub low_ns: f64,
    /// See `low_ns`.
    pub high_ns: f64,
    /// The fastest run.
    pub minimum_ns: f64,
    /// Runs that were timed.
    pub runs: u64,
    /// Whether the repetitions ended because of the cap, not because the interval was narrow
    /// enough.
    pub capped: bool,
    /// Median of the plain wall time, where `median_ns` is normalized by references.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_ns: Option<f64>,
}

/// Energy of a run, from a window of many.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Energy {
    /// Joules of a run.
    pub joules: f64,
    /// Length of the window in seconds.
    pub window_s: f64,
    /// Mean power over the window in watts.
    pub watts: f64,
    /// Where it was read: `nvml`, `rapl`.
    pub source: EnergySource,
}

/// Where energy was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EnergySource {
    /// NVML's total energy counter.
    Nvml,
    /// RAPL through powercap.
    Rapl,
}

/// A comparison of the output with a reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// What the reference was: `fp64`, `fp32 of the same engine`.
    pub reference: String,
    /// Largest difference over the largest magnitude of the reference.
    pub error: f64,
    /// The tolerance of this precision.
    pub bound: f64,
}

/// The state of a device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceState {
    /// Clock of the multiprocessors in MHz.
    pub clock_mhz: Option<u32>,
    /// Clock of the memory in MHz.
    pub memory_clock_mhz: Option<u32>,
    /// Degrees Celsius before the measurement.
    pub temperature_c: Option<u32>,
    /// The reasons for reduced clocks, by NVML's names; empty if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub throttle: Vec<String>,
}

/// The machine and software that rows come from. Rows of unlike origins are not mixed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// `NVIDIA H200`, `AMD EPYC 9645`.
    pub device: String,
    /// `cuda` or `cpu`.
    pub kind: String,
    /// Details that a prediction depends on: cores, flags, compute capability, multiprocessors,
    /// memory.
    pub properties: BTreeMap<String, String>,
    /// Versions of driver and libraries.
    pub versions: BTreeMap<String, String>,
}

#[cfg(test)]
mod tests {
    use flopgap_graph::op::Gemm;
    use flopgap_graph::{Epilogue, Op, Step};

    use super::*;

    #[test]
    fn rows_come_back_from_json() {
        let op = Op::Gemm(Gemm { batch: 1, m: 32, n: 512, k: 1024 });
        let time = Timing {
            median_ns: 1.5,
            low_ns: 1.0,
            high_ns: 2.0,
            minimum_ns: 1.0,
            runs: 10,
            capped: false,
            wall_ns: None,
        };
        let row = Row {
            workload: Workload::Step(Step { op, epilogue: Epilogue::default() }),
            engine: "cuda".to_owned(),
            mode: Mode::Graph,
            precision: Precision::Fp16,
            threads: 0,
            measurement: Measurement::of_time(time),
        };
        let json = serde_json::to_string(&row).unwrap();
        assert_eq!(serde_json::from_str::<Row>(&json).unwrap(), row, "{json}");
    }
}
