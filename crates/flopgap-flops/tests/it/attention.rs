//! Attention by hand, and over the whole range of sizes.

use flopgap_flops::{Attention, AttentionMask, ElementType};
use proptest::prelude::*;

/// Stored in one byte per element, so that bytes are elements.
const BYTE: ElementType = ElementType::Fp8;

/// 2 heads of width 4 that share 1 key/value head; 2 sequences of 3 tokens. So 48 elements in Q, 24
/// in K and V, 36 scores.
#[test]
fn every_operation_by_hand() {
    let attention = Attention { kv_heads: 1, ..Attention::self_attention(2, 2, 3, 4) };
    let operations = [
        Attention::scores,
        Attention::scale,
        Attention::softmax,
        Attention::weighted_sum,
        Attention::fused_forward,
    ];
    let rows = operations.map(|operation| {
        let work = operation(&attention, BYTE).unwrap();
        (work.flops, work.bytes_read, work.bytes_written)
    });
    assert_eq!(
        rows,
        [
            (2 * 36 * 4, 48 + 24, 36),
            (36, 36, 36),
            (5 * 36, 36, 36),
            (2 * 36 * 4, 36 + 24, 48),
            (2 * (2 * 36 * 4) + 6 * 36, 48 + 24 + 24, 48),
        ]
    );
}

#[test]
fn scores_and_softmax_of_a_small_model() {
    let attention = Attention::self_attention(4, 12, 512, 64);
    let scores = attention.scores(ElementType::Fp32).unwrap();
    let softmax = attention.softmax(ElementType::Fp32).unwrap();
    assert_eq!((scores.flops, softmax.flops), (1_610_612_736, 62_914_560));
    assert_eq!(attention.weighted_sum(ElementType::Fp32).unwrap().flops, scores.flops);
    // 5 FLOPs per 8 bytes: bound by memory on every GPU.
    assert_eq!(8 * softmax.flops, 5 * softmax.bytes().unwrap());
}

proptest! {
    /// A causal mask costs between half of and all of the full one, and decoding token by token
    /// costs exactly the same pairs as one causal pass.
    #[test]
    fn decoding_adds_up_to_a_causal_pass(heads in 1_u64..5, length in 1_u64..60, width in 1_u64..20) {
        let full = Attention::self_attention(2, heads, length, width);
        let causal = Attention { mask: AttentionMask::Causal, ..full };
        let flops = |attention: Attention| attention.scores(ElementType::Fp16).unwrap().flops;
        prop_assert!(2 * flops(causal) >= flops(full) && flops(causal) <= flops(full));
        let decoded: u64 = (1..=length).map(|keys| flops(Attention { queries: 1, keys, ..full })).sum();
        prop_assert_eq!(decoded, flops(causal));
    }

    /// Nothing panics on any sizes.
    #[test]
    fn nothing_panics(sizes in any::<[u64; 6]>(), shift in 0_u32..64, causal: bool) {
        let [batch, heads, kv_heads, queries, keys, head_width] = sizes.map(|size| size >> shift);
        let mask = if causal { AttentionMask::Causal } else { AttentionMask::Full };
        let value_width = None;
        let attention = Attention { batch, heads, kv_heads, queries, keys, head_width, value_width, mask };
        let _ = attention.scores(ElementType::Fp32).and_then(|_| attention.weighted_sum(ElementType::Fp64));
        let _ = attention.fused_forward(ElementType::Fp16);
    }
}
