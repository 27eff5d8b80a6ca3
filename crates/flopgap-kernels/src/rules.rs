//! The rule table: which names belong to which class. Data, meant to be read from top to bottom.
//!
//! A rule sees the *subject* of a kernel, in lower case: the qualified name without template
//! arguments and parameters; then ` [op]` where a generic kernel names its operation; then `
//! <arguments>` for pure launchers such as `cutlass::Kernel2`. So `vectorized_elementwise_kernel<4,
//! FillFunctor<float>, ...>` is `at::native::vectorized_elementwise_kernel [fill]`, and
//! `LoadWithCast` or a parameter's type can claim nothing.
//!
//! The first rule that matches decides; the order carries the exceptions. Every rule has a real
//! name as its example, and a test checks that the example reaches its rule.

use std::sync::LazyLock;

use regex::RegexSet;

use crate::taxonomy::KernelClass::{
    self, Attention, Communication, Convolution, Copy, Elementwise, Gemv, Index, Matmul, Norm, Optimizer,
    Other, Random, Reduction, Softmax, SplitKReduce,
};

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// The class that the rule gives.
    pub class: KernelClass,
    /// A regular expression, searched in the lower-case subject.
    pub pattern: &'static str,
    /// A kernel name that this rule, and none before it, matches.
    pub example: &'static str,
}

const fn rule(class: KernelClass, pattern: &'static str, example: &'static str) -> Rule {
    Rule { class, pattern, example }
}

/// The table, first match wins. A name that none matches is [`KernelClass::Other`].
#[rustfmt::skip]
pub const RULES: &[Rule] = &[
    // Memory operations are not kernels, but profiles list them next to kernels.
    rule(Copy, r"^\[?cuda mem(cpy|set)|^mem(cpy|set)\b", "[CUDA memcpy HtoD]"),

    // Inductor lists the fused ATen operations in a Triton kernel's name; its prefix says what the
    // kernel does. These come first, because a pointwise kernel may carry `attention`, `mm` or
    // `softmax` for the graph around it.
    rule(Attention, r"^triton_tem_\w*attention", "triton_tem_fused_flex_attention_0"),
    rule(Matmul, r"^triton_(tem|mm|bmm)\b|^triton_(tem|mm|bmm)_", "triton_tem_fused_addmm_relu_3"),
    rule(Softmax, r"^triton_(per|red)_\w*softmax", "triton_per_fused__softmax_2"),
    rule(Norm, r"^triton_(per|red)_\w*((layer|rms|batch|group|instance)_norm|mean\w*_rsqrt)", "triton_per_fused__to_copy_add_mean_mul_pow_rsqrt_0"),
    rule(Reduction, r"^triton_(per|red|spl)_", "triton_red_fused_sum_1"),
    rule(Index, r"^triton_poi_\w*(embedding|index|gather|scatter)", "triton_poi_fused_embedding_0"),
    rule(Copy, r"^triton_poi_fused(_+(to_copy|unsafe_view|clone|copy|cat|stack|t|transpose|permute|view|slice|expand|full|fill|zeros))+(_\d+)?$", "triton_poi_fused__to_copy_clone_transpose_4"),
    rule(Elementwise, r"^triton_(poi|for)_", "triton_poi_fused_addmm_relu_0"),

    // Between GPUs. Before reductions: an all-reduce is named after one.
    rule(Communication, r"nccl|nvshmem|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|cross_device_reduce|lamport|symm_mem|multimem|deep_ep::|userbuffers", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"),

    // The second kernel of a split-K product. Before matmul: counting it there would count the
    // product twice. xmma names it `execute_split_k_kernel`: on an H200 it runs after an
    // `execute_kernel` whose grid has 8 blocks in z and adds exactly 8 partial sums for each output
    // element, while the `execute_kernel` alone carries 2·M·N·K.
    rule(SplitKReduce, r"split_?k_?reduc|reduce_?split_?k|execute_split_k_kernel", "void cublasLt::splitKreduce_kernel<32, 16, int, float, float, float, float, 0, float>(cublasLt::cublasSplitKParams<T6>)"),
    rule(Reduction, r"\bdot_kernel|\breduce_1block_kernel|\bi?[sdcz]?(asum|nrm2|amax|amin)_kernel", "void dot_kernel<float, 128, 0, cublasDotParams<cublasGemvTensorStridedBatched<float const>>>(cublasDotParams<float>)"),

    // Attention in one kernel, and what only attention launches. Before softmax, copy and matmul,
    // whose words such names contain. `reshape_and_cache_flash_kernel` writes a cache and is no
    // attention.
    rule(Attention, r"flash_?(fwd|bwd|attn|attention|mla)|fmha|mha_v\d|\bmha_|sdpa|attention|splitkv|batch(prefill|decode)with|single(prefill|decode)with|mergestates?\b|merge_attn_states|prepare_varlen_num_blocks|compute_dot_do_o|_fwd_grouped_kernel_stage", "fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<float>::Params)"),

    // Optimizers by name, or by the functor of a multi-tensor kernel. A foreach addition has the
    // same kernel name and is elementwise below.
    rule(Optimizer, r"\[[^\]]*(adam|sgd|lamb|adagrad|novograd|lion)|(fused_?|apply_?)(adam|sgd|lamb|adagrad|momentum|rms_?prop)|\b(multi_tensor_)?(adam|adamw|lamb|sgd)_?(kernel|update|step)", "void at::native::multi_tensor_apply_kernel<at::native::FusedOptimizerTensorListMetadata<4>, at::native::FusedAdamMathFunctor<float, 4, 0, false>>(T1, T2)"),

    rule(Softmax, r"soft_?max|generatenormalizedprob", "void at::native::<unnamed>::cunn_SoftMaxForward<4, float, float, float, at::native::<unnamed>::SoftMaxForwardEpilogue>(T4 *, const T2 *, int)"),
    rule(Norm, r"(layer|rms|batch|group|instance)_?norm|gammabeta|rowwisemoments|computefusedparams|\bbn_(fw|bw)|\bln_(fwd|bwd)", "void at::native::<unnamed>::vectorized_layer_norm_kernel<float, float, false>(int, T2, const T1 *)"),

    // Losses: the forward value is a sum over samples, the gradient one value per sample.
    rule(Reduction, r"nll_loss\w*forward|nllcriterion_updateoutput", "void at::native::nll_loss_forward_reduce_cuda_kernel_2d<float, float, long>(T1 *, T1 *, const T1 *)"),
    rule(Elementwise, r"nll_loss\w*backward|nllcriterion_updategradinput", "void at::native::nll_loss_backward_reduce_cuda_kernel_2d<float, long>(T1 *, const T1 *)"),

    // Rotary embedding is arithmetic on positions, no table look-up. Before index, which claims
    // `embedding`.
    rule(Elementwise, r"rotary|\brope_|_rope(_|\b)", "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(const long *)"),
    rule(Random, r"distribution_(elementwise|nullary)|philox|curand|dropout|bernoulli|random|gen_sequenced|generate_seed", "void at::native::<unnamed>::distribution_elementwise_grid_stride_kernel<float, 4, void normal_kernel<at::CUDAGeneratorImpl *>()>(long)"),
    rule(Index, r"embedding|index_?select|indexfunc|index_elementwise|index_(put|add|copy|fill)|gather|scatter|get_rows|mergesort|radixsort|bitonic|\bsort|sort_|_sort|top_?k|unique|nonzero|searchsorted|histogram|masked_select|dynamicstitch|sampling|(reshape|concat)_and_cache|moe_align|routingi|expandinputrows", "void at::native::vectorized_gather_kernel<16, long>(char *, char *, T2 *, int)"),

    // Changes of layout, before the convolutions and products that they prepare.
    rule(Copy, r"im2col|col2im|nchwtonhwc|nhwctonchw|converttensor|shuffleintensor|transpose_readwrite", "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true, (cudnnKernelDataType_t)2>(float const*, float*)"),

    // Before matmul: implicit GEMM is the usual algorithm of a convolution.
    rule(Convolution, r"fprop|dgrad|wgrad|winograd|implicit_gemm|\dcudnn_|scudnn|convol|conv_?(fwd|bwd|dgrad|wgrad)|\bconv[1-3]?d?_|_conv[1-3]?d(_|\b)|depthwise|\bfft2d_", "ampere_scudnn_128x64_relu_medium_nn_v1"),

    // The sums over blocks that end a backward pass of `flopgap-mlp`.
    rule(Reduction, r"_mlp_(backward|gradients)_(mma_|wgmma_)?(fused_|pair_)?(sum|add)$", "coopmat_mlp_backward_wgmma_sum"),

    rule(Gemv, r"gemv|mul_mat_vec", "void gemv2T_kernel_val<int, int, float, float, float, 128, 16, 2, 2, false, false, cublasGemvParams<float>>(cublasGemvParams<float>, float, float)"),
    rule(Matmul, r"gemm|nvjet|mat(rix)?_?mul|\bbmm|_bmm_|\bmm_kernel|_mm_kernel|wgmma|cutlass|cublaslt_?mat|mul_mat|marlin|machete|fused_moe_kernel|fusion_dot|\bdot_fusion|__myl_fc", "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4_execute_kernel__5x_cublas"),

    // A whole network in one kernel: nearly all its work is products, whatever activation its name
    // mentions.
    rule(Matmul, r"mlp_fused|fused_mlp|fully_?fused|_mlp_(forward|backward|gradients)", "void tcnn::kernel_mlp_fused<128, 8, __half, (tcnn::Activation)0, false>(__half const*)"),

    // Movement without arithmetic. XLA and Myelin list what they fused, so these want movement and
    // nothing else.
    rule(Copy, r"^(wrapped|loop|input)(_(convert|transpose|concatenate|broadcast|slice|dynamic_slice|dynamic_update_slice|copy|pad|iota|reverse|bitcast))+(_fusion)?([._]\d+)*$", "loop_convert_fusion_2"),
    rule(Copy, r"^__myl_(move|tran|resh|slic|conc|cast|copy|repl)+_", "__myl_Move_myl0_1"),
    rule(Copy, r"\[[^\]]*copy|\[(tensor_)?(fill|zero|zeros|eye|arange|linspace|range)\]|catarray|\bcopy_|_copy(_|\b)|transpose|permute|\bcpy_|\bfill|triu_tril|\bcast_|\bconvert_|uninitialized_fill", "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char *, 1>>(int, T2, T3)"),

    rule(Reduction, r"reduc|\[[^\]]*norm|devicescan|_scan(_|\b)|\bscan_|cumsum|cumprod|arg_?(max|min)|pool(ing|_)|_pool\b|moe_sum|finalize(moe|kernel)|^cupy_(sum|prod|mean|var|std|amax|amin|max|min|nan\w+|any|all|count)(_core|__|$)", "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float, float, float>, unsigned int, float, 4, 4>>(T3)"),

    rule(Elementwise, r"elementwise|pointwise|multi_tensor_apply|gelu|relu|silu|swish|swiglu|tanh|sigmoid|clamp|threshold|activation|act_and_mul|quant|upsample|bin_bcast|\bbias|_gpu_dt_|eigenmetakernel|epilogue::impl|parallelforagent", "void at::native::vectorized_elementwise_kernel<4, at::native::<unnamed>::launch_clamp_scalar(at::TensorIteratorBase &)::[lambda() (instance 1)], std::array<char *, 2>>(int, T2, T3)"),
    rule(Elementwise, r"^cupy_|(^|_)fusion([._]\d+)*$|^(wrapped|loop|input)_|__mye?l_", "loop_add_fusion_3"),
    rule(Elementwise, r"\b[sdhcz]?axpy|\b[sdhcz]?scal_kernel|\b(vec|vector)_?(add|mul|sub)|\b(add|mul|sub|div|scale)_", "saxpy(double *, double *, double *, double, int)"),
];

static SET: LazyLock<RegexSet> = LazyLock::new(|| {
    // The patterns are constants, and a test compiles them.
    RegexSet::new(RULES.iter().map(|rule| rule.pattern)).expect("the rule table compiles")
});

/// The class of a lower-case subject.
pub(crate) fn class_of(subject: &str) -> KernelClass {
    SET.matches(subject).iter().next().map_or(Other, |index| RULES[index].class)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::info::subject_of;

    #[test]
    fn every_example_reaches_its_rule() {
        for (index, rule) in RULES.iter().enumerate() {
            let subject = subject_of(rule.example);
            let first = SET.matches(&subject).iter().next();
            let reached = first.map_or("none", |found| RULES[found].pattern);
            assert_eq!(first, Some(index), "{} ({subject}) reached {reached}", rule.example);
        }
    }

    #[test]
    fn patterns_are_lower_case() {
        for rule in RULES {
            assert!(!rule.pattern.bytes().any(|b| b.is_ascii_uppercase()), "{}", rule.pattern);
        }
    }
}
