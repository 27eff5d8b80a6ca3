//! The ceilings of the GPU of a launch, from what its report says about that GPU.

use flopgap_ncu::{Flops, LaunchView, Measurement, OperationType, Strings, Symbol};
use rustc_hash::FxHashMap;

/// A GPU of a report: its number, and what distinguishes it from another of the same number, where
/// the report says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Gpu {
    /// The CUDA device index, which each process counts for itself.
    pub device: Option<u64>,
    /// The compute capability, major and minor.
    pub capability: Option<(u32, u32)>,
    /// The address on the PCI bus: domain, bus, device.
    pub pci: Option<[u64; 3]>,
}

/// What a metric says about the GPU or how busy it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// FMA instructions of one kind that all multiprocessors execute in a cycle at most.
    Instructions(Shader),
    /// Dense operations of one type that the tensor cores execute in a cycle at most.
    Tensor(OperationType),
    /// Bytes of device memory in a cycle of that memory at most.
    Memory,
    /// Cycles of the multiprocessors in a second.
    Clock,
    /// Cycles of the device memory in a second.
    MemoryClock,
    /// A property of the GPU.
    Attribute(Attribute),
    /// Active warps, in percent of those that fit.
    Occupancy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shader {
    Fp32,
    Fp64,
    Fp16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attribute {
    Multiprocessors,
    ClockKhz,
    MemoryClockKhz,
    BusBits,
    SingleToDouble,
    PciDomain,
    PciBus,
    PciDevice,
}

const ATTRIBUTES: usize = 8;

/// What one launch's metrics say.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Facts {
    shader: [Option<f64>; 3],
    tensor: [Option<f64>; OperationType::ALL.len()],
    memory: Option<f64>,
    clock: Option<f64>,
    memory_clock: Option<f64>,
    attributes: [Option<f64>; ATTRIBUTES],
    /// Achieved occupancy in percent.
    pub(crate) occupancy: Option<f64>,
    capability: Option<(u32, u32)>,
}

/// Reads [`Facts`] launch by launch; for the launches of one report.
#[derive(Debug, Default)]
pub(crate) struct FactReader {
    roles: FxHashMap<Symbol, Option<Role>>,
}

impl FactReader {
    pub(crate) fn read(&mut self, launch: LaunchView<'_>) -> Facts {
        let mut facts = Facts { capability: launch.compute_capability, ..Facts::default() };
        for metric in &launch.metrics {
            let role = self.roles.entry(metric.name).or_insert_with(|| role(metric.name, launch.strings));
            let Some(role) = *role else { continue };
            let Some(base) = metric.in_base_units(launch.strings) else { continue };
            facts.take(role, base.value);
        }
        facts
    }
}

fn role(name: Symbol, strings: &Strings) -> Option<Role> {
    let name = strings.get(name);
    if let Some(attribute) = name.strip_prefix("device__attribute_") {
        return Some(Role::Attribute(match attribute {
            "multiprocessor_count" => Attribute::Multiprocessors,
            "clock_rate" => Attribute::ClockKhz,
            "memory_clock_rate" => Attribute::MemoryClockKhz,
            "global_memory_bus_width" => Attribute::BusBits,
            "single_to_double_precision_perf_ratio" => Attribute::SingleToDouble,
            "pci_domain_id" => Attribute::PciDomain,
            "pci_bus_id" => Attribute::PciBus,
            "pci_device_id" => Attribute::PciDevice,
            _ => return None,
        }));
    }
    if let Some(metric) = name.strip_suffix(".sum.peak_sustained") {
        return match metric {
            "sm__sass_thread_inst_executed_op_ffma_pred_on" => Some(Role::Instructions(Shader::Fp32)),
            "sm__sass_thread_inst_executed_op_dfma_pred_on" => Some(Role::Instructions(Shader::Fp64)),
            "sm__sass_thread_inst_executed_op_hfma_pred_on" => Some(Role::Instructions(Shader::Fp16)),
            "dram__bytes" => Some(Role::Memory),
            _ => tensor(metric).map(Role::Tensor),
        };
    }
    Some(match name {
        "sm__cycles_elapsed.avg.per_second" | "smsp__cycles_elapsed.avg.per_second" => Role::Clock,
        "dram__cycles_elapsed.avg.per_second" => Role::MemoryClock,
        // The details page has the label alone.
        "sm__warps_active.avg.pct_of_peak_sustained_active" | "Achieved Occupancy" => Role::Occupancy,
        _ => return None,
    })
}

/// The type whose dense products a peak of the tensor cores is about. The peak over all sparsities
/// is that of sparse products, which twice as many operations are counted for.
fn tensor(metric: &str) -> Option<OperationType> {
    let path = metric.strip_prefix("sm__ops_path_tensor_")?;
    if path == "src_fp64" {
        return Some(OperationType::TensorFp64);
    }
    let dense = path.strip_suffix("_sparsity_off")?;
    let source = dense.strip_prefix("src_").or_else(|| Some(dense.split_once("_src_")?.1))?;
    Some(match source.split_once("_dst_").map_or(source, |(source, _)| source) {
        "tf32" => OperationType::TensorTf32,
        "bf16" => OperationType::TensorBf16,
        "fp16" => OperationType::TensorFp16,
        "fp8" => OperationType::TensorFp8,
        "int8" => OperationType::TensorInt8,
        _ => return None,
    })
}

impl Facts {
    fn take(&mut self, role: Role, value: f64) {
        if !(value.is_finite() && value >= 0.0) {
            return;
        }
        match role {
            Role::Occupancy => drop(self.occupancy.get_or_insert(value)),
            Role::Attribute(attribute) => self.attributes[attribute as usize] = Some(value),
            // Ceilings of 0 would be those of no GPU.
            _ if value == 0.0 => {}
            Role::Instructions(shader) => self.shader[shader as usize] = Some(value),
            Role::Tensor(precision) => {
                // The widest instruction reaches the most.
                let known = &mut self.tensor[index(precision)];
                *known = Some(known.unwrap_or_default().max(value));
            }
            Role::Memory => self.memory = Some(value),
            Role::Clock => drop(self.clock.get_or_insert(value)),
            Role::MemoryClock => self.memory_clock = Some(value),
        }
    }

    fn attribute(&self, attribute: Attribute) -> Option<f64> {
        self.attributes[attribute as usize].filter(|&value| value > 0.0)
    }

    pub(crate) fn gpu(&self, launch: LaunchView<'_>) -> Gpu {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // small whole numbers
        let pci = |attribute: Attribute| self.attributes[attribute as usize].map(|value| value as u64);
        let [domain, bus, device] = [Attribute::PciDomain, Attribute::PciBus, Attribute::PciDevice].map(pci);
        Gpu {
            device: launch.device,
            capability: launch.compute_capability,
            pci: domain.zip(bus).zip(device).map(|((domain, bus), device)| [domain, bus, device]),
        }
    }

    /// Hertz: the clock of the recording, or else the GPU's highest.
    fn clock(&self) -> Option<f64> {
        self.clock.or_else(|| Some(self.attribute(Attribute::ClockKhz)? * 1e3))
    }

    /// Bytes of device memory in a second. Without the counter: two transfers a cycle on every
    /// line of the bus, as data sheets compute it.
    fn bandwidth(&self) -> Option<f64> {
        if let (Some(bytes), Some(clock)) = (self.memory, self.memory_clock) {
            return Some(bytes * clock);
        }
        let clock = self.attribute(Attribute::MemoryClockKhz)? * 1e3;
        Some(2.0 * clock * self.attribute(Attribute::BusBits)? / 8.0)
    }

    /// Operations of a precision in a second.
    fn peak(&self, precision: OperationType) -> Option<f64> {
        let counted = match precision {
            OperationType::Fp32 => self.shader[Shader::Fp32 as usize].map(|fused| 2.0 * fused),
            OperationType::Fp64 => self.shader[Shader::Fp64 as usize].map(|fused| 2.0 * fused),
            // An HFMA works on two halves.
            OperationType::Fp16 => self.shader[Shader::Fp16 as usize].map(|fused| 4.0 * fused),
            tensor => self.tensor[index(tensor)],
        };
        let in_a_cycle = counted.or_else(|| {
            Some(self.attribute(Attribute::Multiprocessors)? * self.of_multiprocessor(precision)?)
        });
        Some(in_a_cycle? * self.clock()?)
    }

    /// Operations of a precision that one multiprocessor executes in a cycle, from the data sheets
    /// of the architecture; `None` where products of one architecture differ.
    fn of_multiprocessor(&self, precision: OperationType) -> Option<f64> {
        let (major, minor) = self.capability?;
        let fp32 = match (major, minor) {
            (7, 0 | 5) | (8, 0) => 128.0,
            (8, 6 | 9) | (9 | 12, 0) | (10, 0 | 3) => 256.0,
            _ => return None,
        };
        // Of the tensor cores: those of FP16, of which the others are a part or a multiple.
        let half = match (major, minor) {
            (7, 0) => Some(1024.0),
            (8, 0) => Some(2048.0),
            (9, 0) => Some(4096.0),
            _ => None,
        };
        let since = |generation| half.filter(|_| major >= generation);
        match precision {
            OperationType::Fp32 => Some(fp32),
            OperationType::Fp64 => Some(fp32 / self.attribute(Attribute::SingleToDouble)?),
            OperationType::TensorFp16 => half,
            OperationType::TensorBf16 => since(8),
            OperationType::TensorTf32 => Some(since(8)? / 2.0),
            OperationType::TensorFp64 => Some(since(8)? / 16.0),
            OperationType::TensorInt8 => Some(since(8)? * 2.0),
            OperationType::TensorFp8 => Some(since(9)? * 2.0),
            _ => None,
        }
    }

    /// The least time for a launch's operations and bytes, in seconds: what the busiest of its
    /// pipes or the device memory needs. `None` if an amount or a ceiling is not known.
    pub(crate) fn least_seconds(&self, flops: &Flops) -> Option<f64> {
        flops.work().ok()?;
        let bytes = flops.dram_bytes?.value;
        let mut least = if bytes == 0 { 0.0 } else { bytes as f64 / self.bandwidth()? };
        for (precision, measurement) in flops.iter() {
            let operations = match measurement {
                Measurement::Counted(count) => count.value,
                // Work that is known needs nothing of a precision of which only a part was counted.
                Measurement::Artifact(_) | Measurement::Incomplete(_) => 0,
                _ => return None,
            };
            if operations > 0 {
                least = f64::max(least, operations as f64 / self.peak(precision)?);
            }
        }
        Some(least)
    }
}

fn index(precision: OperationType) -> usize {
    OperationType::ALL.iter().position(|&known| known == precision).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn h200() -> Facts {
        let mut facts = Facts { capability: Some((9, 0)), ..Facts::default() };
        for (attribute, value) in [
            (Attribute::Multiprocessors, 132.0),
            (Attribute::ClockKhz, 1_980_000.0),
            (Attribute::MemoryClockKhz, 3_201_000.0),
            (Attribute::BusBits, 6016.0),
            (Attribute::SingleToDouble, 2.0),
        ] {
            facts.take(Role::Attribute(attribute), value);
        }
        facts
    }

    /// 4.8 TB/s, 67 TFLOP/s in FP32 and in FP64 on tensor cores, 34 in FP64, and dense products at
    /// 1,979, 989 and 495: NVIDIA's data sheet, whose tensor cores run at 1.83 GHz.
    #[test]
    fn attributes_give_the_data_sheets_ceilings() {
        let facts = h200();
        let near = |found: Option<f64>, expected: f64| {
            let found = found.unwrap();
            assert!((found / expected - 1.0).abs() < 0.01, "{found} {expected}");
        };
        near(facts.bandwidth(), 4.8e12);
        near(facts.peak(OperationType::Fp32), 66.9e12);
        near(facts.peak(OperationType::Fp64), 33.5e12);
        near(facts.peak(OperationType::TensorFp64), 66.9e12);
        for (precision, tflops) in [
            (OperationType::TensorFp8, 1979.0),
            (OperationType::TensorBf16, 989.4),
            (OperationType::TensorTf32, 494.7),
        ] {
            near(facts.peak(precision), tflops * 1e12 * 1980.0 / 1830.0);
        }
        assert_eq!(facts.peak(OperationType::TensorFp4), None);
        assert_eq!(Facts { capability: Some((8, 6)), ..facts }.peak(OperationType::TensorFp16), None);
    }

    #[test]
    fn counters_come_before_attributes_and_sparse_peaks_are_none_of_dense_products() {
        let mut facts = h200();
        facts.take(Role::Memory, 1504.0);
        facts.take(Role::MemoryClock, 3.159_649e9);
        facts.take(Role::Clock, 1.5e9);
        facts.take(Role::Instructions(Shader::Fp32), 16_896.0);
        assert_eq!(facts.bandwidth(), Some(1504.0 * 3.159_649e9));
        assert_eq!(facts.peak(OperationType::Fp32), Some(2.0 * 16_896.0 * 1.5e9));
        assert_eq!(tensor("sm__ops_path_tensor_src_bf16_dst_fp32"), None);
        assert_eq!(tensor("sm__ops_path_tensor_op_hgmma_src_bf16_dst_fp32_sparsity_on"), None);
        let dense = "sm__ops_path_tensor_op_hgmma_src_bf16_dst_fp32_sparsity_off";
        assert_eq!(tensor(dense), Some(OperationType::TensorBf16));
        assert_eq!(tensor("sm__ops_path_tensor_src_fp8_sparsity_off"), Some(OperationType::TensorFp8));
    }
}
