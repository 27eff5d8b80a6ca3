//! What a generic kernel was instantiated with.
//!
//! PyTorch launches ReLU, a copy and a fill through one `vectorized_elementwise_kernel`, and every
//! foreach operation through one `multi_tensor_apply_kernel`: only the functor among the template
//! arguments says which.

use crate::path::{Path, is_word};

/// Kernels that take the operation as a template argument. Any name with `elementwise` in it is one
/// as well.
#[rustfmt::skip]
const CARRIERS: [&str; 19] = [
    "_kernel_agent", "act_and_mul_kernel", "BlockReduceKernel", "ColumnReduceKernel",
    "ColumnReduceMax16ColumnsKernel", "DeviceReduceKernel", "DeviceReduceSingleTileKernel",
    "DeviceScanByKeyKernel", "DeviceScanKernel", "DeviceSegmentedReduceKernel",
    "FillPhiloxRandomKernelLaunch", "kernelPointwiseApply1", "kernelPointwiseApply2", "kernelPointwiseApply3",
    "multi_tensor_apply_kernel", "reduce_kernel", "RowReduceKernel", "tensor_kernel_scan_innermost_dim",
    "tensor_kernel_scan_outer_dim",
];

/// Kernels that are a launcher for the class named in the template argument. Their arguments take
/// part in classification as text.
const WRAPPERS: [&str; 5] = ["Kernel", "Kernel2", "kernel", "device_kernel", "_kernel_agent"];

/// The launcher of Composable Kernel: numbers, then the class. What follows names parts that other
/// classes share, so that only the class takes part in classification.
const NUMBERED_WRAPPER: &str = "kentry";

/// Identifiers that precede the operation: types, adapters, metadata. Lower case.
#[rustfmt::skip]
const TRANSPARENT: &[&str] = &[
    // types
    "bfloat16", "bfloat16_t", "bool", "char", "char1", "const", "double", "float", "float2", "float4", "half",
    "half_t", "int", "int64_t", "long", "short", "signed", "size_t", "uint4", "unsigned", "void", "__half",
    "__half2", "__int64", "__nv_bfloat16", "__nv_bfloat162", "__hip_bfloat16",
    "hip_bfloat16", "_float16", "__bf16", "float8_e4m3fn", "float8_e5m2", "complex",
    "opaquetype", "scalar", "tensor", "tensoriterator", "tensoriteratorbase", "cudageneratorimpl", "true",
    "false",
    // PyTorch's adapters
    "aunaryfunctor", "bunaryfunctor", "binaryfunctor", "func_wrapper_t", "reduceop", "gpu_kernel_impl",
    "gpu_kernel_impl_nocast", "gpu_index_kernel", "normal_and_transform", "uniform_and_transform",
    "exponential_and_transform", "distribution_nullary_kernel", "unaryopfunctor", "unaryopfunctor_",
    "binaryopscalarfunctor", "binaryopscalarlistfunctor", "binaryopscalartensorfunctor",
    "binaryoplistalphafunctor", "ternaryopscalarfunctor", "ternaryoplistfunctor",
    "ternaryopscalarlistfunctor", "pointwiseopscalarfunctor", "pointwiseopscalarlistfunctor",
    "pointwiseopscalartensorfunctor", "pointwiseoplistfunctor", "tensorlistmetadata",
    "tensorlistscalarlistmetadata", "fusedoptimizertensorlistmetadata",
    // CUB and Thrust
    "devicereducepolicy", "devicescanpolicy", "policy_hub", "keyvaluepair", "argindexinputiterator",
    "scantilestate", "parallelforagent", "binary_transform_f", "unary_transform_f", "counting_iterator",
    "constant_iterator", "use_default", "device_ptr", "no_stencil_tag", "zip_iterator",
    // CUTLASS, xmma, TensorFlow
    "enable_sm90", "enable_sm90_or_later", "enable_sm80_to_sm89", "kernel_traits", "philoxrandom",
    // what demanglers write around lambdas
    "lambda",
];

/// Identifiers after which no operation can follow: the operands of a kernel that named none.
#[rustfmt::skip]
const STOP: [&str; 7] = [
    "array", "loadwithcast", "loadwithoutcast", "offsetcalculator", "storewithcast", "storewithoutcast",
    "trivialoffsetcalculator",
];

/// Suffixes that mean "function object" and say nothing about the operation.
#[rustfmt::skip]
const ENDINGS: [&str; 14] = [
    "_kernel_cuda", "_kernel_impl", "_cuda_kernel", "_cuda_out", "_kernel", "_impl", "_cuda", "_functor",
    "_op", "_ops", "_math", "CUDAKernelImpl", "CUDAKernel", "Functor",
];

/// Whether the kernel takes its operation as a template argument.
fn is_carrier(base: &str) -> bool {
    base.contains("elementwise") || CARRIERS.contains(&base)
}

/// The text of the template arguments, for a kernel that only launches the class they name.
pub(crate) fn wrapped<'a>(path: &Path<'a>) -> Option<&'a str> {
    if WRAPPERS.contains(&path.base()?) { path.args } else { None }
}

/// The operation of a generic kernel in snake case (`sigmoid_backward`, `fill`, `add`), or the
/// class that a wrapper launches as it is written (`FlashAttnFwdSm90`). `None` for every other
/// kernel, and where no functor is named.
pub(crate) fn operation(path: &Path<'_>) -> Option<String> {
    let base = path.base()?;
    if base == NUMBERED_WRAPPER {
        return first_informative_word(path.args?).map(str::to_owned);
    }
    let carrier = is_carrier(base);
    if !carrier && !WRAPPERS.contains(&base) {
        return None;
    }
    if carrier {
        return first_informative_word(path.args?).map(canonical);
    }
    launched_class(path.args?).map(str::to_owned)
}

/// The class that a launcher was given: its first template argument, behind namespaces and
/// adapters. A kernel that happens to be called `kernel` and takes a type or a number first is no
/// launcher.
fn launched_class(args: &str) -> Option<&str> {
    let adapters = ["enable_sm90", "enable_sm90_or_later", "enable_sm80_to_sm89", "Kernel_traits"];
    let (word, _) = words(args).find(|(word, rest)| !rest.starts_with("::") && !adapters.contains(word))?;
    let known = TRANSPARENT.contains(&word.to_ascii_lowercase().as_str());
    (!known && !is_placeholder(word)).then_some(word)
}

/// The first identifier that is neither a namespace, a type, an adapter nor a number.
fn first_informative_word(args: &str) -> Option<&str> {
    for (word, rest) in words(args) {
        if rest.starts_with("::") || is_placeholder(word) {
            continue;
        }
        let lower = word.to_ascii_lowercase();
        if STOP.contains(&lower.as_str()) {
            return None;
        }
        if !TRANSPARENT.contains(&lower.as_str()) {
            return Some(word);
        }
    }
    None
}

/// The identifiers of a text, each with what follows it.
pub(crate) fn words(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while bytes.get(at).is_some_and(|&b| !is_word(b)) {
            at += 1;
        }
        let start = at;
        while bytes.get(at).is_some_and(|&b| is_word(b)) {
            at += 1;
        }
        (start < at).then(|| (&text[start..at], &text[at..]))
    })
}

/// A number (`4`, `4u`), or the `T1` that Nsight prints for a repeated template parameter, or CUB's
/// `Policy600`.
fn is_placeholder(word: &str) -> bool {
    let digits = |rest: &str| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit());
    word.starts_with(|c: char| c.is_ascii_digit())
        || word.strip_prefix('T').is_some_and(digits)
        || word.strip_prefix("Policy").is_some_and(digits)
}

/// A canonical spelling for each operation: `CUDAFunctor_add`, `AddFunctor` and `std::plus` are all
/// `add`.
fn canonical(word: &str) -> String {
    let mut word = word;
    for start in ["CUDAFunctorOnSelf_", "CUDAFunctor_", "launch_"] {
        word = word.strip_prefix(start).unwrap_or(word);
    }
    let mut name = snake(strip_endings(word));
    // `TensorFillOp`, `MeanOps` and `FusedAdamMathFunctor` show their ending only in snake case.
    name.truncate(strip_endings(&name).len());
    match name.as_str() {
        "plus" => "add".to_owned(),
        "minus" => "sub".to_owned(),
        "multiplies" => "mul".to_owned(),
        "divides" => "div".to_owned(),
        "modulus" => "mod".to_owned(),
        _ => name,
    }
}

fn strip_endings(mut word: &str) -> &str {
    while let Some(shorter) =
        ENDINGS.iter().find_map(|ending| word.strip_suffix(ending).filter(|rest| !rest.is_empty()))
    {
        word = shorter;
    }
    word
}

/// `CompareEq` to `compare_eq`, `LAMBStage1` to `lamb_stage1`.
fn snake(word: &str) -> String {
    let chars: Vec<char> = word.chars().collect();
    let mut out = String::with_capacity(word.len() + 4);
    for (index, &c) in chars.iter().enumerate() {
        if c.is_ascii_uppercase() {
            let after_lower =
                index > 0 && (chars[index - 1].is_ascii_lowercase() || chars[index - 1].is_ascii_digit());
            let starts_word = index > 0
                && chars[index - 1].is_ascii_uppercase()
                && chars.get(index + 1).is_some_and(char::is_ascii_lowercase);
            if after_lower || starts_word {
                out.push('_');
            }
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn of(name: &str, expected: Option<&str>) {
        assert_eq!(operation(&Path::parse(name)).as_deref(), expected, "{name}");
    }

    #[test]
    fn pytorch_functors() {
        of(
            "at::elementwise_kernel<128, 2, void at::gpu_kernel_impl_nocast<at::direct_copy_kernel_cuda(at::TensorIteratorBase &)::[lambda() (instance 3)]>>(int, T3)",
            Some("direct_copy"),
        );
        of(
            "at::vectorized_elementwise_kernel<4, at::BinaryFunctor<float, float, float, at::binary_internal::MulFunctor<float>>>(int)",
            Some("mul"),
        );
        of(
            "at::vectorized_elementwise_kernel<(int)4, at::native::CUDAFunctorOnSelf_add<float>>(int)",
            Some("add"),
        );
        of(
            "at::vectorized_elementwise_kernel<4, at::GeluCUDAKernelImpl(at::TensorIteratorBase&)::{lambda()#1}>(int)",
            Some("gelu"),
        );
        of(
            "at::unrolled_elementwise_kernel<std::array<char *, 2>, memory::LoadWithCast<1>, memory::StoreWithCast<1>>(int)",
            None,
        );
        of("at::reduce_kernel<512, 1, at::ReduceOp<float, at::MeanOps<float, float>>>(T3)", Some("mean"));
        of(
            "multi_tensor_apply_kernel<TensorListMetadata<2>, BinaryOpListAlphaFunctor<float, 2, 2, 0>, std::plus<float>>(T1)",
            Some("add"),
        );
        of(
            "multi_tensor_apply_kernel<FusedOptimizerTensorListMetadata<4>, FusedAdamMathFunctor<float, 4>>(T1)",
            Some("fused_adam"),
        );
        of("multi_tensor_apply_kernel", None);
    }

    #[test]
    fn wrappers_keep_the_spelling() {
        of(
            "cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<int>>>(T1::Params)",
            Some("FlashAttnFwdSm90"),
        );
        of(
            "cutlass::Kernel2<cutlass_80_simt_sgemm_64x64_8x5_nt_align1>(T1::Params)",
            Some("cutlass_80_simt_sgemm_64x64_8x5_nt_align1"),
        );
        of("ns::plain<at::native::FillFunctor<int>>(int)", None);
    }

    #[test]
    fn snake_case() {
        assert_eq!(snake("CompareEq"), "compare_eq");
        assert_eq!(snake("LAMBStage1"), "lamb_stage1");
        assert_eq!(snake("bfloat16_copy"), "bfloat16_copy");
        assert_eq!(canonical("TensorMaskedFillOp"), "tensor_masked_fill");
        assert_eq!(canonical("_kernel"), "_kernel");
    }
}
