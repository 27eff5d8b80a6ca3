//! What a GPU can do at most, by its data sheet or as measured.

use flopgap_kernels::NumberType;
use serde::{Deserialize, Serialize};

/// The peaks of a GPU: by its maker's data sheet (dense products, sums of 32 bits, boost clock), or
/// as they were measured on one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Peaks {
    /// What the recording calls the GPU.
    pub gpu: String,
    /// FLOPs per second by the type of the factors.
    pub flops: Vec<Peak>,
    /// Bytes per second of the device's memory.
    pub bytes: f64,
    /// Where the bandwidth is from.
    #[serde(default)]
    pub bytes_by: Source,
    /// The time of an empty launch on a stream, in nanoseconds; absent on data sheets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch_ns: Option<f64>,
}

/// Where a peak is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The data sheet of the GPU.
    #[default]
    DataSheet,
    /// A measurement on such a GPU.
    Measured,
}

/// The peak of a type.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Peak {
    /// The type of the factors.
    pub number: NumberType,
    /// FLOPs per second.
    pub flops: f64,
    /// Where it is from.
    #[serde(default)]
    pub by: Source,
}

/// One data sheet: TFLOP/s, and GB/s. 0 where the GPU lacks a type.
struct Sheet {
    /// Names as the driver gives them, without the maker.
    names: &'static [&'static str],
    /// Tensor cores where they have the type.
    fp64: f64,
    /// CUDA cores.
    fp32: f64,
    tf32: f64,
    fp16: f64,
    bf16: f64,
    fp8: f64,
    int8: f64,
    memory: f64,
}

/// All types at once; in this order the sheets list them.
const fn sheet(names: &'static [&'static str], peaks: [f64; 7], memory: f64) -> Sheet {
    let [fp64, fp32, tf32, fp16, bf16, fp8, int8] = peaks;
    Sheet { names, fp64, fp32, tf32, fp16, bf16, fp8, int8, memory }
}

/// Hopper as a module on a board.
const HOPPER: [f64; 7] = [66.9, 66.9, 494.7, 989.4, 989.4, 1978.9, 1978.9];
/// Ampere, of either form: the data sheet has one column for both.
const AMPERE: [f64; 7] = [19.5, 19.5, 156.0, 312.0, 312.0, 0.0, 624.0];

const SHEETS: &[Sheet] = &[
    sheet(&["B200"], [37.0, 75.0, 1125.0, 2250.0, 2250.0, 4500.0, 4500.0], 7700.0),
    sheet(&["H200"], HOPPER, 4800.0),
    sheet(&["H100 80GB HBM3", "H800"], HOPPER, 3350.0),
    sheet(&["GH200 480GB"], HOPPER, 4000.0),
    sheet(&["H200 NVL"], [60.0, 60.0, 417.5, 835.5, 835.5, 1670.5, 1670.5], 4800.0),
    sheet(&["H100 NVL"], [60.0, 60.0, 417.5, 835.5, 835.5, 1670.5, 1670.5], 3900.0),
    sheet(&["H100 PCIe"], [51.2, 51.2, 378.0, 756.0, 756.0, 1513.0, 1513.0], 2000.0),
    sheet(&["H20"], [1.0, 44.0, 74.0, 148.0, 148.0, 296.0, 296.0], 4000.0),
    sheet(&["A100-SXM4-80GB", "A800-SXM4-80GB"], AMPERE, 2039.0),
    sheet(&["A100 80GB PCIe", "A800 80GB PCIe"], AMPERE, 1935.0),
    // A board of the Open Compute Project has the part number of its module for a name.
    sheet(&["A100-SXM4-40GB", "A100-PCIE-40GB", "A100-PG509-200"], AMPERE, 1555.0),
    sheet(&["A30"], [10.3, 10.3, 82.0, 165.0, 165.0, 0.0, 330.0], 933.0),
    sheet(&["A10"], [0.0, 31.2, 62.5, 125.0, 125.0, 0.0, 250.0], 600.0),
    sheet(&["A40"], [0.0, 37.4, 74.8, 149.7, 149.7, 0.0, 299.3], 696.0),
    sheet(&["RTX A6000"], [0.0, 38.7, 77.4, 154.8, 154.8, 0.0, 309.7], 768.0),
    sheet(&["L4"], [0.0, 30.3, 60.0, 121.0, 121.0, 242.5, 242.5], 300.0),
    sheet(&["L40S"], [0.0, 91.6, 183.0, 362.0, 362.0, 733.0, 733.0], 864.0),
    sheet(&["RTX 6000 Ada Generation"], [0.0, 91.1, 182.1, 364.2, 364.2, 728.5, 728.5], 960.0),
    sheet(&["GeForce RTX 4090"], [0.0, 82.6, 82.6, 165.2, 165.2, 330.3, 660.6], 1008.0),
    sheet(&["GeForce RTX 3090"], [0.0, 35.6, 35.6, 71.0, 71.0, 0.0, 284.0], 936.0),
    sheet(&["V100-SXM2-16GB", "V100-SXM2-32GB"], [7.8, 15.7, 0.0, 125.0, 0.0, 0.0, 0.0], 900.0),
    sheet(&["V100-PCIE-16GB", "V100-PCIE-32GB"], [7.0, 14.0, 0.0, 112.0, 0.0, 0.0, 0.0], 900.0),
    sheet(&["T4"], [0.0, 8.1, 0.0, 65.0, 0.0, 0.0, 130.0], 320.0),
    // `VF`: passed through whole to a virtual machine.
    sheet(
        &["AMD Instinct MI300X", "AMD Instinct MI300X VF"],
        [163.4, 163.4, 653.7, 1307.4, 1307.4, 2614.9, 2614.9],
        5300.0,
    ),
];

impl Peaks {
    /// The peaks of a GPU by what the driver calls it; none where its data sheet is not known here.
    ///
    /// ```
    /// use flopgap_gap::Peaks;
    ///
    /// assert_eq!(Peaks::of("NVIDIA H200").unwrap().bytes, 4.8e12);
    /// assert!(Peaks::of("NVIDIA GeForce GT 710").is_none());
    /// ```
    pub fn of(gpu: &str) -> Option<Peaks> {
        let name = gpu.strip_prefix("NVIDIA ").or_else(|| gpu.strip_prefix("Tesla ")).unwrap_or(gpu);
        let sheet = SHEETS.iter().find(|sheet| sheet.names.contains(&name))?;
        let flops = [
            (NumberType::Fp64, sheet.fp64),
            (NumberType::Fp32, sheet.fp32),
            (NumberType::Tf32, sheet.tf32),
            (NumberType::Bf16, sheet.bf16),
            (NumberType::Fp16, sheet.fp16),
            (NumberType::Fp8, sheet.fp8),
            (NumberType::Int8, sheet.int8),
        ];
        let flops = flops.into_iter().filter(|(_, peak)| *peak > 0.0);
        let by = Source::DataSheet;
        let flops = flops.map(|(number, peak)| Peak { number, flops: (peak * 10.0).round() * 1e11, by });
        Some(Peaks {
            gpu: gpu.to_owned(),
            flops: flops.collect(),
            bytes: sheet.memory * 1e9,
            bytes_by: by,
            launch_ns: None,
        })
    }

    /// What was measured on a GPU that the driver calls so: FLOPs per second by the type of the
    /// factors, bytes per second of its memory, nanoseconds of an empty launch. Of types that were
    /// not measured, its data sheet counts, where that is known.
    ///
    /// ```
    /// use flopgap_gap::{Peaks, Source};
    /// use flopgap_kernels::NumberType;
    ///
    /// let measured = [(NumberType::Bf16, 894e12)];
    /// let peaks = Peaks::measured("NVIDIA H200", measured, 4.6e12, Some(2100.0));
    /// assert_eq!(peaks.peak(NumberType::Bf16), Some(894e12));
    /// let fp8 = peaks.flops.iter().find(|peak| peak.number == NumberType::Fp8).unwrap();
    /// assert_eq!(fp8.by, Source::DataSheet);
    /// ```
    pub fn measured(
        gpu: &str,
        flops: impl IntoIterator<Item = (NumberType, f64)>,
        bytes: f64,
        launch_ns: Option<f64>,
    ) -> Peaks {
        let by = Source::Measured;
        let mut all: Vec<Peak> =
            flops.into_iter().map(|(number, flops)| Peak { number, flops, by }).collect();
        let sheet = Peaks::of(gpu).map(|sheet| sheet.flops).unwrap_or_default();
        let is_measured = |other: &Peak| all.iter().any(|own| own.number == other.number);
        let others: Vec<Peak> = sheet.into_iter().filter(|other| !is_measured(other)).collect();
        all.extend(others);
        Peaks { gpu: gpu.to_owned(), flops: all, bytes, bytes_by: by, launch_ns }
    }

    /// FLOPs per second with a type.
    pub fn peak(&self, number: NumberType) -> Option<f64> {
        self.of_type(number).map(|peak| peak.flops)
    }

    /// The peak of a type, and where it is from.
    pub fn of_type(&self, number: NumberType) -> Option<&Peak> {
        self.flops.iter().find(|peak| peak.number == number)
    }
}

/// Whether a GPU is of a line that has no tensor cores: before Volta, and `GeForce GTX`.
pub(crate) fn lacks_tensor_cores(gpu: &str) -> bool {
    let name = gpu.strip_prefix("NVIDIA ").unwrap_or(gpu);
    [
        "Tesla P",
        "Tesla M",
        "Tesla K",
        "Quadro P",
        "Quadro M",
        "Quadro K",
        "GeForce GTX",
        "GeForce GT ",
        "P100-",
    ]
    .iter()
    .any(|line| name.starts_with(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_drivers_and_each_is_of_one_sheet() {
        for name in ["NVIDIA H100 80GB HBM3", "Tesla V100-SXM2-16GB", "A100-SXM4-40GB"] {
            assert!(Peaks::of(name).is_some(), "{name}");
        }
        assert!(Peaks::of("NVIDIA H100").is_none(), "SXM or PCIe");
        let mut names: Vec<&str> = SHEETS.iter().flat_map(|sheet| sheet.names).copied().collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        for gpu in ["Tesla P100-SXM2-16GB", "NVIDIA GeForce GTX 1660 Ti", "Tesla K80"] {
            assert!(lacks_tensor_cores(gpu) && Peaks::of(gpu).is_none(), "{gpu}");
        }
        assert!(
            !names
                .iter()
                .any(|name| lacks_tensor_cores(name) || lacks_tensor_cores(&format!("Tesla {name}")))
        );
        assert_eq!(Peaks::of("Tesla T4").unwrap().peak(NumberType::Bf16), None);
    }
}
