//! The tensor-core counters that a GPU has, by compute capability.
//!
//! From the metric lists of libnvperf 13.0 (`ncu --query-metrics --chips gh100`), which name every
//! chip's counters.

use super::OperationType;

/// The source types of tensor operations, in the order of their bits.
pub(super) const TENSOR: [(&str, OperationType); 11] = [
    ("fp64", OperationType::TensorFp64),
    ("tf32", OperationType::TensorTf32),
    ("bf16", OperationType::TensorBf16),
    ("fp16", OperationType::TensorFp16),
    ("fp8", OperationType::TensorFp8),
    ("fp4", OperationType::TensorFp4),
    ("fp4_fp6", OperationType::TensorFp4Fp6),
    ("fp4_fp6_fp8", OperationType::TensorFp4Fp6Fp8),
    ("int8", OperationType::TensorInt8),
    ("int4", OperationType::TensorInt4),
    ("int1", OperationType::TensorInt1),
];

/// Compute capability, major and minor.
pub(super) type Capability = Option<(u32, u32)>;

/// What counts operations of a source type: `src_…` of `sm__ops_path_tensor_src_….sum`. Empty for a
/// GPU that is not known.
fn sources(capability: Capability) -> &'static str {
    match capability {
        Some((7, 0)) => "fp16_dst_fp16 fp16_dst_fp32",
        Some((7, 2)) => "fp16_dst_fp16 fp16_dst_fp32 int8",
        Some((7, 5)) => "fp16_dst_fp16 fp16_bf16_tf32_dst_fp32 int1 int4 int8",
        Some((8, 0..=8)) => "bf16_dst_fp32 fp16_dst_fp16 fp16_dst_fp32 tf32_dst_fp32 fp64 int1 int4 int8",
        Some((8, 9)) => "bf16_dst_fp32 fp16_dst_fp16 fp16_dst_fp32 tf32_dst_fp32 fp64 fp8 int1 int4 int8",
        Some((9, 0)) => "bf16_dst_fp32 fp16 tf32_dst_fp32 fp64 fp8 int1 int8",
        Some((10 | 11, 0)) => {
            "bf16_dst_fp32 fp16_dst_fp16 fp16_dst_fp32 tf32_dst_fp32 fp64 \
             fp4_dst_fp32 fp4_fp6_fp8_dst_fp16 fp4_fp6_fp8_dst_fp32 int8"
        }
        Some((10, 3) | (12, _)) => {
            "bf16_dst_fp32 fp16_dst_fp16 fp16_dst_fp32 tf32_dst_fp32 fp64 \
             fp4_dst_fp32 fp4_fp6_dst_fp16 fp4_fp6_dst_fp32 fp8_dst_fp16 fp8_dst_fp32 int8"
        }
        _ => "",
    }
}

/// The counters to record for tensor operations of `precision`, or of every floating-point type.
pub(super) fn to_record(capability: Capability, precision: Option<OperationType>) -> Vec<String> {
    let named = precision.and_then(|precision| TENSOR.iter().find(|(_, known)| *known == precision));
    let of_precision = |source: &&str| {
        let first = source.split("_dst").next().unwrap_or(source);
        match named {
            Some((type_name, _)) => first.split('_').any(|part| part == *type_name),
            None => !first.starts_with("int"),
        }
    };
    let found: Vec<String> = sources(capability)
        .split_whitespace()
        .filter(of_precision)
        .map(|source| format!("sm__ops_path_tensor_src_{source}.sum"))
        .collect();
    // ncu knows the counters of a GPU that is unknown here.
    if found.is_empty() { vec!["regex:sm__ops_path_tensor_src_.*".to_owned()] } else { found }
}

/// Whether operations on `precision`, or where it is not known on any floating-point type, are
/// counted under `counter` on some GPU.
pub(super) fn counts(counter: OperationType, precision: Option<OperationType>) -> bool {
    use OperationType::{TensorFp4, TensorFp4Fp6, TensorFp4Fp6Fp8, TensorFp8};
    match precision {
        Some(TensorFp8) => matches!(counter, TensorFp8 | TensorFp4Fp6Fp8),
        Some(TensorFp4) => matches!(counter, TensorFp4 | TensorFp4Fp6 | TensorFp4Fp6Fp8),
        Some(precision) if precision.is_tensor() => counter == precision,
        _ => counter.is_tensor() && counter.is_float(),
    }
}

/// The floating-point types that the tensor cores of a GPU have counters for; none for a GPU that
/// is not known.
pub(super) fn float_types(capability: Capability) -> &'static [OperationType] {
    use OperationType::{
        TensorBf16, TensorFp4, TensorFp4Fp6, TensorFp4Fp6Fp8, TensorFp8, TensorFp16, TensorFp64, TensorTf32,
    };
    match capability {
        Some((7, _)) => &[TensorFp16],
        Some((8, 0..=8)) => &[TensorBf16, TensorFp16, TensorTf32, TensorFp64],
        Some((8 | 9, _)) => &[TensorBf16, TensorFp16, TensorTf32, TensorFp64, TensorFp8],
        Some((10 | 11, 0)) => &[TensorBf16, TensorFp16, TensorTf32, TensorFp64, TensorFp4, TensorFp4Fp6Fp8],
        Some((10, 3) | (12, _)) => {
            &[TensorBf16, TensorFp16, TensorTf32, TensorFp64, TensorFp4, TensorFp4Fp6, TensorFp8]
        }
        _ => &[],
    }
}

/// The most floating-point operations that the tensor cores of an SM execute in a cycle, in the
/// narrowest type and with sparsity. From the counters' `.avg.peak_sustained` in libnvperf 13.0:
/// 2,048 for FP16 on an A100 and 8,192 for FP8 on an H100, twice that with sparsity.
pub(super) fn peak_per_cycle(capability: Capability) -> f64 {
    match capability {
        Some((7, _)) => 1_024.0,
        Some((8, _)) => 4_096.0,
        Some((9, _)) => 16_384.0,
        _ => 65_536.0,
    }
}

/// Whether the GPU is older than Volta, which brought the tensor cores.
pub(super) fn has_no_tensor_cores(capability: Capability) -> bool {
    capability.is_some_and(|capability| capability < (7, 0))
}

/// Whether the GPU executes HFMA2 on the tensor pipe, too (`HFMA2.MMA`): then the pipe's
/// instructions are not all products of matrices.
pub(super) fn has_half_on_tensor_pipe(capability: Capability) -> bool {
    matches!(capability, Some((8, 0 | 7) | (9, 0)) | None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_of_a_gpu_has_a_counter_there() {
        let known = [
            (7, 0),
            (7, 2),
            (7, 5),
            (8, 0),
            (8, 6),
            (8, 9),
            (9, 0),
            (10, 0),
            (10, 3),
            (11, 0),
            (12, 0),
            (12, 1),
        ];
        for capability in known.map(Some) {
            let types = float_types(capability);
            let counters = to_record(capability, None);
            for precision in types {
                let label = precision.as_str().trim_start_matches("tensor ").replace('-', "_");
                let begins = format!("sm__ops_path_tensor_src_{label}");
                assert!(
                    counters.iter().any(|name| name.starts_with(&begins)),
                    "{precision:?} on {capability:?}"
                );
            }
            // Conversely, every counter belongs to one of these types.
            assert!(counters.len() >= types.len(), "{capability:?}");
        }
        assert_eq!(to_record(Some((99, 0)), None), ["regex:sm__ops_path_tensor_src_.*"]);
        assert!(float_types(None).is_empty());
    }
}
