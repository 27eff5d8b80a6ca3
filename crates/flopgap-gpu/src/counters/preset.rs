//! Sets of metrics for common questions.

use std::fmt;
use std::str::FromStr;

/// Instructions that threads executed, where no predicate switched them off. The operation goes
/// between the two.
const SASS: (&str, &str) = ("smsp__sass_thread_inst_executed_op_", "_pred_on");

/// A set of metrics for a common question. Which metrics it has depends on the chip:
/// [`Chip::preset`](super::Chip::preset).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Preset {
    /// 32-bit floats: additions, multiplications and fused multiply-adds, in one pass.
    Flops,
    /// All floats: 64, 32 and 16 bits, the packed instructions of chips that have them, and the
    /// tensor cores by type. Takes several passes.
    FlopsAll,
    /// Bytes at the memory (where the chip has its own), the second-level and the first-level
    /// cache.
    Bytes,
    /// The time that the GPU took, in nanoseconds.
    Time,
}

impl Preset {
    /// All of them.
    pub const ALL: [Preset; 4] = [Preset::Flops, Preset::FlopsAll, Preset::Bytes, Preset::Time];

    /// The metrics among `counters`, the names of a chip's counters without roll-up.
    pub(super) fn select(self, counters: &[String]) -> Vec<String> {
        let sass = |operations: &[&str]| -> Vec<String> {
            operations.iter().map(|operation| format!("{}{operation}{}", SASS.0, SASS.1)).collect()
        };
        let has = |name: &str| counters.iter().any(|counter| counter == name);
        let mut names: Vec<String> = match self {
            Preset::Flops => sass(&["fadd", "fmul", "ffma", "fadd2", "fmul2", "ffma2"]),
            Preset::FlopsAll => sass(&[
                "fadd", "fmul", "ffma", "dadd", "dmul", "dfma", "hadd", "hmul", "hfma", "fadd2", "fmul2",
                "ffma2", "qadd4", "qmul4", "qfma4",
            ]),
            Preset::Bytes => ["dram__bytes", "lts__t_bytes", "l1tex__t_bytes"].map(str::to_owned).to_vec(),
            Preset::Time => vec!["gpu__time_duration".to_owned()],
        };
        names.retain(|name| has(name));
        if self == Preset::FlopsAll {
            names.extend(counters.iter().filter(|name| is_tensor_flops(name)).cloned());
        }
        names.into_iter().map(|name| name + ".sum").collect()
    }
}

/// Operations of the tensor cores on floats of one type: not the parts of such a sum (with and
/// without sparsity, by instruction), which would be counted twice, and not integers.
pub(super) fn is_tensor_flops(name: &str) -> bool {
    name.strip_prefix("sm__ops_path_tensor_src_").is_some_and(|source| {
        !source.starts_with("int") && !source.contains("_sparsity_") && !source.ends_with("_realtime")
    })
}

/// The operations of one kind of instruction on floats of one type: a part of what
/// [`is_tensor_flops`] finds.
pub(super) fn is_tensor_part(name: &str) -> bool {
    name.strip_prefix("sm__ops_path_tensor_op_").is_some_and(|part| {
        !part.contains("src_int") && !part.contains("_sparsity_") && !part.ends_with("_realtime")
    })
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Preset::Flops => "flops",
            Preset::FlopsAll => "flops-all",
            Preset::Bytes => "bytes",
            Preset::Time => "time",
        })
    }
}

impl FromStr for Preset {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Preset::ALL.into_iter().find(|preset| preset.to_string() == text).ok_or_else(|| {
            format!(
                "no preset {text:?}: expected {}",
                Preset::ALL.map(|preset| preset.to_string()).join(", ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_sum_and_integers_are_left_out() {
        for name in [
            "sm__ops_path_tensor_src_tf32_dst_fp32",
            "sm__ops_path_tensor_src_fp64",
            "sm__ops_path_tensor_src_fp8",
        ] {
            assert!(is_tensor_flops(name), "{name}");
        }
        for name in [
            "sm__ops_path_tensor_src_int8",
            "sm__ops_path_tensor_src_fp8_sparsity_on",
            "sm__ops_path_tensor_src_fp4_dst_fp32_realtime",
            "sm__ops_path_tensor_op_hgmma_src_fp16",
            "smsp__ops_path_tensor_src_fp64",
        ] {
            assert!(!is_tensor_flops(name), "{name}");
        }
    }

    #[test]
    fn a_preset_has_what_the_chip_has() {
        let counters = ["gpu__time_duration", "lts__t_bytes", "l1tex__t_bytes"].map(str::to_owned);
        assert_eq!(Preset::Bytes.select(&counters), ["lts__t_bytes.sum", "l1tex__t_bytes.sum"]);
        assert!(Preset::Flops.select(&counters).is_empty());
    }

    #[test]
    fn names_read_as_they_are_written() {
        for preset in Preset::ALL {
            assert_eq!(preset.to_string().parse(), Ok(preset));
        }
        assert!("flop".parse::<Preset>().unwrap_err().contains("flops-all"));
    }
}
