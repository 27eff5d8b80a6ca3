//! The library table: which library a kernel belongs to.

use std::sync::LazyLock;

use regex::RegexSet;

use crate::taxonomy::Library::{
    self, Aiter, ComposableKernel, Cublas, Cuda, Cudnn, Cupy, Curand, Cutlass, Deepseek, Fbgemm,
    FlashAttention, FlashInfer, Miopen, Nccl, Numba, Nvshmem, Pytorch, Rocblas, Sglang, Tensile, Tensorflow,
    Tensorrt, Thrust, TransformerEngine, Triton, Unknown, Vllm, Xla,
};

/// Ordered, first match wins; searched in the subject (see [`crate::rules`]).
#[rustfmt::skip]
const LIBRARIES: &[(Library, &str)] = &[
    (Cuda, r"^\[?cuda mem(cpy|set)|^mem(cpy|set)\b"),
    (Triton, r"^_?triton_"),
    (Cupy, r"^cupy_"),
    (Nccl, r"\bnccl"),
    (Nvshmem, r"nvshmem"),
    (Tensile, r"^(custom_)?cij[kl]*_"),
    (Rocblas, r"\brocblas_"),
    (Miopen, r"miopen|^igemm_(fwd|bwd|wrw)_gtc|^batched_transpose_\d+x\d+_|^subtensorop|^(sp3|gcn)asm"),
    (Aiter, r"\baiter::"),
    (ComposableKernel, r"\bck_tile::|\bck::"),
    (Tensorrt, r"__mye?l_|_trt\b|^trt_|_by_fusion_tactic|tensorrt|nvinfer|\bfmhasm\d|\bbmm_\w+_t\d+x\d+x\d+"),
    (FlashInfer, r"flashinfer"),
    (Deepseek, r"deep_gemm::|deep_ep::|\bdpsk::|\b(intra|inter)node(_ll)?::"),
    (FlashAttention, r"\b(pytorch_)?flash::|pytorch_flash|\bflash_(fwd|bwd)"),
    (Vllm, r"\bvllm::"),
    (Sglang, r"\bsgl_(hip|kernel|kernels)::"),
    (Fbgemm, r"\bfbgemm_gpu::|^split_embedding_|embedding_codegen|^bounds_check_indices|^linearize_index"),
    (TransformerEngine, r"transformer_engine::"),
    (Pytorch, r"\bat::(native::|cuda::)?|\bc10::|fmha_cutlass[fb]"),
    (Cudnn, r"cudnn|winograd|(im|ex)plicit_convolve|precomputed_convolve|\bwgrad_alg\d|convert_dq_to_16bits|\bbn_(fw|bw)_"),
    (Cublas, r"cublas|\bnvjet|splitkreduce_kernel|\bgemvx::|\bgemv(2t|2n|nsp|ns)|\bgemmsn_|\bgemmk1|^(maxwell|pascal|volta|turing|ampere|hopper)_\w*gemm|^sm\d+_xmma_gemm"),
    (Cutlass, r"cutlass"),
    // CUB inside another library's namespace is still CUB; PyTorch's `at_cuda_detail::cub` is one.
    (Thrust, r"\bcub::|\bthrust::|\bdevice(reduce|segmentedreduce|scan|mergesort|radixsort|select)\w*kernel|^_kernel_agent"),
    (Curand, r"\bgenerate_seed_pseudo|\bgen_sequenced"),
    (Tensorflow, r"tensorflow::|_gpu_dt_|\beigen::"),
    // PyTorch's kernels outside `at::`, and those that profilers list without their namespace.
    (Pytorch, r"softmax_warp_(for|back)ward|\bcunn_|kernelpointwiseapply|(vectorized|unrolled|index)_elementwise_kernel|distribution_elementwise_grid_stride_kernel|elementwise_kernel_with_index|multi_tensor_apply_kernel|vectorized_layer_norm_kernel|layer_norm_grad_input_kernel|gammabetabackwardcudakernel|nll_loss_(for|back)ward_reduce_cuda|catarraybatchedcopy|vectorized_gather_kernel|embedding_backward_feature_kernel|triu_tril_kernel|indexselect(large|small)index|^elementwise_kernel|^reduce_kernel"),
    (Xla, r"fusion|^(wrapped|loop|input)_"),
];

/// What a type or mangling elsewhere in the name says where the subject is silent
/// (`dot_kernel<cublasDotParams<...>>`). Only types that nobody else's kernels take: a
/// `c10::BFloat16` parameter does not make a kernel PyTorch's.
const ELSEWHERE: &[(Library, &str)] =
    &[(Cublas, "cublas"), (Cudnn, "cudnn"), (Numba, r"cudapy::|\[(abi:)?v\d+,|mutable, aligned")];

static SETS: LazyLock<[RegexSet; 2]> = LazyLock::new(|| {
    // The patterns are constants, and a test compiles them.
    [LIBRARIES, ELSEWHERE].map(|table| {
        RegexSet::new(table.iter().map(|(_, pattern)| pattern)).expect("the library tables compile")
    })
});

/// The library of a kernel, from its subject and its whole name, both in lower case.
pub(crate) fn library_of(subject: &str, name: &str) -> Library {
    let [of_subject, elsewhere] = &*SETS;
    let first = |set: &RegexSet, text| set.matches(text).iter().next();
    first(of_subject, subject)
        .map(|index| LIBRARIES[index].0)
        .or_else(|| first(elsewhere, name).map(|index| ELSEWHERE[index].0))
        .unwrap_or(Unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_subject_comes_before_the_parameters() {
        assert_eq!(library_of("vllm::f", "vllm::f(c10::bfloat16*)"), Vllm);
        assert_eq!(library_of("dot_kernel", "dot_kernel<float, cublasdotparams<float>>"), Cublas);
        assert_eq!(library_of("quantize", "quantize<c10::bfloat16>"), Unknown);
        assert_eq!(library_of("mathkernel1", "mathkernel1(float*)"), Unknown);
    }
}
