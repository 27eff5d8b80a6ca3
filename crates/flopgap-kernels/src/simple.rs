//! The grouping key of an earlier analysis, kept so that its tables can be reproduced.

use std::sync::LazyLock;

use regex::Regex;

static PATTERN: LazyLock<Regex> = LazyLock::new(|| {
    // A constant pattern, compiled by every test of this module.
    Regex::new(r"[A-Za-z0-9_]+?_(?:nn|kernel|nt|tn)").expect("a constant pattern compiles")
});

/// The "simple kernel" of notebooks that use
/// `Series.str.extract(r'([A-Za-z0-9_]+?_(?:nn|kernel|nt|tn))')`.
///
/// The first match from the left, as short as possible, exactly as pandas finds it. **Not a key to
/// group by**:
///
/// - it is `None` for whole families that carry FLOPs (`nvjet_*`, `triton_*` without `_kernel`,
///   `softmax_warp_forward`, `cunn_SoftMaxForward`, NCCL, XLA fusions, Myelin), which a group-by
///   then drops silently;
/// - it cuts names inside: `gemv2T_kernel` of `gemv2T_kernel_val`, and every xmma tile becomes
///   `sm80_xmma_gemm_f32f32_f32f32_f32_tn`;
/// - on a mangled name it starts with the mangling
///   (`_ZN2at6native29vectorized_elementwise_kernel`).
///
/// Use [`base_name`](crate::base_name) or the class, and keep this for old tables.
///
/// ```
/// use flopgap_kernels::simple_kernel;
///
/// let name = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)";
/// assert_eq!(simple_kernel(name), Some("vectorized_elementwise_kernel"));
/// assert_eq!(simple_kernel("nvjet_sm90_tst_32x64_64x16_2x1_v_bz_NTN"), None);
/// ```
pub fn simple_kernel(name: &str) -> Option<&str> {
    PATTERN.find(name).map(|found| found.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftmost_and_lazy() {
        assert_eq!(simple_kernel("a_nn_tn_kernel"), Some("a_nn"));
        assert_eq!(
            simple_kernel("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize"),
            Some("sm80_xmma_gemm_f32f32_f32f32_f32_tn")
        );
        assert_eq!(simple_kernel("__kernel"), Some("__kernel"));
        assert_eq!(simple_kernel("_kernel"), None);
        assert_eq!(simple_kernel("µ_kernel a_kernel"), Some("a_kernel"));
    }
}
