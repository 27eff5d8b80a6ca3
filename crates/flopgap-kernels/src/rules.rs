//! The rule table: which names belong to which class. Data, meant to be read from top to bottom.
//!
//! A rule sees the *subject* of a kernel, in lower case: the qualified name without template
//! arguments and parameters; then ` [op]` where a generic kernel names its operation; then
//! ` <arguments>` for pure launchers such as `cutlass::Kernel2`. So
//! `vectorized_elementwise_kernel<4, FillFunctor<float>, ...>` is
//! `at::native::vectorized_elementwise_kernel [fill]`, and `LoadWithCast` or a parameter's type
//! can claim nothing.
//!
//! The first rule that matches decides; the order carries the exceptions. Every rule has a real
//! name as its example, and a test checks that the example reaches its rule.

use std::sync::LazyLock;

use regex::RegexSet;

use crate::taxonomy::KernelClass::{
    self, Attention, Communication, Convolution, Copy, Elementwise, Gemv, Index, Layout, Matmul, Norm,
    Optimizer, Other, Random, Recurrence, Reduction, Softmax, SplitKReduce,
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
    // Memory operations are not kernels, but profiles list them next to kernels. The runtime of
    // ROCm runs them as kernels.
    rule(Copy, r"^\[?cuda mem(cpy|set)|^mem(cpy|set)\b|^__amd_rocclr_|^copy(host|device)to(host|device)", "[CUDA memcpy HtoD]"),

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

    // Between GPUs. Before reductions: an all-reduce is named after one. DeepEP is known by its
    // namespaces and functions, because it is built under several names.
    rule(Communication, r"nccl|nvshmem|rocshmem|msccl|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|(^|_)a2av?(_|\b)|a2a(dispatch|combine|prepare)|cross_device_|lamport|symm_mem|multimem|userbuffers|^ubx_kernel_|deep_?ep(::|_)|\b(intra|inter)node(_ll)?::|(^|_)notify_(dispatch|combine)|get_dispatch_layout|clean_low_latency_buffer|\bep(dispatch|combine)|push_pull_halos|quickreduce", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"),

    // The second kernel of a split-K product. Before matmul: counting it there would count the
    // product twice. xmma names it `execute_split_k_kernel`: on an H200 it runs after an
    // `execute_kernel` whose grid has 8 blocks in z and adds exactly 8 partial sums for each
    // output element, while the `execute_kernel` alone carries 2·M·N·K. Tensile's is named after
    // the product, too.
    rule(SplitKReduce, r"split_?k_?reduc|reduce_?split_?k|execute_split_k_kernel|^cij[kl]*_\w*_postgsu|gemm_\w*reduce_kernel", "void cublasLt::splitKreduce_kernel<32, 16, int, float, float, float, float, 0, float>(cublasLt::cublasSplitKParams<T6>)"),
    rule(Reduction, r"\bdot_kernel|\breduce_1block_kernel|\bi?[sdcz]?(asum|nrm2|amax|amin)_kernel", "void dot_kernel<float, 128, 0, cublasDotParams<cublasGemvTensorStridedBatched<float const>>>(cublasDotParams<float>)"),

    // The sum over the experts of a token, whatever else its name mentions.
    rule(Reduction, r"finalize_?(moe|kernel|matmul)|aux_loss", "void moe::dev::finalize::finalizeKernelVecLoad<moe::dev::finalize::KernelParams<cutlass::bfloat16_t, cutlass::bfloat16_t, 4, true>>(int)"),
    // Before what contains their words: the cache of attention, the routing to experts (whose
    // softmax is over a few of them) and the tables that a grouped product needs.
    rule(Index, r"(reshape|concat|cat)_and_cache|(store|fill|append|write|set|copy|flatten)_?(to_)?(mla_?)?(paged_?)?(mla_?)?kv_?(cache|buffer)|appendpagedkv|topk_?(gating|softmax|sigmoid)|moe_?softmax|grouped_?top_?k|moe_?(fused_?)?gate|routing|gemm_(starts|args)|setup_grouped_gemm|(problem_sizes|expert_offsets)\b", "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16, (vllm::Fp8KVCacheDataType)0>(__nv_bfloat16 const*)"),

    // A state along a sequence: scans of state-space models, chunks of linear attention, recurrent
    // networks. Before attention, products and scans, whose words they contain.
    rule(Recurrence, r"selective_(scan|state)|chunk_(scan|state|bwd|fwd|\w*cum(sum|prod))|(^|_)(state_passing|ssu)_|mamba|fused_recurrent|gated_delta|delta_rule|(^|_)(kda|gdn|gla|hgrn|dplr|rwkv\d?)_|(parallel|chunk)_(based|rebased|abc|simple_gla|delta)|(^|_)wkv|retention|linear_attn|lstm|(^|_|::|\d)gru(_|cell|\b)|\brnn_|_rnn(_|\b)|persistrnn|rnn\w*persist|elemwisernn|recompute_w_u|prepare_wy_repr|solve_tril|intra_chunk", "void selective_scan_fwd_kernel<Selective_Scan_fwd_kernel_traits<128, 16, 1, false, true, true, true, c10::BFloat16, float>>(SSMParamsBase)"),

    // Attention in one kernel, and what only attention launches. Before softmax, copy and matmul,
    // whose words such names contain. `attn_fwd` is that of Triton's tutorial and of AOTriton.
    rule(Attention, r"flash_?(fwd|bwd|attn|attention|mla|decod)|fmha|mha_v\d|(^|_|::)mha(_|\b)|sdpa|attention|(^|_|::)attn_|_attn(_|\d|\b)|compute_attn|paged_?att|splitkv|with(paged|ragged)?kvcache|merge_?(attn_)?states?(_|kernel|inplace|large|\b)|prepare_varlen_num_blocks|compute_dot_do_o|bwd_preprocess_do_o|convert_dq|(^|_)bwd_kernel_(split_)?(dk_?dv|dq|fuse)|^_?bwd_preprocess|token_att\d|_fwd_grouped_kernel_stage|(^|_|::)mla_(a\d|decode|prefill|fwd|bwd|reduce|metadata|softmax)|get_mla_metadata|sparse_mla|(^|_|::)pa_(a\d|bf16|fp16|decode|prefill|bwd|fwd|ragged)|sage_(fwd|attn|quant)|qk_int\d?_sv|mqa_logits|reduce_segments", "fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<float>::Params)"),

    // Optimizers by name, or by the functor of a multi-tensor kernel. A foreach addition has the
    // same kernel name and is elementwise below.
    rule(Optimizer, r"\[[^\]]*(adam|sgd|lamb(_|\])|adagrad|novograd|lion)|\[lamb|(fused_?|apply_?)(adam|sgd|lamb|adagrad|momentum|rms_?prop)|\b(multi_tensor_)?(adam|adamw|lamb|sgd)_?(cuda_kernel|kernel|update|step)|k?(precondition)?optimizer_?(static)?(precondition|update|\d)", "void at::native::multi_tensor_apply_kernel<at::native::FusedOptimizerTensorListMetadata<4>, at::native::FusedAdamMathFunctor<float, 4, 0, false>>(T1, T2)"),

    // Cross entropy is a softmax with a loss.
    rule(Softmax, r"soft_?max|generatenormalizedprob|cross_?entropy", "void at::native::<unnamed>::cunn_SoftMaxForward<4, float, float, float, at::native::<unnamed>::SoftMaxForwardEpilogue>(T4 *, const T2 *, int)"),
    rule(Norm, r"(layer|rms|batch|group|instance|weight|l2|qk|poly)_?norm|gammabeta|rowwisemoments|computefusedparams|computebackwardfusedparams|computeinternalgradients|cucomputegradinput|\bbn_(fw|bw)|\bln_(fwd|bwd)|\bwelford_", "void at::native::<unnamed>::vectorized_layer_norm_kernel<float, float, false>(int, T2, const T1 *)"),

    // Losses: the forward value is a sum over samples, the gradient one value per sample.
    rule(Reduction, r"nll_loss\w*forward|nllcriterion_updateoutput", "void at::native::nll_loss_forward_reduce_cuda_kernel_2d<float, float, long>(T1 *, T1 *, const T1 *)"),
    rule(Elementwise, r"nll_loss\w*backward|nllcriterion_updategradinput", "void at::native::nll_loss_backward_reduce_cuda_kernel_2d<float, long>(T1 *, const T1 *)"),

    // Activations and quantization beside a product that their name mentions.
    rule(Elementwise, r"(^|::)_?(fused_)?(silu|gelu|act|swiglu)_(and_)?mul_", "void vllm::act_and_mul_kernel<c10::BFloat16, &vllm::silu_kernel<c10::BFloat16>, true>(c10::BFloat16*)"),
    // Rotary embedding is arithmetic on positions, no table look-up. Before index, which claims
    // `embedding`.
    rule(Elementwise, r"rotary|\bm?rope_|_m?rope(_|\b)", "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(const long *)"),
    rule(Random, r"distribution_(elementwise|nullary)|philox|curand|dropout|bernoulli|random|gen_sequenced|generate_seed", "void at::native::<unnamed>::distribution_elementwise_grid_stride_kernel<float, 4, void normal_kernel<at::CUDAGeneratorImpl *>()>(long)"),
    rule(Index, r"embedding|index_?select|indexfunc|index_elementwise|index_(put|add|copy|fill)|gather|scatter|get_rows|mergesort|radixsort|bitonic|argsort|block_?sort|\bsort|sort_|_sort|sorting|top_?k|top_?p(_|renorm|sampl)|unique|nonzero|searchsorted|histogram|masked_select|dynamicstitch|sampling|rejection_|moe_?(align|permute)|unpermute|permute_?tokens|expand_?input_?rows|device(select|rle|partition|uniquebykey|compactinit)|bitmatrix|expt_data|(bounds_check|linearize|delinearize)_ind|linearize_index|bucketize|jagged|sparse_(data|features)|sum_and_scatter|compute_grad_weight|partials?_per_segment|partial_segment|fbgemm_gpu::\w*permute|permute_(pooled|\dd_(data|lengths)|indices|lengths)", "void at::native::vectorized_gather_kernel<16, long>(char *, char *, T2 *, int)"),

    // Changes of layout and expansions, before the convolutions and products that they prepare.
    rule(Layout, r"n(chw|hwc|cdhw|dhwc)_?to_?\w?n?(chw|hwc|cdhw|dhwc)|nchwto|nhwcto|ncdhwto|foldednhwc|transpose_readwrite|batched_transpose|shuffleintensor|swapdimension|reformat|repack|interleave_\w*weights", "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true, (cudnnKernelDataType_t)2>(float const*, float*)"),
    rule(Copy, r"im2col|col2im|converttensor|addpadding", "void cudnn::cnn::im2col4d_kernel<float, long>(cudnn::cnn::im2col4d_params, cudnnConvolutionStruct, cudnnTensor4dStruct, float const*)"),

    // Before matmul: implicit GEMM is the usual algorithm of a convolution. MIOpen's and
    // Composable Kernel's are named after products, too.
    rule(Convolution, r"\dfprop|_fprop_|conv\w*fprop|dgrad|wgrad|winograd|implicit_gemm|\bigemm_(fwd|bwd|wrw)|gemm\w*bwd_(weight|data)|\dcudnn_|scudnn|convol|conv_?(fwd|bwd|dgrad|wgrad)|(naive|direct|asm|gridwise|grouped)_?conv|\bconv[1-3]?d?_|_conv[1-3]?d(_|\b)|depthwise|\bfft2d_", "ampere_scudnn_128x64_relu_medium_nn_v1"),

    // The sums over blocks that end a backward pass of `flopgap-mlp`.
    rule(Reduction, r"_mlp_(backward|gradients)_(mma_|wgmma_)?(fused_|pair_)?(sum|add)$", "coopmat_mlp_backward_wgmma_sum"),

    // Products with one row or a few: `wvSplitK` is ROCm's for one token, `bgmv` that of LoRA.
    rule(Gemv, r"gemv|mul_mat_vec|matvec|wvsplitk|wv_splitk|[bs]gmv_|spmv|csrmv|rocblas_\w*gemvt", "void gemv2T_kernel_val<int, int, float, float, float, 128, 16, 2, 2, false, false, cublasGemvParams<float>>(cublasGemvParams<float>, float, float)"),
    // A library's namespace says nothing of a kernel: `deep_gemm::transpose` is no product.
    rule(Matmul, r"gemm[^:]*( |$)|gemm::(kernel|run)\b|^(custom_)?cij[kl]*_a|nvjet|mat(rix)?_?mul|\bbmm|_bmm_|\bmm_kernel|_mm_kernel|wgmma|cutlass|cublaslt_?mat|mul_mat|marlin|machete|(^|_|::)t?gmm(_|\b)|flatmm|fmoe|fused_moe(_|kernel)|lora_(shrink|expand)|moe_stage[12]|gate_?up|(up|down|gate)_proj|spmm|csrmm|sddmm|fusion_dot|\bdot_fusion|__myl_fc", "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4_execute_kernel__5x_cublas"),

    // A whole network in one kernel: nearly all its work is products, whatever activation its name
    // mentions.
    rule(Matmul, r"mlp_fused|fused_mlp|fully_?fused|_mlp_(forward|backward|gradients)", "void tcnn::kernel_mlp_fused<128, 8, __half, (tcnn::Activation)0, false>(__half const*)"),

    // Movement without arithmetic. XLA and Myelin list what they fused, so these want movement and
    // nothing else.
    rule(Layout, r"^((wrapped|loop|input)_)?((convert|copy|bitcast|reverse)_)*transpose(_(convert|copy|bitcast|reverse|transpose))*(_fusion)?([._]\d+)*$", "wrapped_transpose"),
    rule(Reduction, r"^(loop|input)_\w*reduce", "input_reduce_transpose_fusion"),
    rule(Copy, r"^(wrapped|loop|input)(_(convert|transpose|concatenate|broadcast|slice|dynamic_slice|dynamic_update_slice|copy|pad|iota|reverse|bitcast))+(_fusion)?([._]\d+)*$", "loop_convert_fusion_2"),
    rule(Elementwise, r"^(loop|input)_\w*transpose\w*fusion", "loop_transpose_multiply_fusion"),
    rule(Layout, r"^__myl_(move|resh|cast|copy)*tran(move|resh|cast|copy|tran)*_", "__myl_MoveTran_myl0_1"),
    rule(Copy, r"^__myl_(move|tran|resh|slic|conc|cast|copy|repl)+_", "__myl_Move_myl0_1"),
    // A transpose with arithmetic: quantization, bias, activation.
    rule(Elementwise, r"(cast|quant\w*|bias\w*|gelu|swiglu)_?(and_)?transpose|transpose_?\w*quant", "void transformer_engine::<unnamed>::cast_transpose_general<8, 4, float, __nv_bfloat16, __nv_fp8_e4m3>(int)"),
    rule(Layout, r"transpose|permut(e|ation)|swap_(first|last)_dims|row_?tocol|transformrowtoformat", "void deep_gemm::transpose_fp32<512u, 64u, 56u>(float const*, float*, unsigned int)"),
    rule(Elementwise, r"cast_\w*(mx)?fp[48]|cast_to_fp|(down|up)cast|cast_back|scaling_partial_cast|convert_fp8", "void cuda::per_token_cast_to_fp8_with_channels<__nv_bfloat16, 128, false, 128, false>(__nv_bfloat16 const*, int, unsigned char*, float*)"),
    rule(Copy, r"\[[^\]]*copy|\[(tensor_)?(fill|zero|zeros|eye|arange|linspace|range)\]|catarray|\bcopy_|_copy(_|\b)|\bcpy_|\bfill|triu_tril|\bcast_(float|half|int|bool|gpu)|\bconvert_|uninitialized_fill|(^|_)(memset|zero_pad)_|repeatbuffer|concat|subtensoropwithcast|kv_trans_|\b(roll|flip)_(cuda_)?kernel", "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char *, 1>>(int, T2, T3)"),

    rule(Reduction, r"reduc|\[[^\]]*norm|devicescan|_scan(_|\b)|\bscan_|cumsum|cumprod|arg_?(max|min)|pool(ing|_)|_pool\b|moe_sum|_loss_|logsumexp|kldiv|^cupy_(sum|prod|mean|var|std|amax|amin|max|min|nan\w+|any|all|count)(_core|__|$)", "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float, float, float>, unsigned int, float, 4, 4>>(T3)"),

    rule(Elementwise, r"elementwise|pointwise|multi_tensor_apply|gelu|relu|silu|swish|[sg][wie]+glu|tanh|sigmoid|clamp|threshold|activation|act_and_mul|quant|penalt|upsample|bin_bcast|\bbias|_bias(_|\b)|add_?bias|biasadd|addbias|_gpu_dt_|eigenmetakernel|epilogue::impl|parallelforagent|subtensorop|transform::transform_kernel|for_each::static_kernel", "void at::native::vectorized_elementwise_kernel<4, at::native::<unnamed>::launch_clamp_scalar(at::TensorIteratorBase &)::[lambda() (instance 1)], std::array<char *, 2>>(int, T2, T3)"),
    // A cast alone, after what quantizes.
    rule(Copy, r"\bcast_|(^|_)cast(_|\b)", "void cast_kernel<float, __half>(float const*, __half*, int)"),
    rule(Elementwise, r"^cupy_|(^|_)fusion([._]\d+)*$|^(wrapped|loop|input)_|__mye?l_", "loop_add_fusion_3"),
    rule(Elementwise, r"\b[sdhcz]?axpy|\b[sdhcz]?scal_kernel|\b(vec|vector)_?(add|mul|sub)|\b_?(add|mul|sub|div|scale)_", "saxpy(double *, double *, double *, double, int)"),
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
