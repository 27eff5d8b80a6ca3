//! The least time that a pass can take on a device.

use flopgap_gpu::{ComputeCapability, Device};
use flopgap_mlp::{CorePeaks, Network, Precision};
use serde::ser::SerializeStruct as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::pass::Pass;

/// The peaks of a device.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Peaks {
    /// 32-bit multiply-adds, FLOP/s.
    pub(crate) fp32: f64,
    /// 16-bit products with sums in 32 bits on tensor cores, FLOP/s.
    pub(crate) half: f64,
    /// Memory, bytes/s.
    pub(crate) memory: f64,
    /// Where the numbers come from.
    pub(crate) origin: String,
}

/// FLOP in a cycle of a multiprocessor: scalar in 32 bits, and dense 16-bit products with 32-bit
/// sums on its tensor cores; from NVIDIA's tables of throughput by compute capability and its data
/// sheets. `GeForce` cards sum in 32 bits at half of the rate of the other cards of their compute
/// capability.
fn per_cycle(capability: ComputeCapability, geforce: bool) -> (f64, f64) {
    let of_card = if geforce { 512.0 } else { 1024.0 };
    match (capability.major, capability.minor) {
        (7, _) => (128.0, of_card),
        (8, 0) => (128.0, 2048.0),
        (8, 7) => (256.0, 2048.0),
        (8 | 12, _) => (256.0, of_card),
        (9, _) => (256.0, 4096.0),
        _ => (256.0, 8192.0),
    }
}

impl Peaks {
    /// An H200 has those that were measured on one: 60 TFLOP/s of 32-bit multiply-adds, 790 TFLOP/s
    /// on tensor cores, 4.3 TB/s. Others have what clock, width of the memory interface and compute
    /// capability say, which no program reaches; `None` where the driver does not say them.
    pub(crate) fn of(device: &Device) -> Option<Self> {
        if device.name.contains("H200") {
            return Some(Peaks {
                fp32: 60e12,
                half: 790e12,
                memory: 4.3e12,
                origin: "measured on an H200".to_owned(),
            });
        }
        let per_cycle = per_cycle(device.compute_capability, device.name.contains("GeForce"));
        let cycles = f64::from(device.multiprocessors) * f64::from(device.clock_khz) * 1e3;
        Self::from_clocks(per_cycle, cycles, device.peak_memory_bandwidth() as f64)
    }

    /// From FLOP per cycle, the cycles of all multiprocessors per second, and bytes/s of the
    /// memory. A driver that does not know a clock says 0.
    fn from_clocks((scalar, tensor): (f64, f64), cycles: f64, memory: f64) -> Option<Self> {
        let origin = "from the device's clocks and widths".to_owned();
        (cycles > 0.0 && memory > 0.0).then_some(Peaks {
            fp32: cycles * scalar,
            half: cycles * tensor,
            memory,
            origin,
        })
    }

    /// Those of this machine's cores, which compute in 32 bits alone.
    pub(crate) fn of_cores(measured: &CorePeaks) -> Self {
        Peaks {
            fp32: measured.flops,
            half: measured.flops,
            memory: measured.bytes,
            origin: "measured on these cores before the run".to_owned(),
        }
    }

    /// The peak FLOP/s of a precision.
    pub(crate) fn rate(&self, precision: Precision) -> f64 {
        if precision == Precision::F32 { self.fp32 } else { self.half }
    }
}

impl Serialize for Peaks {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut peaks = serializer.serialize_struct("Peaks", 4)?;
        peaks.serialize_field("fp32_tflops", &(self.fp32 / 1e12))?;
        peaks.serialize_field("fp16_tflops", &(self.half / 1e12))?;
        peaks.serialize_field("memory_gbps", &(self.memory / 1e9))?;
        peaks.serialize_field("origin", &self.origin)?;
        peaks.end()
    }
}

impl<'de> Deserialize<'de> for Peaks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Written {
            fp32_tflops: f64,
            fp16_tflops: f64,
            memory_gbps: f64,
            origin: String,
        }
        let Written { fp32_tflops, fp16_tflops, memory_gbps, origin } = Written::deserialize(deserializer)?;
        Ok(Peaks { fp32: fp32_tflops * 1e12, half: fp16_tflops * 1e12, memory: memory_gbps * 1e9, origin })
    }
}

/// The compulsory work of a pass.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Work {
    /// FLOP of the products.
    pub(crate) flops: f64,
    /// Bytes that must be read or written at least once: inputs, outputs, their gradients,
    /// parameters.
    pub(crate) bytes: f64,
}

impl Work {
    /// The products are `2 in out` FLOP for each layer and sample, forward, and twice that backward
    /// (gradients by the inputs and by the weights). What an implementation computes again, or
    /// keeps in memory in between, is not counted: it is its own choice.
    pub(crate) fn new(network: &Network, precision: Precision, pass: Pass, batch: usize) -> Self {
        let element = precision.bytes() as f64;
        let (batch, parameters) = (batch as f64, network.parameters() as f64);
        let products: usize = network.widths().windows(2).map(|pair| 2 * pair[0] * pair[1]).sum();
        let (inputs, outputs) = (network.inputs() as f64, network.outputs() as f64);
        let (times, numbers, gradients) = match pass {
            Pass::Forward => (1.0, inputs + outputs, 0.0),
            Pass::Backward => (2.0, 2.0 * inputs + outputs, 4.0),
            Pass::Train => (3.0, 2.0 * inputs + 2.0 * outputs, 4.0),
        };
        Work {
            flops: times * products as f64 * batch,
            bytes: batch * numbers * element + parameters * (element + gradients),
        }
    }

    /// Microseconds at the peaks: the larger of computing and moving.
    pub(crate) fn floor(&self, peaks: &Peaks, precision: Precision) -> f64 {
        (self.flops / peaks.rate(precision)).max(self.bytes / peaks.memory) * 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flopgap_mlp::Size;

    #[test]
    fn floors_are_those_worked_out_by_hand() {
        let peaks = Peaks { fp32: 60e12, half: 790e12, memory: 4.3e12, origin: String::new() };
        let floor = |size: Size, precision, pass| {
            Work::new(&size.network(), precision, pass, 1 << 20).floor(&peaks, precision)
        };
        // 160 bytes a sample at 4.3 TB/s; 655,360 FLOP a sample at 790 and at 60 TFLOP/s.
        assert!((floor(Size::Small, Precision::F16, Pass::Forward) - 39.02).abs() < 0.01);
        assert!((floor(Size::XLarge, Precision::F16, Pass::Forward) - 869.9).abs() < 0.1);
        assert!((floor(Size::XLarge, Precision::F32, Pass::Forward) - 11_453.2).abs() < 0.1);
        // x and dy read, dx written: 288 bytes a sample.
        assert!((floor(Size::Small, Precision::F16, Pass::Backward) - 70.24).abs() < 0.01);
        assert!((floor(Size::XLarge, Precision::F16, Pass::Train) - 3.0 * 869.87).abs() < 0.1);
    }

    #[test]
    fn peaks_are_those_of_data_sheets_where_the_driver_says_the_clocks() {
        let peaks = |[major, minor]: [u32; 2], geforce, multiprocessors: f64, ghz: f64| {
            let per_cycle = per_cycle(ComputeCapability { major, minor }, geforce);
            let peaks = Peaks::from_clocks(per_cycle, multiprocessors * ghz * 1e9, 1.0)?;
            Some([peaks.fp32, peaks.half].map(|peak| (peak / 1e11).round() / 10.0))
        };
        // TFLOP/s of a T4, an A100, an RTX 3090, an L4, an H100 and a B200.
        assert_eq!(peaks([7, 5], false, 40.0, 1.59), Some([8.1, 65.1]));
        assert_eq!(peaks([8, 0], false, 108.0, 1.41), Some([19.5, 311.9]));
        assert_eq!(peaks([8, 6], true, 82.0, 1.695), Some([35.6, 71.2]));
        assert_eq!(peaks([8, 9], false, 58.0, 2.04), Some([30.3, 121.2]));
        assert_eq!(peaks([9, 0], false, 132.0, 1.83), Some([61.8, 989.4]));
        assert_eq!(peaks([10, 0], false, 148.0, 1.85), Some([70.1, 2243.0]));
        assert_eq!(peaks([10, 0], false, 148.0, 0.0), None);
        assert_eq!(Peaks::from_clocks((256.0, 8192.0), 1e12, 0.0), None);
    }
}
